//! The disk of a server, which a test fills while the server runs.
//!
//! The server is started with a small library before all others, see `disk.c`:
//! while a certain file exists, none of the server's files can grow.

use crate::preload;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// At first with room.
pub struct Disk {
    flag: PathBuf,
    library: PathBuf,
}

impl Disk {
    /// A disk whose file lies in `folder`, which the server's account may enter.
    pub(crate) fn new(folder: &Path) -> Disk {
        Disk {
            flag: folder.join("disk-is-full"),
            library: preload::compile(folder, "disk", include_str!("disk.c")),
        }
    }

    /// From now on no file can grow.
    pub fn fill(&self) {
        fs::write(&self.flag, "").expect("a file");
    }

    /// From now on there is room.
    pub fn free(&self) {
        fs::remove_file(&self.flag).expect("the disk was full");
    }

    /// Makes this the disk of the program that `command` starts.
    pub(crate) fn drive(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", &self.library)
            .env("LEAF_DISK_FULL", &self.flag);
    }
}
