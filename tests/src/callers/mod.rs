//! Callers that draw all the time while servers take over from each other: sessions, and
//! services with the client library.

mod group;

pub use group::{BUFFERED, Group, Query, SESSION, SPARING};

use crate::timeline::{CallerLine, Timeline};
use crate::{Answers, Stop, wait_until};
use group::{Kind, ORDERS, SNOWFLAKES, Service};
use leaf_sdk::{Error, IdSource, Leaf, SnowflakeConfig};
use postgres::error::SqlState;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::{Client, Config, NoTls};

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

impl Callers {
    /// These groups draw while `then` runs. What a failover lets callers see is borne,
    /// anything else fails the test, as does an id that is returned twice, or a caller
    /// with ids at hand that waits.
    pub fn run(groups: &[Group], then: impl FnOnce(&Callers)) {
        let timeline = Timeline::start();
        let callers = Callers {
            answers: Answers::since(timeline.started()),
            timeline,
            wrong: Mutex::default(),
            done: AtomicBool::new(false),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        thread::scope(|scope| {
            let _stop = Stop(&callers.done);
            let callers = &callers;
            for group in groups {
                let handle = runtime.handle();
                match &group.kind {
                    Kind::Sessions(count, queries) => {
                        for number in 0..*count {
                            let line = callers.timeline.caller(&format!("{} {number}", group.name));
                            scope.spawn(move || {
                                handle.block_on(callers.session(group, queries, &line))
                            });
                        }
                    }
                    Kind::Service(service) => {
                        scope.spawn(move || callers.service(group, *service));
                    }
                }
            }
            let all: usize = groups.iter().map(Group::callers).sum();
            wait_until("all callers draw", || {
                callers.nothing_is_wrong();
                callers.timeline.callers() == all
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

    async fn session(&self, group: &Group, queries: &[Query], line: &CallerLine) {
        let hosts = hosts(&group.connection.parse().expect("a connection string"));
        while !self.is_done() {
            let begin = Instant::now();
            let client = connect(&hosts).await;
            line.waited(begin);
            let Some(client) = client else {
                sleep(CONNECT_PAUSE).await;
                continue;
            };
            for call in usize::from(line.number()).. {
                if self.is_done() {
                    return;
                }
                let query = queries[call % queries.len()];
                let begin = Instant::now();
                match timeout(QUERY_TIMEOUT, draw(&client, query)).await {
                    Ok(Ok((kind, ids))) => {
                        self.answers.enter(kind, line.number(), ids);
                        line.served(begin);
                    }
                    Ok(Err(error)) => {
                        line.failed(begin);
                        if group.never_waits || !is_of_a_failover(&error) {
                            self.is_wrong(format!("a session of {}: {error:?}", group.name));
                        }
                        break;
                    }
                    Err(_) => {
                        line.failed(begin);
                        if group.never_waits {
                            self.is_wrong(format!("a session of {} got no answer", group.name));
                        }
                        break;
                    }
                }
                sleep(SESSION_PAUSE).await;
            }
        }
    }

    fn service(&self, group: &Group, service: Service) {
        let seconds = CONNECT_TIMEOUT.as_secs();
        let connection = format!("{} connect_timeout={seconds}", group.connection);
        let config = leaf_sdk::Config::new(&connection)
            .expect("a connection string")
            .steps(service.step, service.step)
            .timeout(Duration::from_secs(1))
            .query_timeout(QUERY_TIMEOUT)
            .retry_between(CONNECT_PAUSE, Duration::from_millis(500));
        let leaf = Leaf::new(config).expect("a handle");
        let orders = leaf.segment(service.tag);
        let events = service.lease.map(|lease| {
            let events = leaf.snowflake(SnowflakeConfig::new(&group.name).lease(lease));
            events.expect("a generator")
        });
        wait_until("the service is ready", || {
            let events = || events.as_ref().map_or(Ok(()), |it| it.ready());
            orders.ready().and_then(|()| events()).is_ok()
        });
        let waits = || {
            (
                orders.stats().waits,
                events.as_ref().map(|it| it.stats().waits),
            )
        };
        let before = waits();
        thread::scope(|scope| {
            scope.spawn(|| self.draw_of(group, ORDERS, || orders.next().map(i64::from)));
            if let Some(events) = &events {
                scope.spawn(|| self.draw_of(group, SNOWFLAKES, || events.next().map(i64::from)));
            }
        });
        if group.never_waits {
            assert_eq!(waits(), before, "calls waited although there were ids");
        }
        // The cluster may be broken if the test has failed.
        let _ = leaf.close();
    }

    fn draw_of(&self, group: &Group, kind: &'static str, next: impl Fn() -> Result<i64, Error>) {
        let name = &group.name;
        let line = self.timeline.caller(&format!("{name} {}", &kind[..6]));
        while !self.is_done() {
            let begin = Instant::now();
            match next() {
                Ok(id) => {
                    self.answers.enter(kind, line.number(), [id]);
                    line.served(begin);
                }
                Err(error) => {
                    line.failed(begin);
                    if group.never_waits || !error.is_retryable() {
                        self.is_wrong(format!("a {name} service: {error:?}"));
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

/// The kind of the ids, and the ids.
async fn draw(
    client: &Client,
    (kind, query): Query,
) -> Result<(&'static str, Vec<i64>), tokio_postgres::Error> {
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
