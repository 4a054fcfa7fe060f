//! Rows that have their ids before they reach the database, so that rows of
//! another table can refer to them in the same load.
//!
//! `cargo run --example batch_import -- 'host=/run/postgresql user=postgres'`

use std::error::Error;
use std::io::Write;

use leaf_sdk::{Config, IdSource, Leaf};
use postgres::{Client, NoTls};

/// Loads `count` orders with an item each into tables `orders (id bigint)` and
/// `items (order_id bigint)`; how many there are then.
pub fn run(connection: &str, count: usize) -> Result<i64, Box<dyn Error>> {
    let leaf = Leaf::new(Config::new(connection)?)?;
    let ids = leaf.segment("orders").next_n(count)?;

    let mut client = Client::connect(connection, NoTls)?;
    let mut transaction = client.transaction()?;
    for table in ["orders (id)", "items (order_id)"] {
        let mut rows = transaction.copy_in(&format!("COPY {table} FROM STDIN"))?;
        for id in &ids {
            writeln!(rows, "{id}")?;
        }
        rows.finish()?;
    }
    transaction.commit()?;
    leaf.close()?;
    let joined = "SELECT count(*) FROM orders JOIN items ON order_id = id";
    Ok(client.query_one(joined, &[])?.get(0))
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn Error>> {
    let connection = std::env::args().nth(1).ok_or("give a connection string")?;
    println!("{} orders with their items", run(&connection, 10_000)?);
    Ok(())
}
