//! Callers that draw all the time while servers take over from each other: sessions, and
//! services with the client library.

use crate::timeline::{CallerLine, Timeline};
use crate::{Answers, Stop, wait_until};
use leaf_sdk::{Error, Leaf, SnowflakeConfig};
use postgres::error::SqlState;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::{Client, Config, NoTls};

/// The kinds of ids that are drawn. The tag `orders` must exist.
const ORDERS: &str = "orders";
const SNOWFLAKES: &str = "snowflakes";

/// Sessions that draw with statements.
const SESSIONS: usize = 4;

/// Pauses between two calls of a session, and of a service.
const SESSION_PAUSE: Duration = Duration::from_millis(20);
const SERVICE_PAUSE: Duration = Duration::from_millis(5);

/// A pause before another attempt to connect.
const CONNECT_PAUSE: Duration = Duration::from_millis(50);

/// How long a session waits for a host, and for an answer. A server that is stopped
/// still accepts connections.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);

/// How much of the timeline a failed test shows.
const RECENT: Duration = Duration::from_secs(60);

/// What all callers have got so far.
pub struct Callers {
    /// What they saw, and when.
    pub timeline: Timeline,
    /// What they got.
    pub answers: Answers,
    wrong: Mutex<Vec<String>>,
    done: AtomicBool,
}

/// A service that keeps ids for longer than any outage of the tests.
pub const BUFFERED: &str = "buffered";

/// A service that keeps few ids and leases its worker id for a short time.
pub const SPARING: &str = "sparing";

/// A session that draws with statements.
pub const SESSION: &str = "session";

impl Callers {
    /// Draws while `then` runs: with statements, in sessions with the host that takes
    /// writes, of those in the connection string, and with the client library. What a
    /// failover lets callers see is borne, anything else fails the test, as does an id
    /// that is returned twice, or a call of a service with ids at hand that waits.
    pub fn run(connection: &str, then: impl FnOnce(&Callers)) {
        let timeline = Timeline::start();
        let callers = Callers {
            answers: Answers::since(timeline.started()),
            timeline,
            wrong: Mutex::default(),
            done: AtomicBool::new(false),
        };
        let hosts = hosts(&connection.parse().expect("a connection string"));
        thread::scope(|scope| {
            let _stop = Stop(&callers.done);
            let callers = &callers;
            scope.spawn(move || callers.sessions(&hosts));
            scope.spawn(move || {
                callers.service(BUFFERED, connection, 20_000, Duration::from_secs(600))
            });
            scope.spawn(move || callers.service(SPARING, connection, 50, Duration::from_secs(2)));
            wait_until("all callers draw", || {
                callers.nothing_is_wrong();
                callers.timeline.callers() == SESSIONS + 4
            });
            then(callers);
        });
        callers.nothing_is_wrong();
    }

    /// Waits until every caller has got an answer to a call that it has made from now on.
    pub fn are_served(&self) {
        // A call that runs now can still be answered by the server that was lost.
        for _ in 0..2 {
            let now = self.timeline.now();
            wait_until("all callers are served", || {
                self.nothing_is_wrong();
                self.timeline.all_served_since(now)
            });
        }
    }

    /// Panics if an id was returned twice, or a caller got an error that it should not.
    pub fn nothing_is_wrong(&self) {
        self.answers.assert_no_repetition();
        let wrong = self.wrong.lock().expect("no panic");
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    fn is_wrong(&self, what: String) {
        self.wrong.lock().expect("no panic").push(what);
    }

    fn is_done(&self) -> bool {
        self.done.load(Ordering::Relaxed)
    }

    fn sessions(&self, hosts: &[Config]) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        thread::scope(|scope| {
            for number in 0..SESSIONS {
                let line = self.timeline.caller(&format!("{SESSION} {number}"));
                let handle = runtime.handle();
                scope.spawn(move || handle.block_on(self.session(hosts, &line)));
            }
        });
    }

    async fn session(&self, hosts: &[Config], line: &CallerLine) {
        while !self.is_done() {
            let begin = Instant::now();
            let client = connect(hosts).await;
            line.waited(begin);
            let Some(client) = client else {
                sleep(CONNECT_PAUSE).await;
                continue;
            };
            for call in usize::from(line.number()).. {
                if self.is_done() {
                    return;
                }
                let begin = Instant::now();
                match timeout(QUERY_TIMEOUT, draw(&client, call)).await {
                    Ok(Ok((kind, ids))) => {
                        self.answers.enter(kind, line.number(), ids);
                        line.served(begin);
                    }
                    Ok(Err(error)) => {
                        line.failed(begin);
                        if !is_of_a_failover(&error) {
                            self.is_wrong(format!("a session: {error:?}"));
                        }
                        break;
                    }
                    Err(_) => {
                        line.failed(begin);
                        break;
                    }
                }
                sleep(SESSION_PAUSE).await;
            }
        }
    }

    /// A service with buffers of so many ids, and a lease of its worker id that lasts so
    /// long.
    fn service(&self, name: &str, connection: &str, step: u64, lease: Duration) {
        let seconds = CONNECT_TIMEOUT.as_secs();
        let connection = format!("{connection} connect_timeout={seconds}");
        let config = leaf_sdk::Config::new(&connection)
            .expect("a connection string")
            .steps(step, step)
            .timeout(Duration::from_secs(1))
            .query_timeout(QUERY_TIMEOUT)
            .retry_between(CONNECT_PAUSE, Duration::from_millis(500));
        let leaf = Leaf::new(config).expect("a handle");
        let orders = leaf.segment(ORDERS);
        let events = leaf.snowflake(SnowflakeConfig::new(name).lease(lease));
        let events = events.expect("a generator");
        wait_until("the service is ready", || {
            orders.ready().and_then(|()| events.ready()).is_ok()
        });
        let waits = || (orders.stats().waits, events.stats().waits);
        let before = waits();
        thread::scope(|scope| {
            scope.spawn(|| self.draw_of(name, ORDERS, || orders.next().map(i64::from)));
            scope.spawn(|| self.draw_of(name, SNOWFLAKES, || events.next().map(i64::from)));
        });
        if name == BUFFERED {
            assert_eq!(waits(), before, "calls waited although there were ids");
        }
        // The cluster may be broken if the test has failed.
        let _ = leaf.close();
    }

    fn draw_of(&self, service: &str, kind: &'static str, next: impl Fn() -> Result<i64, Error>) {
        let line = self.timeline.caller(&format!("{service} {}", &kind[..6]));
        while !self.is_done() {
            let begin = Instant::now();
            match next() {
                Ok(id) => {
                    self.answers.enter(kind, line.number(), [id]);
                    line.served(begin);
                }
                Err(error) => {
                    line.failed(begin);
                    if service == BUFFERED || !error.is_retryable() {
                        self.is_wrong(format!("a {service} service: {error:?}"));
                    }
                }
            }
            thread::sleep(SERVICE_PAUSE);
        }
    }
}

impl Drop for Callers {
    fn drop(&mut self) {
        if thread::panicking() {
            let recent = self.timeline.now().saturating_sub(RECENT);
            eprintln!(
                "--- what the callers saw\n{}---",
                self.timeline.text(recent)
            );
        }
    }
}

/// A configuration for each host, which takes writes.
fn hosts(config: &Config) -> Vec<Config> {
    let hosts = config.get_hosts().iter().zip(config.get_ports());
    let of_host = |(host, port): (&Host, &u16)| {
        let mut one = Config::new();
        match host {
            Host::Tcp(name) => one.host(name),
            Host::Unix(path) => one.host_path(path),
        };
        one.port(*port)
            .user(config.get_user().expect("a user"))
            .dbname(config.get_dbname().expect("a database"))
            .target_session_attrs(TargetSessionAttrs::ReadWrite);
        one
    };
    hosts.map(of_host).collect()
}

/// A session with the first host that answers in time and takes writes, as libpq
/// chooses it.
async fn connect(hosts: &[Config]) -> Option<Client> {
    for host in hosts {
        if let Ok(Ok((client, connection))) = timeout(CONNECT_TIMEOUT, host.connect(NoTls)).await {
            // It ends when the client is dropped.
            tokio::spawn(connection);
            return Some(client);
        }
    }
    None
}

/// Draws, now in this way, now in that.
async fn draw(
    client: &Client,
    call: usize,
) -> Result<(&'static str, Vec<i64>), tokio_postgres::Error> {
    let (kind, query) = match call % 5 {
        0 => (ORDERS, "SELECT leaf_segment_next('orders')"),
        1 => (ORDERS, "SELECT leaf_segment_batch('orders', 25)"),
        2 => (
            ORDERS,
            "SELECT generate_series(lower(block), upper(block) - 1)
               FROM leaf_segment_reserve('orders', 10) AS block",
        ),
        3 => (SNOWFLAKES, "SELECT leaf_snowflake_next()"),
        _ => (SNOWFLAKES, "SELECT leaf_snowflake_batch(25)"),
    };
    let rows = client.query(query, &[]).await?;
    Ok((kind, rows.iter().map(|row| row.get(0)).collect()))
}

/// Whether callers have to expect this while servers take over from each other: a lost
/// connection, a server that shuts down, is a standby by now, or has nobody that confirms
/// its grants.
fn is_of_a_failover(error: &tokio_postgres::Error) -> bool {
    let code = error.code().map(SqlState::code);
    code.is_none_or(|code| code.starts_with("57P") || ["25006", "55P03"].contains(&code))
}
