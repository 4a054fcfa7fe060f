//! A copy of the server's installation.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use postgres::Client;
use tempfile::TempDir;

use crate::account::run;
use crate::{Draw, cluster};

/// A copy of the installation that the tests use, to which a test adds versions of
/// the extension.
pub struct Installation {
    _folder: TempDir,
    bindir: PathBuf,
    libraries: PathBuf,
    extensions: PathBuf,
}

impl Installation {
    /// Copies programs, libraries and scripts, where they are links as links.
    pub fn copy() -> Installation {
        let original = cluster::bindir();
        let folder = tempfile::Builder::new()
            .prefix("installation-")
            .tempdir_in(cluster::home())
            .expect("a folder");
        run(Command::new("chmod").arg("755").arg(folder.path()));
        let copy = |what: &str| {
            let from = answer(&original, what);
            // Where a program looks for the others is relative to where it is.
            let to = folder.path().join(from.strip_prefix("/").expect("a path"));
            fs::create_dir_all(to.parent().expect("a parent")).expect("a folder");
            run(Command::new("cp").arg("-a").arg(&from).arg(&to));
            to
        };
        let bindir = copy("--bindir");
        let libraries = copy("--pkglibdir");
        let extensions = copy("--sharedir").join("extension");
        Installation {
            _folder: folder,
            bindir,
            libraries,
            extensions,
        }
    }

    /// A copy with the library and the scripts of the earlier version in place of those that are tested.
    pub fn earlier() -> Installation {
        let installation = Installation::copy();
        let is_script = |name: &str| name == "leaf.control" || name.starts_with("leaf--");
        for name in names(&installation.extensions) {
            if is_script(&name) {
                fs::remove_file(installation.extensions.join(name)).expect("a file");
            }
        }
        for name in names(&earlier()) {
            let folder = match name.as_str() {
                "leaf.so" => &installation.libraries,
                name if is_script(name) => &installation.extensions,
                _ => continue,
            };
            fs::copy(earlier().join(&name), folder.join(&name)).expect("a file");
        }
        installation
    }

    /// The text of a script of the extension.
    pub fn script(&self, name: &str) -> String {
        fs::read_to_string(self.extensions.join(name)).expect("a script")
    }

    /// Adds a script of the extension.
    pub fn add_script(&self, name: &str, text: &str) {
        fs::write(self.extensions.join(name), text).expect("a script");
    }

    pub(crate) fn bindir(&self) -> &Path {
        &self.bindir
    }
}

/// The folder with the library, the scripts and `leafctl` of an earlier version.
pub(crate) fn earlier() -> PathBuf {
    std::env::var_os("LEAF_EARLIER")
        .expect("LEAF_EARLIER; scripts/test-versions sets it")
        .into()
}

/// The names of the files in a folder.
fn names(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).expect("a folder");
    let name = |file: fs::DirEntry| file.file_name().into_string().expect("a name");
    files.map(|file| name(file.expect("a file"))).collect()
}

/// What the `pg_config` of an installation answers.
fn answer(bindir: &Path, what: &str) -> PathBuf {
    let output = Command::new(bindir.join("pg_config")).arg(what).output();
    let answer = String::from_utf8(output.expect("pg_config").stdout).expect("a path");
    PathBuf::from(answer.trim_end())
}

/// Whether the server has an extension that `scripts/setup` installs for Debian's PostgreSQL 15, and
/// for no other one; panics if it is missing there.
#[track_caller]
pub fn has_extension_of_debian(client: &mut Client, name: &str) -> bool {
    let is_there = client.number(&format!(
        "SELECT count(*) FROM pg_available_extensions WHERE name = '{name}'"
    )) > 0;
    let version = client.text("SELECT version()");
    let is_debians = version.starts_with("PostgreSQL 15") && version.contains("Debian");
    assert!(is_there || !is_debians, "{name} is not installed");
    if !is_there {
        println!("not run: this server has no {name}");
    }
    is_there
}
