//! Groups of callers: of which server they draw, and what.

use std::time::Duration;

/// The kinds of ids that are drawn. The tag `orders` must exist.
pub(super) const ORDERS: &str = "orders";
pub(super) const SNOWFLAKES: &str = "snowflakes";

/// A service that keeps ids for longer than any outage of the tests.
pub const BUFFERED: &str = "buffered";

/// A service that keeps few ids and leases its worker id for a short time.
pub const SPARING: &str = "sparing";

/// A session that draws with statements.
pub const SESSION: &str = "session";

/// A kind of ids, and a statement that returns ids of it.
pub type Query = (&'static str, &'static str);

/// What a session of a cluster draws with, in turns.
const OF_A_CLUSTER: [Query; 5] = [
    (ORDERS, "SELECT leaf_segment_next('orders')"),
    (ORDERS, "SELECT leaf_segment_batch('orders', 25)"),
    (
        ORDERS,
        "SELECT generate_series(lower(block), upper(block) - 1)
           FROM leaf_segment_reserve('orders', 10) AS block",
    ),
    (SNOWFLAKES, "SELECT leaf_snowflake_next()"),
    (SNOWFLAKES, "SELECT leaf_snowflake_batch(25)"),
];

/// Callers that draw in the same way.
pub struct Group {
    /// With what the names of their lines begin.
    pub(super) name: String,
    pub(super) connection: String,
    pub(super) kind: Kind,
    /// Whether they have ids for longer than any outage: an error, or a call of a
    /// service that waits, fails the test.
    pub(super) never_waits: bool,
}

/// How they draw.
pub(super) enum Kind {
    /// So many sessions with these statements.
    Sessions(usize, Vec<Query>),
    /// With the client library.
    Service(Service),
}

/// A service with the client library.
#[derive(Clone, Copy)]
pub(super) struct Service {
    /// The tag of its segment ids; they count as `orders`.
    pub tag: &'static str,
    /// How many ids a buffer has.
    pub step: u64,
    /// How long the lease of its worker id lasts, if it draws snowflake ids, too.
    pub lease: Option<Duration>,
}

impl Group {
    /// Sessions that draw with these statements, of the host that takes writes, of
    /// those in the connection string.
    pub fn sessions(name: &str, connection: &str, count: usize, queries: &[Query]) -> Group {
        Group::of(name, connection, Kind::Sessions(count, queries.to_vec()))
    }

    /// A service that draws ids of a tag, which count as `orders`, with buffers of so
    /// many ids.
    pub fn service(name: &str, connection: &str, tag: &'static str, step: u64) -> Group {
        let service = Service {
            tag,
            step,
            lease: None,
        };
        Group::of(name, connection, Kind::Service(service))
    }

    fn of(name: &str, connection: &str, kind: Kind) -> Group {
        Group {
            name: name.to_owned(),
            connection: connection.to_owned(),
            kind,
            never_waits: false,
        }
    }

    /// A service that draws snowflake ids, too, with a lease of its worker id that
    /// lasts so long.
    pub fn with_lease(mut self, lease: Duration) -> Group {
        if let Kind::Service(service) = &mut self.kind {
            service.lease = Some(lease);
        }
        self
    }

    /// They have ids for longer than any outage.
    pub fn never_waits(mut self) -> Group {
        self.never_waits = true;
        self
    }

    /// The callers of a cluster: four sessions, a service with many ids, and one with
    /// few.
    pub fn of_cluster(connection: &str) -> [Group; 3] {
        [
            Group::sessions(SESSION, connection, 4, &OF_A_CLUSTER),
            Group::service(BUFFERED, connection, ORDERS, 20_000)
                .with_lease(Duration::from_secs(600))
                .never_waits(),
            Group::service(SPARING, connection, ORDERS, 50).with_lease(Duration::from_secs(2)),
        ]
    }

    /// How many callers it has.
    pub(super) fn callers(&self) -> usize {
        match &self.kind {
            Kind::Sessions(count, _) => *count,
            Kind::Service(service) => 1 + usize::from(service.lease.is_some()),
        }
    }
}
