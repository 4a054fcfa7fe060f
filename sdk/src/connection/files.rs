//! The service file and the password file of libpq.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use leaf_core::file::read_small;

use super::bad;
use super::string::{Pair, until};
use crate::Error;

/// The folder of the system-wide service file, as packages of PostgreSQL have it.
const SYSTEM_FOLDER: &str = "/etc/postgresql-common";

/// The most bytes of a file that a connection string names.
const LARGEST: u64 = 1 << 20;

/// The text of a file; an error unless it is a regular file, of not more than a megabyte.
fn read(file: &Path) -> io::Result<Option<String>> {
    let content = read_small(file, LARGEST)?;
    content
        .map(String::from_utf8)
        .transpose()
        .map_err(io::Error::other)
}

/// An error if OpenSSL should not read the file.
#[cfg(feature = "tls")]
pub(super) fn check(file: &Path) -> Result<(), Error> {
    let read = read_small(file, LARGEST).map(|_| ());
    read.map_err(|error| {
        bad(format!(
            "could not read the file {}: {error}",
            file.display()
        ))
    })
}

/// The pairs of a service, from this file or else the user's, or from the system's.
pub(super) fn service(name: &str, file: Option<String>) -> Result<Vec<Pair>, Error> {
    let folder = env::var("PGSYSCONFDIR").unwrap_or_else(|_| SYSTEM_FOLDER.into());
    let of_system = Path::new(&folder).join("pg_service.conf");
    if let Some(file) = &file
        && let Err(error) = fs::metadata(file).and_then(|_| read(Path::new(file)))
    {
        let text = format!("could not read the service file {file}: {error}");
        return Err(bad(text));
    }
    let of_user = file.map_or_else(|| in_home(".pg_service.conf"), |file| Some(file.into()));
    let mut files = of_user.into_iter().chain([of_system]);
    files
        .find_map(|file| service_in(&read(&file).ok()??, name))
        .unwrap_or_else(|| Err(bad(format!("definition of service \"{name}\" not found"))))
}

fn service_in(content: &str, name: &str) -> Option<Result<Vec<Pair>, Error>> {
    let mut lines = content
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.find(|line| *line == format!("[{name}]"))?;
    let pair = |line: &str| match line.split_once('=') {
        Some((key, value)) => Ok((key.trim().into(), value.trim().into())),
        None => Err(bad(format!("syntax error in the service file: \"{line}\""))),
    };
    let section = lines.take_while(|line| !line.starts_with('['));
    Some(section.map(pair).collect())
}

/// The password of a connection in a password file. As libpq does, it skips a file that is not
/// there, and one that others may read.
pub(super) fn password(file: &Path, connection: [&str; 4]) -> Option<String> {
    let metadata = fs::metadata(file).ok()?;
    let is_private = metadata.is_file() && metadata.permissions().mode() & 0o077 == 0;
    let content = is_private.then(|| read(file).ok().flatten())??;
    password_in(&content, connection)
}

/// `connection` is host, port, database and user.
fn password_in(content: &str, connection: [&str; 4]) -> Option<String> {
    let mut lines = content.lines().filter(|line| !line.starts_with('#'));
    lines.find_map(|line| {
        let mut rest = line;
        for wanted in connection {
            rest = match rest.strip_prefix("*:") {
                Some(after) => after,
                None => {
                    let (field, after) = until(rest, |c| c == ':');
                    after.filter(|_| field == wanted)?
                }
            };
        }
        Some(until(rest, |c| c == ':').0)
    })
}

/// A file of the user.
pub(super) fn in_home(name: &str) -> Option<PathBuf> {
    Some(env::home_dir()?.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_is_its_section_of_the_file() {
        let content = "# ours\n[a]\nhost=one\n\n[b]\n host = two \nport=5\n[c]\nbroken\n";
        let own = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        for (name, expected) in [
            ("a", vec![own("host", "one")]),
            ("b", vec![own("host", "two"), own("port", "5")]),
        ] {
            let pairs = service_in(content, name).expect("a service");
            assert_eq!(pairs.expect("pairs"), expected);
        }
        assert!(service_in(content, "d").is_none());
        assert!(service_in(content, "c").is_some_and(|pairs| pairs.is_err()));
    }

    #[test]
    fn password_is_that_of_the_first_line_that_matches() {
        let content = "#h:1:d:u:no\nh:1:d:u:a\\:b\n*:*:d\\:e:*:star\nshort:1\n*:*:*:v:last";
        let of = |connection| password_in(content, connection);
        assert_eq!(of(["h", "1", "d", "u"]).as_deref(), Some("a:b"));
        assert_eq!(of(["x", "2", "d:e", "u"]).as_deref(), Some("star"));
        assert_eq!(of(["x", "2", "d", "v"]).as_deref(), Some("last"));
        assert_eq!(of(["x", "2", "d", "u"]), None);
    }

    /// libpq takes only a bare star for all.
    #[test]
    fn escaped_star_is_a_star() {
        let content = "h:1:\\*:u:secret";
        assert_eq!(password_in(content, ["h", "1", "d", "u"]), None);
        assert_eq!(
            password_in(content, ["h", "1", "*", "u"]).as_deref(),
            Some("secret")
        );
    }
}
