//! leaf: globally unique 64-bit ids at memory speed, inside PostgreSQL.
//!
//! Ranges of ids ("segments") are granted to tags from the catalog, the table
//! `leaf.alloc`. Two segments per tag are in [`shmem`], where sessions draw ids from
//! them without a lock; a background worker per database, the [`loader`], grants the
//! next segment before they are used up. The code for segment ids is in the room
//! [`segment`], that for snowflake ids in [`snowflake`]. The double buffer and everything
//! else that does not need PostgreSQL is in the crate `leaf_core`.
//!
//! A room uses those below it and none above, in this order from the top: [`api`],
//! [`restart`], [`segment`] and [`snowflake`] (which do not use each other), [`asking`],
//! [`patience`], [`loader`], [`link`], [`dropped`], [`catalog`], [`history`], [`shmem`], [`settings`], [`error`], [`pg`].
//! Functions of upper rooms that lower ones have to call are handed down here.

// Nothing here is public; the documentation is built with private items.
#![allow(rustdoc::private_intra_doc_links)]

mod api;
mod asking;
mod catalog;
mod dropped;
mod error;
mod history;
mod link;
mod loader;
mod patience;
mod pg;
mod restart;
mod segment;
mod settings;
mod shmem;
mod snowflake;

// The pgrx for PostgreSQL 19 is another version, under another name in Cargo.toml.
#[cfg(feature = "pg19")]
extern crate pgrx19 as pgrx;

use pgrx::{pg_guard, pg_module_magic};

pg_module_magic!(name, version);

/// Called when the library is loaded: by the postmaster if it is preloaded, else by a
/// session, where leaf's functions raise an error that says what is missing.
#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    pg::xact_end::init(&[
        &segment::at_end::AtEnd,
        &snowflake::at_end::AtEnd,
        &dropped::AtEnd,
    ]);
    pg::process::keep_backtraces_out_of_errors();
    if pg::process::is_preloading() {
        settings::init();
        pg::object_hook::init(pg::object_hook::Observers {
            database_is_dropped: dropped::at_drop,
            extension_is_dropped: catalog::guard::at_drop_of_extension,
            schema_is_altered: catalog::guard::at_alteration_of_schema,
        });
        loader::init(&[
            &snowflake::renewal::Renewal,
            &segment::grant::Granting,
            &segment::grant::position::Positions,
        ]);
        history::init();
        shmem::init(at_server_start);
    }
}

/// Called before any process but the postmaster exists.
fn at_server_start(shared: &shmem::Shared) {
    let control_file = pg::control_file::ControlFile::read();
    history::at_server_start(control_file.as_ref());
    restart::at_server_start(shared, control_file.as_ref());
}
