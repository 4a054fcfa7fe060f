//! PostgreSQL's primitives behind safe interfaces, one file each. Most raw `pg_sys`
//! calls of the extension are here.

pub mod bgworker;
pub mod call;
pub mod clock;
pub mod condvar;
pub mod control_file;
pub mod data_directory;
pub mod database;
pub mod datum;
pub mod encoding;
pub mod guc;
pub mod heap;
pub mod inval;
pub mod latch;
pub mod libpq;
pub mod lwlock;
pub mod object_hook;
pub mod own_xact;
pub mod process;
pub mod replication;
pub mod report;
pub mod role;
pub mod rows;
pub mod shm;
pub mod snapshot;
pub mod timeout;
pub mod trigger;
pub mod wait_event;
pub mod xact;
pub mod xact_end;

pub use encoding::display;
pub use report::log;
