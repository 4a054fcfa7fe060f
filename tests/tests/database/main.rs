//! What is done to whole databases and to the extension in them: create, copy,
//! rename, drop, dump and restore, upgrade; and the loader that each database has.

mod databases;
mod dump;
mod preload;
mod upgrade;
mod versions;
