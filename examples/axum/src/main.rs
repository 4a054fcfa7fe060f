//! A web service that takes orders. The id of an order comes from the client library, so
//! that it is known before anything is written, and the answer can be given its address.
//! The lines of the order get theirs from the default of the column.
//!
//! ```sh
//! DATABASE_URL=postgres://shop@localhost/shop cargo run -p leaf-example-axum
//!
//! curl -s localhost:3000/orders -H 'content-type: application/json' -d '{"items": ["tea", "cups"]}'
//! curl -s localhost:3000/orders/1
//! ```

use std::env;
use std::error::Error;

use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use leaf_sdk::{Config, IdSource, Leaf, SegmentId, SegmentSource};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What every request uses.
#[derive(Clone)]
struct Shop {
    pool: PgPool,
    orders: SegmentSource,
}

#[derive(Deserialize)]
struct NewOrder {
    items: Vec<String>,
}

#[derive(Serialize)]
struct Order {
    /// A string in JSON, because JavaScript rounds large numbers.
    id: SegmentId,
    lines: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    /// A snowflake id: a string as well.
    id: String,
    item: String,
}

/// An error that the caller sees as 500 and the log with its reason.
struct Failed(Box<dyn Error>);

impl<E: Into<Box<dyn Error>>> From<E> for Failed {
    fn from(error: E) -> Self {
        Failed(error.into())
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        eprintln!("{}", self.0);
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}

const TABLES: [&str; 3] = [
    "SELECT leaf_tag_create('orders', if_not_exists => true)",
    "CREATE TABLE IF NOT EXISTS orders (id bigint PRIMARY KEY)",
    "CREATE TABLE IF NOT EXISTS order_lines (
         id       bigint PRIMARY KEY DEFAULT leaf_snowflake_next(),
         order_id bigint NOT NULL REFERENCES orders,
         item     text NOT NULL)",
];

async fn create(State(shop): State<Shop>, Json(order): Json<NewOrder>) -> Result<Response, Failed> {
    // From a buffer in this process; the database is asked for ids now and then.
    let id = shop.orders.next_async().await?;
    let mut transaction = shop.pool.begin().await?;
    sqlx::query("INSERT INTO orders (id) VALUES ($1)")
        .bind(id)
        .execute(&mut *transaction)
        .await?;
    sqlx::query("INSERT INTO order_lines (order_id, item) SELECT $1, unnest($2::text[])")
        .bind(id)
        .bind(&order.items)
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await?;
    let address = [(header::LOCATION, format!("/orders/{id}"))];
    let body = Json(serde_json::json!({ "id": id }));
    Ok((StatusCode::CREATED, address, body).into_response())
}

async fn show(State(shop): State<Shop>, Path(id): Path<i64>) -> Result<Response, Failed> {
    let found: Option<SegmentId> = sqlx::query_scalar("SELECT id FROM orders WHERE id = $1")
        .bind(id)
        .fetch_optional(&shop.pool)
        .await?;
    let Some(id) = found else {
        return Ok(StatusCode::NOT_FOUND.into_response());
    };
    let lines: Vec<(i64, String)> =
        sqlx::query_as("SELECT id, item FROM order_lines WHERE order_id = $1 ORDER BY id")
            .bind(id)
            .fetch_all(&shop.pool)
            .await?;
    let lines = lines.into_iter().map(|(id, item)| Line {
        id: id.to_string(),
        item,
    });
    Ok(Json(Order {
        id,
        lines: lines.collect(),
    })
    .into_response())
}

/// Waits for SIGTERM, which systemd and Kubernetes send, or for Ctrl-C.
async fn stopped(mut terminated: Signal) {
    tokio::select! {
        _ = terminated.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let database = env::var("DATABASE_URL").map_err(|_| "DATABASE_URL is not set")?;
    let listen = env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());

    let pool = PgPool::connect(&database).await?;
    for statement in TABLES {
        sqlx::query(statement).execute(&pool).await?;
    }
    let leaf = Leaf::new(Config::new(&database)?)?;
    let orders = leaf.segment("orders");
    let shop = Shop { pool, orders };
    let app = Router::new()
        .route("/orders", post(create))
        .route("/orders/{id}", get(show))
        .with_state(shop);

    let terminated = signal(SignalKind::terminate())?;
    let listener = TcpListener::bind(&listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app)
        .with_graceful_shutdown(stopped(terminated))
        .await?;
    // Gives the ids back that were not used.
    leaf.close_async().await?;
    Ok(())
}
