//! C code that runs inside a server.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::Server;

impl Server {
    /// Compiles C code into a library that the server can load.
    pub fn add_module(&self, name: &str, code: &str) -> PathBuf {
        let folder = tempfile::tempdir().expect("a folder for the compiler");
        let source = folder.path().join(name).with_extension("c");
        let library = source.with_extension("so");
        fs::write(&source, code).expect("the source is written");
        let compiled = Command::new("cc")
            .args(["-O2", "-fPIC", "-shared", "-I"])
            .arg(includedir())
            .arg("-o")
            .arg(&library)
            .arg(&source)
            .status()
            .expect("cc runs");
        assert!(compiled.success(), "cc failed on {name}.c");
        let file = format!("{name}.so");
        self.write(&file, &fs::read(&library).expect("cc has written it"));
        self.data().join(file)
    }
}

/// The folder of the server's headers.
fn includedir() -> String {
    let pg_config = std::env::var_os("PG_CONFIG").unwrap_or(OsString::from("pg_config"));
    let output = Command::new(&pg_config)
        .arg("--includedir-server")
        .output()
        .unwrap_or_else(|e| panic!("{pg_config:?}: {e}"));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
