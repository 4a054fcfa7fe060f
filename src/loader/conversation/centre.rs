//! The conversation with the centre. Runs on the thread of [`speaker`](super::speaker), so
//! nothing here may call PostgreSQL.

use std::time::{Duration, Instant, SystemTime};

use leaf_core::snowflake::request::{self, Request};

use super::answers::{Place, answers};
use super::failure::Failure;
use super::message::{Answer, Demand};
use crate::pg::libpq::{Connection, LibPq, Outcome};
use crate::shmem::upstream::{Contact, Denial};

/// Where the centre is, and how long it may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// A connection string of libpq.
    pub conninfo: String,
    /// How long a host may take to accept a connection, and then each answer.
    pub timeout: Duration,
}

/// The centre as the thread knows it.
pub struct Centre {
    pq: &'static LibPq,
    contact: &'static Contact,
    address: Option<Address>,
    connection: Option<Connection>,
    /// The hosts as libpq has understood them, beginning with the one to try next.
    hosts: Vec<Host>,
    /// The name of the database.
    database: String,
    /// For how many tags a statement asks: fewer if the centre could not grant as many in time.
    tags_at_once: usize,
}

/// One of the hosts of a connection string.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Host {
    host: String,
    hostaddr: String,
    port: String,
}

/// For how many tags a statement asks at most.
const MOST_TAGS: usize = 256;

const FEED: &str = "SELECT first, last, incarnation, error_code, concat_ws(': ', message, detail) \
    FROM leaf_segment_feed($1::text[], $2::bigint[], $3::boolean[])";

/// A statement must not delay those behind it for long, for example because its tag's row is
/// locked.
const SET_TIMEOUTS: &str =
    "SELECT set_config('leaf.wait_timeout', $1, false), set_config('statement_timeout', $2, false)";

impl Centre {
    /// Not connected yet.
    pub fn new(pq: &'static LibPq, contact: &'static Contact) -> Self {
        Centre {
            pq,
            contact,
            address: None,
            connection: None,
            hosts: Vec::new(),
            database: String::new(),
            tags_at_once: MOST_TAGS,
        }
    }

    /// Looks whether the connection, if there was one, has been lost since it was used last.
    pub fn look(&mut self) {
        let is_lost = |it: &Connection| it.read().is_err() || !it.is_ok();
        if self.connection.as_ref().is_some_and(is_lost) {
            self.disconnect();
        }
    }

    fn disconnect(&mut self) -> Option<Connection> {
        let left = self.connection.take()?;
        self.contact.disconnected();
        Some(left)
    }

    /// The host that it is connected to.
    pub fn host(&self) -> Option<String> {
        let (host, port) = self.connection.as_ref()?.host_and_port();
        Some(format!("{host}:{port}"))
    }

    /// Asks the centre, in one pipeline. Requests for numbers that follow each other share
    /// statements, of as many tags as the centre can grant in time. Calls `hear` with each answer
    /// as soon as it is there, in the order of the requests.
    pub fn ask(&mut self, address: &Address, demands: &[Demand], mut hear: impl FnMut(Answer)) {
        if self.address.as_ref() != Some(address) {
            self.disconnect();
            self.hosts.clear();
            self.address = Some(address.clone());
        }
        if let Err(failure) = self.connect(address) {
            for demand in demands {
                hear(Err(self.of_lease(demand, failure.clone())));
            }
            return;
        }
        let place = Place {
            address: self.place(),
            connection: self.contact.connection(),
        };
        let groups: Vec<_> = (demands)
            .chunk_by(|one, next| one.is_for_numbers() && next.is_for_numbers())
            .flat_map(|group| group.chunks(self.tags_at_once))
            .collect();
        let mut tags_at_once = self.tags_at_once;
        let mut unanswered = groups.iter();
        let begun = Instant::now();
        let (mut settled, mut is_useless) = (0, true);
        let lost = exchange(
            self.connection.as_ref(),
            address.timeout,
            groups.iter().map(|group| request(group)),
            |outcome| {
                let group = unanswered.next().copied().unwrap_or_default();
                let answers = answers(group, &outcome, &place);
                let is_error = matches!(outcome, Outcome::Error { .. });
                if group.first().is_some_and(Demand::is_for_numbers) {
                    tags_at_once = next_size(tags_at_once, is_error, &answers);
                }
                let is_slow = begun.elapsed() >= wait_limit(address.timeout);
                for answer in answers {
                    let of_host = |it: &Failure| it.is_of_host(is_error || is_slow);
                    is_useless &= answer.as_ref().is_err_and(of_host);
                    settled += 1;
                    hear(answer);
                }
            },
        );
        self.tags_at_once = tags_at_once;
        if lost.is_some() || is_useless {
            self.leave_host();
        }
        let cause = lost.unwrap_or_default();
        for demand in &demands[settled..] {
            let failure = Failure::new(Denial::Away, cause.as_str());
            hear(Err(self.of_lease(demand, failure)));
        }
    }

    /// Where the centre is: all its hosts, and the database.
    fn place(&self) -> String {
        let host = |it: &Host| {
            let name = if it.host.is_empty() {
                &it.hostaddr
            } else {
                &it.host
            };
            let port = if it.port.is_empty() { "5432" } else { &it.port };
            format!("{name}:{port}")
        };
        let hosts: Vec<_> = self.hosts.iter().map(host).collect();
        format!("{}/{}", hosts.join(","), self.database)
    }

    /// A failure to reach the centre, for the holder of a lease: whether it would be the centre
    /// that has granted the lease.
    fn of_lease(&self, demand: &Demand, failure: Failure) -> Failure {
        match demand {
            Demand::Renew { address, .. } if failure.denial == Denial::Away => Failure {
                denial: match is_same_place(address, &self.place()) {
                    true => Denial::SameAway,
                    false => Denial::OtherAway,
                },
                ..failure
            },
            _ => failure,
        }
    }

    fn connect(&mut self, address: &Address) -> Result<(), Failure> {
        if self.connection.as_ref().is_some_and(Connection::is_ok) {
            return Ok(());
        }
        self.disconnect();
        check(self.pq, &address.conninfo)
            .map_err(|cause| Failure::new(Denial::NoUpstream, cause))?;
        // libpq takes whole seconds, and no less than two.
        let seconds = address.timeout.as_secs().max(2).to_string();
        let tcp_timeout = address.timeout.as_millis().to_string();
        let mut options = vec![
            ("fallback_application_name", "leaf loader"),
            ("target_session_attrs", "read-write"),
            ("tcp_user_timeout", tcp_timeout.as_str()),
            ("dbname", address.conninfo.as_str()),
            ("connect_timeout", seconds.as_str()),
            ("gssencmode", "disable"),
            ("client_encoding", "UTF8"),
        ];
        let of_hosts = |part: fn(&Host) -> &str| {
            let parts: Vec<_> = self.hosts.iter().map(part).collect();
            parts.join(",")
        };
        let lists = [
            ("host", of_hosts(|host| &host.host)),
            ("hostaddr", of_hosts(|host| &host.hostaddr)),
            ("port", of_hosts(|host| &host.port)),
        ];
        let is_given = |list: &str| list.chars().any(|char| char != ',');
        let given = lists.iter().filter(|(_, list)| is_given(list));
        options.extend(given.map(|(keyword, list)| (*keyword, list.as_str())));

        let no_memory = || Failure::new(Denial::Away, "out of memory");
        let connection = self.pq.connect(&options).ok_or_else(no_memory)?;
        if self.hosts.is_empty() {
            let options = connection.options();
            let mut named = options.iter().filter(|(keyword, _)| keyword == "dbname");
            self.database = named
                .next()
                .map(|(_, name)| name.clone())
                .unwrap_or_default();
            self.hosts = hosts(&options);
        }
        if !connection.is_ok() || !connection.begin_pipeline() {
            return Err(Failure::new(Denial::Away, connection.error()));
        }
        let wait = wait_limit(address.timeout).as_millis().to_string();
        let set = Request {
            sql: SET_TIMEOUTS,
            parameters: vec![wait, tcp_timeout],
        };
        let lost = exchange(Some(&connection), address.timeout, [set], |_| {});
        self.connection = Some(connection);
        self.contact.connected();
        match lost {
            None => Ok(()),
            Some(cause) => {
                self.leave_host();
                Err(Failure::new(Denial::Away, cause))
            }
        }
    }

    /// Disconnects, and will begin with the next host.
    fn leave_host(&mut self) {
        let left = self.disconnect();
        let Some((host, port)) = left.map(|left| left.host_and_port()) else {
            return;
        };
        let is_it = |it: &Host| (it.host == host || it.hostaddr == host) && it.port == port;
        if let Some(at) = self.hosts.iter().position(is_it) {
            let next = (at + 1) % self.hosts.len();
            self.hosts.rotate_left(next);
        }
    }
}

/// For how many tags the next statement asks.
fn next_size(size: usize, is_error: bool, answers: &[Answer]) -> usize {
    let is_late = |it: &&Answer| it.as_ref().is_err_and(|it| it.denial == Denial::Busy);
    // An error may be due to one of the tags, for example to its name.
    let is_bad = is_error || answers.iter().filter(is_late).count() * 2 > answers.len();
    match (is_bad, answers.len()) {
        (false, _) => (size * 2).min(MOST_TAGS),
        (true, 0 | 1) => size,
        (true, several) => (size.min(several) / 4).max(1),
    }
}

/// How long the centre waits for what it cannot do at once.
fn wait_limit(timeout: Duration) -> Duration {
    (timeout * 2 / 3).max(Duration::from_millis(100))
}

/// The statement for one request, or for several for numbers.
fn request(demands: &[Demand]) -> Request<String> {
    match &demands[0] {
        Demand::Numbers { .. } => Request {
            sql: FEED,
            parameters: arrays(demands),
        },
        Demand::Register {
            node,
            worker_id,
            nonce,
            ahead,
        } => request::register(node, *worker_id, *nonce, clock(), *ahead),
        Demand::Renew {
            worker_id,
            nonce,
            token,
            next_token,
            ahead,
            address: _,
        } => request::renew(worker_id, *nonce, *token, clock(), *ahead, *next_token),
    }
}

/// The names, counts, and whether fewer are of no use, each as an array.
fn arrays(demands: &[Demand]) -> Vec<String> {
    let (mut tags, mut counts, mut exacts) = (Vec::new(), Vec::new(), Vec::new());
    for demand in demands {
        if let Demand::Numbers { tag, count, exact } = demand {
            let tag = tag.replace('\\', r"\\").replace('"', "\\\"");
            tags.push(format!("\"{tag}\""));
            counts.push(count.to_string());
            exacts.push(exact.to_string());
        }
    }
    [tags, counts, exacts]
        .map(|elements| format!("{{{}}}", elements.join(",")))
        .into()
}

/// This server's clock, in microseconds since 1970. Read when a statement is about to be sent:
/// a connection that took long must not make the clock look late.
fn clock() -> String {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since_1970.unwrap_or_default().as_micros().to_string()
}

/// Sends statements in a pipeline and passes on what comes back for each. Returns why the
/// others were not answered, if any were not. Each answer may take as long as `timeout`.
fn exchange(
    connection: Option<&Connection>,
    timeout: Duration,
    requests: impl IntoIterator<Item = Request<String>>,
    mut settle: impl FnMut(Outcome),
) -> Option<String> {
    let Some(connection) = connection else {
        return Some("not connected".into());
    };
    let mut expected = 0;
    for Request { sql, parameters } in requests {
        let parameters: Vec<_> = parameters.iter().map(String::as_str).collect();
        if !connection.send(sql, &parameters) {
            return Some(connection.error());
        }
        expected += 1;
    }
    let mut deadline = Instant::now() + timeout;
    let mut last = None;
    while expected > 0 {
        match connection.next() {
            Some(Outcome::Sync { is_confirmed }) => {
                if let Some(outcome) = last.take() {
                    settle(match is_confirmed {
                        true => outcome,
                        false => unconfirmed(),
                    });
                    expected -= 1;
                }
            }
            Some(outcome) => {
                deadline = Instant::now() + timeout;
                last = Some(outcome);
            }
            None if connection.is_ok() => {
                if let Err(cause) = wait(connection, deadline) {
                    return Some(cause);
                }
            }
            None => return Some(connection.error()),
        }
    }
    None
}

/// A failover may lose what was committed, so it must not be used.
fn unconfirmed() -> Outcome {
    Outcome::Error {
        code: "57014".into(),
        message: "the wait for the synchronous standby of the centre was cancelled".into(),
    }
}

/// Waits until something has arrived, and sends what is left to be sent.
fn wait(connection: &Connection, deadline: Instant) -> Result<(), String> {
    let is_sent = connection.flush()?;
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        let (host, _) = connection.host_and_port();
        return Err(format!("no answer from {host} in time"));
    }
    let events = match is_sent {
        true => libc::POLLIN,
        false => libc::POLLIN | libc::POLLOUT,
    };
    let mut ready = libc::pollfd {
        fd: connection.socket(),
        events,
        revents: 0,
    };
    let milliseconds = left.as_millis().clamp(1, 60_000) as libc::c_int;
    // SAFETY: one descriptor, which is open.
    unsafe { libc::poll(&raw mut ready, 1, milliseconds) };
    connection.read()
}

/// Why a connection string cannot be used. The text quotes nothing of it.
fn check(pq: &LibPq, conninfo: &str) -> Result<(), &'static str> {
    let options = pq
        .parse(conninfo)
        .ok_or("leaf.upstream is not a valid connection string")?;
    let is_secret = |(keyword, _): &(String, String)| keyword.ends_with("password");
    match options.iter().any(is_secret) {
        true => Err("leaf.upstream contains a password"),
        false => Ok(()),
    }
}

/// Whether two lists of hosts name a common one, and the same database.
fn is_same_place(one: &str, other: &str) -> bool {
    let (Some((hosts, database)), Some((others, of_other))) =
        (one.rsplit_once('/'), other.rsplit_once('/'))
    else {
        return false;
    };
    database == of_other
        && hosts
            .split(',')
            .any(|host| others.split(',').any(|it| it == host))
}

/// The hosts that libpq tries one after the other, in this order.
fn hosts(options: &[(String, String)]) -> Vec<Host> {
    let list = |wanted: &str| -> Vec<&str> {
        let option = options.iter().find(|(keyword, _)| keyword == wanted);
        option.map_or_else(Vec::new, |(_, value)| value.split(',').collect())
    };
    let (hosts, addresses, ports) = (list("host"), list("hostaddr"), list("port"));
    // One port may stand for all hosts.
    let get = |list: &[&str], at: usize| (*list.get(at).unwrap_or(&"")).to_owned();
    (0..hosts.len().max(addresses.len()))
        .map(|at| Host {
            host: get(&hosts, at),
            hostaddr: get(&addresses, at),
            port: get(&ports, if ports.len() == 1 { 0 } else { at }),
        })
        .collect()
}
