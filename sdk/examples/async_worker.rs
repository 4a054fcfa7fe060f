//! Tasks of an async runtime that draw both kinds of ids.
//!
//! `cargo run --features async --example async_worker -- 'host=/run/postgresql user=postgres'`

use std::error::Error;

use leaf_sdk::{Config, IdSource, Leaf, SegmentId, SnowflakeConfig, SnowflakeId};

/// One pair of ids for each of `jobs` jobs, all at once.
pub async fn run(
    connection: &str,
    jobs: usize,
) -> Result<Vec<(SegmentId, SnowflakeId)>, Box<dyn Error>> {
    let leaf = Leaf::new(Config::new(connection)?)?;
    let orders = leaf.segment("orders");
    let events = leaf.snowflake(SnowflakeConfig::new("async worker"))?;
    let tasks: Vec<_> = (0..jobs)
        .map(|_| {
            let (orders, events) = (orders.clone(), events.clone());
            tokio::spawn(async move {
                let order = orders.next_async().await?;
                Ok::<_, leaf_sdk::Error>((order, events.next_async().await?))
            })
        })
        .collect();
    let mut pairs = Vec::with_capacity(jobs);
    for task in tasks {
        pairs.push(task.await??);
    }
    leaf.close_async().await?;
    Ok(pairs)
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn Error>> {
    let connection = std::env::args().nth(1).ok_or("give a connection string")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    for (order, event) in runtime.block_on(run(&connection, 5))? {
        println!("order {order}, event {event}");
    }
    Ok(())
}
