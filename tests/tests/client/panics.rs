//! Code of the program that the background runs: a panic in it ends one attempt, and code that
//! hangs holds up no call for ever.

use crate::{PATIENCE, config};
use leaf_sdk::{Error, IdSource, Leaf, SnowflakeConfig};
use leaf_tests::{Draw, Server, wait_until};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, registry};

/// What happens at an event of the library.
#[derive(Clone, Copy)]
enum Fault {
    Panic { times: u32 },
    Hang,
}

static FAULT: Mutex<Option<(&str, Fault)>> = Mutex::new(None);

struct Faulty;

impl<S: Subscriber> Layer<S> for Faulty {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        struct Message(String);
        impl Visit for Message {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                if field.name() == "message" {
                    self.0 = format!("{value:?}");
                }
            }
        }
        let mut message = Message(String::new());
        event.record(&mut message);
        let mut fault = FAULT.lock().expect("nothing panics under it");
        match &mut *fault {
            Some((at, Fault::Panic { times })) if *at == message.0 && *times > 0 => {
                *times -= 1;
                drop(fault);
                panic!("the subscriber is broken");
            }
            Some((at, Fault::Hang)) if *at == message.0 => {
                drop(fault);
                loop {
                    thread::park();
                }
            }
            _ => {}
        }
    }
}

/// A server with the tag `orders`, and a handle of a program whose subscriber has this fault.
fn faulty(at: &'static str, fault: Fault, timeout: Duration) -> (Server, Leaf) {
    registry().with(Faulty).init();
    *FAULT.lock().expect("nothing panics under it") = Some((at, fault));
    let (server, _) = Server::with_orders(100);
    let config = config(&server, timeout).steps(10, 10);
    let config = config.query_timeout(PATIENCE);
    (server, Leaf::new(config).expect("a handle"))
}

#[test]
fn tag_outlives_a_panic_after_its_block_has_come() {
    let (server, leaf) = faulty("refilled", Fault::Panic { times: 3 }, PATIENCE);
    let orders = leaf.segment("orders");
    for id in 1..=100 {
        assert_eq!(orders.next().expect("an id").get(), id);
    }
    let said = orders.stats().last_error.expect("it is told");
    assert!(said.contains("the subscriber is broken"), "{said}");
    leaf.close().expect("the ids are given back");
    assert_eq!(server.connect().next("orders").expect("an id"), 101);
}

#[test]
fn lease_outlives_a_panic_after_it_was_granted() {
    for at in ["registered", "lease renewed"] {
        if at == "registered" {
            registry().with(Faulty).init();
        }
        *FAULT.lock().expect("nothing panics under it") = Some((at, Fault::Panic { times: 2 }));
        let server = Server::start();
        let leaf = Leaf::new(config(&server, PATIENCE)).expect("a handle");
        let node = SnowflakeConfig::new("faulty").lease(Duration::from_secs(1));
        let ids = leaf.snowflake(node).expect("a generator");
        wait_until("it has panicked", || {
            ids.next().expect("an id");
            let fault = FAULT.lock().expect("nothing panics under it");
            matches!(*fault, Some((_, Fault::Panic { times: 0 })))
        });
        ids.next().expect("an id");
        leaf.close().expect("the lease is released");
    }
}

#[test]
fn health_and_errors_name_a_panic_that_does_not_end() {
    let panic = Fault::Panic { times: u32::MAX };
    let (_server, leaf) = faulty("connected", panic, Duration::from_secs(1));
    let orders = leaf.segment("orders");
    let mut error = None;
    wait_until("the error names it", || {
        error = orders.next().err();
        matches!(&error, Some(Error::Timeout { last: Some(last), .. }) if last.contains("the subscriber is broken"))
    });
    assert!(error.expect("an error").is_retryable());
    let health = leaf.health();
    assert_eq!(health.starving, ["orders"]);
    let said = health.last_error.expect("it is told");
    assert!(said.contains("the subscriber is broken"), "{said}");
    *FAULT.lock().expect("nothing panics under it") = None;
    wait_until("ids come", || orders.next().is_ok());
}

#[test]
fn close_ends_although_the_background_hangs() {
    let (_server, leaf) = faulty("handed back", Fault::Hang, Duration::from_secs(1));
    wait_until("there are ids", || leaf.segment("orders").next().is_ok());
    let error = leaf.close().expect_err("nobody answers");
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
}
