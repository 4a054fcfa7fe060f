//! The clock of a server, which a test moves while the server runs.
//!
//! The postmaster is started with libfaketime before all other libraries (and a
//! small one before that, see `clock.c`), and its children inherit both. Whenever
//! one of them asks for the time of day it reads a file that says how far its
//! clock is off; clocks that only measure how long something takes stay real.
//! Programs that talk to the server have the machine's clock.

use crate::account::give;
use crate::preload;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Compared with the machine's clock, at first no different from it.
pub struct Clock {
    file: PathBuf,
    libraries: OsString,
}

impl Clock {
    /// A clock whose file lies in `folder`, which the server's account may enter.
    pub fn new(folder: &Path) -> Clock {
        let code = include_str!("clock.c");
        let mut libraries = preload::compile(folder, "clock", code).into_os_string();
        libraries.push(":");
        libraries.push(faketime());
        let clock = Clock {
            file: folder.join("clock"),
            libraries,
        };
        clock.right();
        clock
    }

    /// The clock is right.
    pub fn right(&self) {
        self.set("+0");
    }

    /// The clock is ahead by so much.
    pub fn ahead(&self, by: Duration) {
        self.set(&format!("+{:.6}", by.as_secs_f64()));
    }

    /// The clock is behind by so much.
    pub fn behind(&self, by: Duration) {
        self.set(&format!("-{:.6}", by.as_secs_f64()));
    }

    /// The clock stands still, at so many seconds since 1970.
    pub fn stand_at(&self, seconds: i64) {
        self.set(&seconds.to_string());
    }

    /// In one step, because the server reads the file all the time.
    fn set(&self, offset: &str) {
        let new = self.file.with_extension("new");
        fs::write(&new, offset).expect("a file for the clock");
        give(&new);
        fs::rename(&new, &self.file).expect("rename");
    }

    /// Makes this the clock of the program that `command` starts.
    pub fn drive(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", &self.libraries)
            .env("FAKETIME_TIMESTAMP_FILE", &self.file)
            .env("FAKETIME_NO_CACHE", "1")
            // Of an instant; how far a clock is off has a sign.
            .env("FAKETIME_FMT", "%s")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
}

/// libfaketime for programs of this machine's kind; Debian has a folder for each
/// kind, such as `x86_64-linux-gnu`.
fn faketime() -> PathBuf {
    let of_this_kind = fs::read_dir("/usr/lib")
        .expect("/usr/lib")
        .filter_map(|entry| entry.ok())
        .filter(|entry| {
            let name = entry.file_name();
            name.to_string_lossy().starts_with(std::env::consts::ARCH)
        })
        .map(|entry| entry.path());
    let others = ["/usr/lib64", "/usr/lib", "/usr/local/lib"].map(PathBuf::from);
    of_this_kind
        .chain(others)
        .map(|folder| folder.join("faketime/libfaketime.so.1"))
        .find(|library| library.exists())
        .expect("libfaketime is missing: `make setup` installs Debian's package faketime")
}
