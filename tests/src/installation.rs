//! A copy of the server's installation.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::account::run;
use crate::cluster;

/// A copy of the installation that the tests use, to which a test adds versions of
/// the extension.
pub struct Installation {
    _folder: TempDir,
    bindir: PathBuf,
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
        copy("--pkglibdir");
        let extensions = copy("--sharedir").join("extension");
        Installation {
            _folder: folder,
            bindir,
            extensions,
        }
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

/// What the `pg_config` of an installation answers.
fn answer(bindir: &Path, what: &str) -> PathBuf {
    let output = Command::new(bindir.join("pg_config")).arg(what).output();
    let answer = String::from_utf8(output.expect("pg_config").stdout).expect("a path");
    PathBuf::from(answer.trim_end())
}
