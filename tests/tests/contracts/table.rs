//! What a table of contracts consists of, and how its cells are tried.
//!
//! A contract has a cell for each kind of ids, each way to ask for them, and each edition: a table
//! that lacks one does not compile.

use std::cell::OnceCell;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use leaf_sdk::{Config, Error, Leaf, SegmentSource, SnowflakeConfig, SnowflakeGenerator};
use leaf_tests::postgres::{Client, SimpleQueryMessage};
use leaf_tests::{Draw, Options, Serve, Server};

/// A row of the table.
pub struct Contract<'a> {
    /// Who asks: `postgres`, who may do everything, or `stranger`, who was granted nothing.
    pub role: &'static str,
    pub segment: Ways<'a>,
    pub snowflake: Ways<'a>,
}

/// The ways to ask for ids of one kind.
pub struct Ways<'a> {
    pub sql: Editions<'a>,
    pub client_library: Editions<'a>,
    /// `leafctl serve`.
    pub http: Editions<'a>,
}

pub struct Editions<'a> {
    /// The extension.
    pub library: Cell<'a>,
    /// `sql/plain`.
    pub plain: Cell<'a>,
}

/// The same in both editions.
pub fn both(cell: Cell<'_>) -> Editions<'_> {
    Editions {
        library: cell,
        plain: cell,
    }
}

/// A call of the client library.
type Call = fn(&World) -> String;

/// Questions, each with its answer, or what takes more than these.
#[derive(Clone, Copy)]
pub enum Cell<'a> {
    /// Statements of one session, as [`answer`] writes what comes of them.
    Sql(&'a [(&'a str, &'a str)]),
    /// Calls, as [`said`] writes what comes of them.
    Calls(&'a [(Call, &'a str)]),
    /// Addresses of a server that allows counts up to 100: a problem's status and code.
    Http(&'a [(&'a str, &'a str)]),
    Holds(fn(&World)),
    /// There is nothing to ask, for this reason.
    DoesNotApply(&'a str),
}

impl Cell<'_> {
    fn check(self, world: &World) {
        match self {
            Cell::Sql(questions) => {
                let mut client = world.client();
                for (statement, expected) in questions {
                    assert_eq!(answer(&mut client, statement), *expected, "{statement}");
                }
            }
            Cell::Calls(questions) => {
                for (number, (call, expected)) in (1..).zip(questions) {
                    assert_eq!(call(world), *expected, "call {number}");
                }
            }
            Cell::Http(questions) => {
                for (path, expected) in questions {
                    let answered = world.serve().get(path);
                    let (status, code) = answered.problem();
                    assert_eq!(format!("{status} {code}"), *expected, "{path}");
                    assert!(!answered.body.contains(world.role), "{}", answered.body);
                }
            }
            Cell::Holds(promise) => promise(world),
            Cell::DoesNotApply(reason) => println!("does not apply: {reason}"),
        }
    }
}

impl Contract<'_> {
    /// Tries all cells, on a server for each edition; panics with the names of those that are broken.
    pub fn hold(&self) {
        let mut broken = Vec::new();
        for (edition, options) in [
            ("library", Server::options()),
            ("plain edition", Server::options().plain()),
        ] {
            let world = World::start(options, self.role);
            for (kind, ways) in [("segment", &self.segment), ("snowflake", &self.snowflake)] {
                for (way, editions) in [
                    ("SQL", &ways.sql),
                    ("client library", &ways.client_library),
                    ("HTTP", &ways.http),
                ] {
                    let cell = match edition {
                        "library" => editions.library,
                        _ => editions.plain,
                    };
                    let name = format!("{kind} ids, {way}, {edition}");
                    println!("--- {name}");
                    if catch_unwind(AssertUnwindSafe(|| cell.check(&world))).is_err() {
                        broken.push(name);
                    }
                }
            }
        }
        assert!(broken.is_empty(), "the contract is broken: {broken:#?}");
    }
}

/// A server with the tags `orders` and `items`, and a role that asks it.
pub struct World {
    pub server: Server,
    role: &'static str,
    leaf: OnceCell<Leaf>,
    serve: OnceCell<Serve>,
}

impl World {
    fn start(options: Options, role: &'static str) -> World {
        let (server, mut admin) = options
            .set("leaf.wait_timeout", "10min")
            .start_with_orders(10);
        admin.run("SELECT leaf_tag_create('items'); CREATE ROLE stranger LOGIN");
        World {
            server,
            role,
            leaf: OnceCell::new(),
            serve: OnceCell::new(),
        }
    }

    fn connection_string(&self) -> String {
        let of_superuser = self.server.connection_string();
        of_superuser.replace("user=postgres", &format!("user={}", self.role))
    }

    /// A session of its own.
    pub fn client(&self) -> Client {
        self.server.connect_as(self.role, "postgres")
    }

    pub fn leaf(&self) -> &Leaf {
        self.leaf.get_or_init(|| {
            let config = Config::new(&self.connection_string()).expect("a connection string");
            Leaf::new(config.timeout(Duration::from_secs(60))).expect("a handle")
        })
    }

    pub fn orders(&self) -> SegmentSource {
        self.leaf().segment("orders")
    }

    /// Of a tag from which nobody draws through SQL.
    pub fn items(&self) -> SegmentSource {
        self.leaf().segment("items")
    }

    pub fn events(&self) -> SnowflakeGenerator {
        let events = self.leaf().snowflake(SnowflakeConfig::new("node"));
        events.expect("a generator")
    }

    pub fn serve(&self) -> &Serve {
        self.serve.get_or_init(|| {
            let options = ["--max-count=100", "--wait=10min"];
            Serve::launch(&mut Serve::command(&self.connection_string(), &options))
        })
    }
}

/// The first column of the last row, or the SQLSTATE, and whether the error lacks a hint, as those do
/// that PostgreSQL raises itself.
pub fn answer(client: &mut Client, statement: &str) -> String {
    let messages = match client.simple_query(statement) {
        Ok(messages) => messages,
        Err(error) => {
            let error = error.as_db_error().expect("an error of the server");
            return with_hint(error.code().code(), error.hint());
        }
    };
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    rows.last().unwrap_or_default().to_owned()
}

/// A value, or the variant of an error and its SQLSTATE, as in SQL. A hint is part of the error's text.
pub fn said<T: Debug>(result: Result<T, Error>) -> String {
    let error = match result {
        Ok(value) => return format!("{value:?}"),
        Err(error) => error,
    };
    let debug = format!("{error:?}");
    let variant = debug.split('(').next().unwrap_or_default();
    let Some(code) = error.sqlstate() else {
        return variant.to_owned();
    };
    let text = error.to_string();
    assert!(
        error.hint().is_none_or(|hint| text.contains(hint)),
        "{text}"
    );
    format!("{variant} {}", with_hint(code.code(), error.hint()))
}

fn with_hint(code: &str, hint: Option<&str>) -> String {
    code.to_owned() + hint.map_or(", no hint", |_| "")
}
