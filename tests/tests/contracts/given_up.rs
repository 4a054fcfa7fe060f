//! Calls that wait, and are given up: each of the ways to ask has its own way to do that.

use std::io::Write;
use std::net::TcpStream;
use std::thread;

use leaf_sdk::IdSource;
use leaf_tests::postgres::Client;
use leaf_tests::{Draw, wait_for_caller, wait_until};

use crate::table::{World, answer};

/// Locks what calls will wait for; the session that has locked it.
fn hold_up(world: &World, lock: &str) -> Client {
    let mut holder = world.server.connect();
    holder.run(&format!("BEGIN; {lock}"));
    holder
}

/// Cancels a statement; what the session gets when it repeats it without the lock.
pub fn cancelled(world: &World, lock: &str, statement: &str) -> String {
    let mut holder = hold_up(world, lock);
    let mut client = world.client();
    let pid = client.number("SELECT pg_backend_pid()::bigint");
    thread::scope(|scope| {
        let call = scope.spawn(|| answer(&mut client, statement));
        wait_for_caller(&world.server);
        // A cancel request of a client signals twice, and may cancel the statement after this one, too.
        world
            .client()
            .run(&format!("SELECT pg_cancel_backend({pid})"));
        assert_eq!(call.join().expect("no panic"), "57014, no hint");
    });
    holder.run("ROLLBACK");
    answer(&mut client, statement)
}

/// Drops the future of a draw; the id that the source returns without the lock.
pub fn dropped<S>(world: &World, lock: &str, source: S) -> S::Id
where
    S: IdSource + Clone + Send + Sync + 'static,
{
    let mut holder = hold_up(world, lock);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.enable_time().build().expect("a runtime");
    let waiting = source.clone();
    let call = runtime.spawn(async move { waiting.next_async().await });
    wait_for_caller(&world.server);
    call.abort();
    let end = runtime.block_on(call).map(drop).expect_err("no answer");
    assert!(end.is_cancelled(), "{end}");
    holder.run("ROLLBACK");
    source.next().expect("the source goes on")
}

/// Closes the connection of a request; another one is answered without the lock.
pub fn closed(world: &World, lock: &str, path: &str) {
    let serve = world.serve();
    let connections = || serve.metric("leafctl_connections");
    let before = connections();
    let mut holder = hold_up(world, lock);
    let mut request = TcpStream::connect(serve.address()).expect("a connection");
    write!(request, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("a request");
    wait_for_caller(&world.server);
    assert!(connections() > before);
    drop(request);
    wait_until("its end is noticed", || connections() == before);
    holder.run("ROLLBACK");
    assert_eq!(serve.get(path).ids().len(), 1);
}
