//! Compiles a C function that returns a constant, and creates it in the database.

use std::ffi::OsString;
use std::fs;
use std::process::Command;

use leaf_tests::{Draw, Server};

const LIBRARY: &str = "bench_constant.so";

/// Creates the SQL function `bench_constant(text)`, with the same declaration as
/// `leaf_segment_next`.
pub fn create(server: &Server) {
    server.write(LIBRARY, &compile());
    let library = server.data().join(LIBRARY);
    server.connect().run(&format!(
        "CREATE FUNCTION bench_constant(text) RETURNS bigint
         LANGUAGE c VOLATILE STRICT PARALLEL SAFE AS '{}', 'constant'",
        library.display()
    ));
}

/// The compiled library's bytes.
fn compile() -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder for the compiler");
    let source = folder.path().join("constant.c");
    let library = folder.path().join(LIBRARY);
    fs::write(&source, include_str!("constant.c")).expect("the source is written");
    let compiled = Command::new("cc")
        .args(["-O2", "-fPIC", "-shared", "-I"])
        .arg(includedir())
        .arg("-o")
        .arg(&library)
        .arg(&source)
        .status()
        .expect("cc runs");
    assert!(compiled.success(), "cc failed on constant.c");
    fs::read(&library).expect("cc has written the library")
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
