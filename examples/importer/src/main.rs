//! Imports orders from a CSV file. Two tables are filled with COPY, and the second refers to
//! the first, so ids must be known before: a batch reserves a block of consecutive ids.
//!
//! ```sh
//! printf 'customer,items\nada,tea;cups\nbob,pots\n' >orders.csv
//! cargo run -p leaf-example-importer -- --database 'host=/run/postgresql user=shop' orders.csv
//! ```
//!
//! A batch is a transaction. After an error, the batches before it are kept, and the line that
//! could not be read is named. The ids of a batch that failed are not used again: a gap.

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;

use clap::Parser;
use postgres::{Client, NoTls, Transaction};
use serde::Deserialize;

/// Imports orders from a CSV file with the columns `customer` and `items`.
#[derive(Parser)]
struct Arguments {
    /// Where the database is, as libpq reads it.
    #[arg(long, env = "DATABASE")]
    database: String,

    /// Orders in a transaction.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,

    /// The file.
    file: PathBuf,
}

#[derive(Deserialize)]
struct Order {
    customer: String,
    /// Separated by semicolons.
    items: String,
}

const TABLES: &str = "
    SELECT leaf_tag_create('imported_orders', if_not_exists => true);
    CREATE TABLE IF NOT EXISTS imported_orders (
        id       bigint PRIMARY KEY DEFAULT leaf_segment_next('imported_orders'),
        customer text NOT NULL);
    CREATE TABLE IF NOT EXISTS imported_items (
        order_id bigint NOT NULL REFERENCES imported_orders,
        item     text NOT NULL);";

const RESERVE: &str = "
    SELECT lower(block) FROM leaf_segment_reserve('imported_orders', $1) AS block";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let mut client = Client::connect(&arguments.database, NoTls)?;
    client.batch_execute(TABLES)?;
    let mut file = csv::Reader::from_path(&arguments.file)?;
    let mut orders = file.deserialize::<Order>();
    let mut imported = 0;
    loop {
        let batch = orders.by_ref().take(arguments.batch as usize);
        let batch = batch.collect::<Result<Vec<_>, _>>()?;
        if batch.is_empty() {
            break;
        }
        let mut transaction = client.transaction()?;
        let first = import(&mut transaction, &batch)?;
        transaction.commit()?;
        imported += batch.len();
        println!("{} orders, ids from {first} on", batch.len());
    }
    println!("{imported} orders imported");
    Ok(())
}

/// Writes a batch; its first id.
fn import(transaction: &mut Transaction, batch: &[Order]) -> Result<i64, Box<dyn Error>> {
    let first: i64 = transaction
        .query_one(RESERVE, &[&(batch.len() as i64)])?
        .get(0);
    let numbered = || (first..).zip(batch);
    let orders = numbered().map(|(id, order)| [id.to_string(), order.customer.clone()]);
    copy(transaction, "imported_orders (id, customer)", orders)?;
    let items = numbered().flat_map(|(id, order)| {
        let items = order.items.split(';').filter(|item| !item.is_empty());
        items.map(move |item| [id.to_string(), item.to_owned()])
    });
    copy(transaction, "imported_items (order_id, item)", items)?;
    Ok(first)
}

fn copy(
    transaction: &mut Transaction,
    table: &str,
    rows: impl Iterator<Item = [String; 2]>,
) -> Result<(), Box<dyn Error>> {
    let command = format!("COPY {table} FROM STDIN WITH (FORMAT csv)");
    let mut writer = csv::Writer::from_writer(transaction.copy_in(&command)?);
    for row in rows {
        writer.write_record(row)?;
    }
    let mut copy = writer.into_inner().map_err(|error| error.into_error())?;
    copy.flush()?;
    copy.finish()?;
    Ok(())
}
