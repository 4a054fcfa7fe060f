//! A service that gives every request an id, from several threads.
//!
//! `cargo run --example service -- 'host=/run/postgresql user=postgres'`

use std::error::Error;
use std::thread;

use leaf_sdk::{Config, IdSource, Leaf, SegmentId};

/// A request that was handled.
#[derive(Debug)]
pub struct Handled {
    /// The order's id.
    pub id: SegmentId,
    /// Which thread handled it.
    pub thread: usize,
}

/// Handles `requests` requests in each of four threads.
pub fn run(connection: &str, requests: usize) -> Result<Vec<Handled>, Box<dyn Error>> {
    let leaf = Leaf::new(Config::new(connection)?)?;
    let orders = leaf.segment("orders");
    let handle = |thread: usize| -> Result<Vec<Handled>, leaf_sdk::Error> {
        // Ids are at hand in memory; no request waits for the database.
        let ids = (0..requests).map(|_| orders.next());
        ids.map(|id| id.map(|id| Handled { id, thread })).collect()
    };
    let handled: Vec<_> = thread::scope(|scope| {
        let handle = &handle;
        let threads: Vec<_> = (0..4).map(|n| scope.spawn(move || handle(n))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    // Return the ids that were not used.
    leaf.close()?;
    let handled: Result<Vec<_>, _> = handled.into_iter().collect();
    Ok(handled?.into_iter().flatten().collect())
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn Error>> {
    let connection = std::env::args().nth(1).ok_or("give a connection string")?;
    for handled in run(&connection, 3)? {
        println!("order {} by thread {}", handled.id, handled.thread);
    }
    Ok(())
}
