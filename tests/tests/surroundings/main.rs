//! What PostgreSQL offers around leaf: every kind of statement, cursors, triggers,
//! row-level security, maintenance of the catalog, foreign tables, logical
//! replication, poolers. A promise that holds for a plain call holds here, too.

mod catalog;
mod foreign;
mod partitions;
mod sessions;
mod texts;

mod never_twice {
    mod queries;
    mod replication;
    mod statements;
    mod triggers;
}
