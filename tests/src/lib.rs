//! Starts real PostgreSQL servers with leaf and gives tests the means to break them.
//!
//! Every [`Server`] is a cluster of its own: its data lie in a folder that goes
//! with it, and it listens on a unix socket (and on a free TCP port, where TLS is
//! asked for), so that any number can run side by side and beside a server of the
//! machine. Its programs come from the folder that the environment variable
//! `LEAF_PG_BINDIR` names, a private installation which has leaf; `make stage`
//! makes one. A server never runs as root: where the tests do, it gets the account
//! `postgres`.
//!
//! Nothing here sleeps for a fixed time to let something happen: [`wait_until`]
//! polls for the condition and fails the test if it does not come.

mod account;
mod answers;
mod browser;
mod callers;
mod centre;
mod chance;
mod citus;
mod clock;
mod cluster;
mod copies;
mod disk;
mod draw;
mod edition;
mod exporter;
mod installation;
mod leafctl;
mod ledger;
mod line;
mod load;
mod mariadb;
mod module;
pub mod page;
mod patroni;
mod pooler;
mod port;
mod preload;
mod process;
mod prometheus;
mod relay;
mod serve;
mod server;
mod service;
mod snowflake;
mod terminal;
mod timeline;
mod tls;
mod wait;

pub use account::{command, run};
pub use answers::{Answers, OF_THE_TEST};
pub use browser::Browser;
pub use callers::{BUFFERED, Callers, Group, Query, SESSION, SPARING};
pub use centre::{Centre, attach};
pub use chance::{runner, seeds, test_duration};
pub use citus::join_citus;
pub use clock::Clock;
pub use copies::{feed, pipe};
pub use disk::Disk;
pub use draw::{Block, Draw, draw_many, failed, feed_all, refused, reserve_by_call};
pub use edition::{INSTALLER, is_plain};
pub use exporter::Exporter;
pub use installation::{Installation, has_extension_of_debian};
pub use leafctl::{Said, earlier_leafctl, leafctl, leafctl_in_terminal, leafctl_on};
pub use ledger::{Ledger, Order};
pub use line::Line;
pub use load::Load;
pub use mariadb::MariaDb;
pub use patroni::{Cluster, Etcd, Node};
pub use pooler::Pooler;
pub use port::reserved as reserved_port;
pub use process::{Paused, signal};
pub use prometheus::{Prometheus, Sample};
pub use relay::Relay;
pub use serve::{Answered, Serve};
pub use server::{
    Mode, Options, Server, slow_grants, wait_for_caller, waiting_callers, waiting_loaders,
};
pub use service::Service;
pub use snowflake::{Fields, Lease, Snowflake};
pub use terminal::Terminal;
pub use timeline::{CallerLine, Timeline};
pub use tls::Tls;
pub use wait::{Stop, wait_until};

pub use nix::sys::signal::Signal;
pub use postgres;
