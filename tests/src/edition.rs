//! The edition of leaf that is tested: the extension, or functions in SQL for servers on which no
//! library can be installed. `make test-plain` asks for the latter.

use crate::leafctl::{Said, leafctl_on};
use crate::{Draw, Server};
use std::env;

/// The owner of the database `postgres`, who installs the plain edition and is no superuser.
pub const INSTALLER: &str = "installer";

/// Whether servers are to have the plain edition.
pub fn is_plain() -> bool {
    env::var_os("LEAF_TEST_EDITION").is_some_and(|edition| edition == "plain")
}

/// Settings of the library that are columns of `leaf.plain`.
const SETTINGS: [&str; 6] = [
    "leaf.history_skip",
    "leaf.max_clock_offset",
    "leaf.snowflake_epoch",
    "leaf.snowflake_layout",
    "leaf.worker_lease",
    "leaf.worker_reuse_after",
];

/// The statement that sets it, if it is one of these.
pub fn set_plain(name: &str, value: &str) -> Option<String> {
    let column = name
        .strip_prefix("leaf.")
        .filter(|_| SETTINGS.contains(&name))?;
    Some(format!("UPDATE leaf.plain SET {column} = '{value}'"))
}

/// Installs the plain edition in the database `postgres`, as its owner.
pub fn install_plain(server: &Server) {
    server.connect().run(&format!(
        "CREATE ROLE {INSTALLER} LOGIN; ALTER DATABASE postgres OWNER TO {INSTALLER}"
    ));
    let said = Said::by(
        leafctl_on(server)
            .env("PGUSER", INSTALLER)
            .args(["plain", "install"]),
    );
    assert_eq!(said.code, Some(0), "{}", said.err);
}
