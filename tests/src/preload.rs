//! Libraries that are loaded into a program before all others.

use crate::account::{give, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles C code into a library in `folder`.
pub fn compile(folder: &Path, name: &str, code: &str) -> PathBuf {
    let source = folder.join(name).with_extension("c");
    let library = source.with_extension("so");
    fs::write(&source, code).expect("a source file");
    run(Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source));
    give(&library);
    library
}
