//! An order in JSON. Its id is a string there, because JavaScript would round the
//! number.
//!
//! `cargo run --features serde --example order_json -- 'host=/run/postgresql user=postgres'`

use std::error::Error;

use leaf_sdk::{Config, IdSource, Leaf, SnowflakeConfig, SnowflakeId};
use serde::{Deserialize, Serialize};

/// What is sent.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Made in this process, without a call to the database.
    pub id: SnowflakeId,
    /// What was ordered.
    pub item: String,
}

/// An order and its JSON.
pub fn run(connection: &str) -> Result<(Order, String), Box<dyn Error>> {
    let leaf = Leaf::new(Config::new(connection)?)?;
    let ids = leaf.snowflake(SnowflakeConfig::new("order service"))?;
    let order = Order {
        id: ids.next()?,
        item: "tea".into(),
    };
    let json = serde_json::to_string(&order)?;
    ids.close()?;
    Ok((order, json))
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn Error>> {
    let connection = std::env::args().nth(1).ok_or("give a connection string")?;
    println!("{}", run(&connection)?.1);
    Ok(())
}
