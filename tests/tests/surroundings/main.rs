//! What PostgreSQL offers around leaf: every kind of statement, cursors, triggers,
//! row-level security, maintenance of the catalog, foreign tables, logical
//! replication, poolers. A promise that holds for a plain call holds here, too.

mod catalog;
mod foreign;
mod partitions;
mod queries;
mod sessions;
mod texts;
mod triggers;

mod independent {
    mod replication;
}

mod never_twice {
    mod catalog;
    mod queries;
    pub mod replication;
    mod statements;
    mod triggers;
}

mod permissions {
    mod catalog;
    mod sessions;
}
