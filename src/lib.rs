//! leaf: globally unique 64-bit ids at memory speed, inside PostgreSQL.
//!
//! The catalog table `leaf.alloc` grants ranges of ids ("segments") to tags. Two
//! segments per tag lie in [`shmem`], where sessions draw ids from them without
//! a lock; a background worker per database, the [`loader`], grants the next
//! segment before they run out. [`session`] is what a session remembers of a
//! tag, [`waiting`] how it waits, [`transaction`] what its transaction has done
//! to tags. The double buffer itself and everything else that needs no
//! PostgreSQL is in the crate `leaf-core`.

// Nothing here is public; the documentation is read with its private items.
#![allow(rustdoc::private_intra_doc_links)]

mod alone;
mod api;
mod catalog;
mod error;
mod history;
mod loader;
mod patience;
mod pg;
mod restart;
mod session;
mod settings;
mod shmem;
mod snowflake;
mod transaction;
mod waiting;

use pgrx::{extension_sql_file, pg_guard, pg_module_magic};

pg_module_magic!(name, version);
extension_sql_file!("../sql/leaf--0.1.0.sql", name = "install", bootstrap);

/// Called when the library is loaded: by the postmaster if it is preloaded,
/// else by a session, where leaf's functions say what is missing.
#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    pg::xact::init();
    pg::worker::keep_backtraces_out_of_errors();
    if pg::worker::is_preloading() {
        settings::init();
        shmem::init();
    }
}
