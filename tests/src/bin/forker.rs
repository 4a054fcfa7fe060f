//! A service that forks as the tests need it: `forker CONNECTION` draws ids of the tag
//! `orders` and snowflake ids, forks, and draws again in the parent and in the child. It
//! prints the ids of both processes, in a line each.
//!
//! In the child, everything that was made before the fork must fail, and what is made
//! anew must work.

use fork::{Fork, fork, waitpid};
use leaf_sdk::{Config, Error, IdSource, Leaf, SnowflakeConfig, init, leaf, next};
use std::time::Duration;

/// As many as all buffers of the parent have at the fork.
const COUNT: usize = 2_000;

fn main() {
    let connection = std::env::args().nth(1).expect("a connection string");
    let config = || {
        let config = Config::new(&connection).expect("a connection string");
        config.timeout(Duration::from_secs(60))
    };
    init(config()).expect("a handle");
    let parent = leaf().expect("a handle");
    let orders = parent.segment("orders");
    let events = events(parent);
    let mut ids = draw(&orders);
    ids.extend(draw(&events));
    match fork().expect("a child") {
        Fork::Parent(child) => {
            ids.extend(draw(&orders));
            ids.extend(draw(&events));
            let status = waitpid(child).expect("the child ends");
            assert_eq!(status, 0, "the child failed");
        }
        Fork::Child => {
            refused(&orders);
            refused(&events);
            refused(&parent.segment("orders"));
            refused(&parent.segment("never used"));
            let is_forked = |error| assert!(matches!(error, Some(Error::Forked)), "{error:?}");
            is_forked(next("orders").err());
            is_forked(parent.close().err());
            is_forked(events.close().err());
            is_forked(parent.snowflake(SnowflakeConfig::new("x")).err());
            assert!(parent.stats().is_empty());
            assert!(orders.stats().last_error.is_some());
            assert!(events.stats().last_error.is_some());
            assert_eq!(events.worker_id(), None);

            assert!(matches!(init(config()), Err(Error::Global(_))));
            let own = Leaf::new(config()).expect("a handle of the child");
            ids = draw(&own.segment("orders"));
            ids.extend(draw(&self::events(&own)));
            own.close().expect("the server answers");
        }
    }
    let ids: Vec<_> = ids.iter().map(i64::to_string).collect();
    println!("{}", ids.join(" "));
}

fn events(leaf: &Leaf) -> leaf_sdk::SnowflakeGenerator {
    let config = SnowflakeConfig::new("forker");
    leaf.snowflake(config).expect("a generator")
}

fn draw(source: &impl IdSource) -> Vec<i64> {
    let ids = source.next_n(COUNT).expect("ids");
    let more = (0..COUNT).map(|_| source.next().expect("an id"));
    ids.into_iter().chain(more).map(Into::into).collect()
}

fn refused(source: &impl IdSource) {
    let is_forked = |error| assert!(matches!(error, Some(Error::Forked)), "{error:?}");
    assert!(source.try_next().is_none());
    is_forked(source.next().err());
    is_forked(source.next_timeout(Duration::MAX).err());
    is_forked(source.next_n(10).err());
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().expect("a runtime");
    is_forked(runtime.block_on(source.next_async()).err());
    is_forked(runtime.block_on(source.next_n_async(10)).err());
    is_forked(source.ready().err());
    is_forked(runtime.block_on(source.ready_async()).err());
}
