//! leaf: globally unique 64-bit ids at memory speed, inside PostgreSQL.
//!
//! Ranges of ids ("segments") are granted to tags from the catalog, the table
//! `leaf.alloc`. Two segments per tag are in [`shmem`], where sessions draw ids from
//! them without a lock; a background worker per database, the [`loader`], grants the
//! next segment before they are used up. What runs in a session is in the room [`session`].
//! The double buffer and everything else that does not need PostgreSQL is in the crate
//! `leaf_core`.
//!
//! A room uses those below it and none above, in this order from the top: [`api`],
//! [`restart`], [`session`] and [`loader`] (which do not use each other), [`lease`],
//! [`dropped`], [`catalog`], [`history`], [`shmem`], [`settings`], [`error`], [`pg`].
//! Functions of upper rooms that lower ones have to call are handed down here.

// Nothing here is public; the documentation is built with private items.
#![allow(rustdoc::private_intra_doc_links)]

mod api;
mod catalog;
mod dropped;
mod error;
mod history;
mod lease;
mod loader;
mod pg;
mod restart;
mod session;
mod settings;
mod shmem;

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
        &session::xact_callbacks::AtEnd,
        &session::snowflake::xact_callbacks::AtEnd,
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
            &loader::lease::renewal::Renewal,
            &loader::grant::Granting,
            &loader::grant::position::Positions,
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
