//! What a service does without leaf: it asks a sequence through a driver.

use std::time::{Duration, Instant};

use leaf_tests::Server;
use tokio::task::LocalSet;
use tokio_postgres::{Client, NoTls};

use crate::latency::{Latency, summary_of};

/// Numbers of the sequence `s`, on as many connections at once, from one thread.
pub fn nextval(server: &Server, connections: usize, count: usize, duration: Duration) -> Latency {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    LocalSet::new().block_on(&runtime, async {
        let mut clients = Vec::new();
        for _ in 0..connections {
            let connected = tokio_postgres::connect(&server.connection_string(), NoTls).await;
            let (client, connection) = connected.expect("a connection");
            tokio::task::spawn_local(connection);
            clients.push(client);
        }
        let start = Instant::now();
        let callers: Vec<_> = clients
            .into_iter()
            .map(|client| tokio::task::spawn_local(call(client, count as i64, start + duration)))
            .collect();
        let mut all = Vec::new();
        for caller in callers {
            all.extend(caller.await.expect("a caller that failed said why"));
        }
        summary_of(all, start.elapsed())
    })
}

async fn call(client: Client, count: i64, end: Instant) -> Vec<Duration> {
    let statement = client
        .prepare("SELECT nextval('s') FROM generate_series(1, $1::bigint)")
        .await
        .expect("a statement");
    let mut latencies = Vec::with_capacity(1 << 16);
    loop {
        let start = Instant::now();
        if start > end {
            return latencies;
        }
        let rows = client.query(&statement, &[&count]).await.expect("rows");
        assert_eq!(rows.len() as i64, count);
        latencies.push(start.elapsed());
    }
}
