//! Files that are written and removed durably. That they survive a crash is up to
//! the system; here is what can be seen without one.
#![cfg(not(loom))]

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

use leaf_core::file::{remove_durably, write_durably, write_secret_durably};

#[test]
fn content_is_replaced_as_a_whole_and_nothing_is_left_beside_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state.json");
    for content in ["a longer content", "short", ""] {
        write_durably(&path, content.as_bytes()).expect("it can be written");
        assert_eq!(fs::read_to_string(&path).expect("a file"), content);
    }
    let names: Vec<_> = fs::read_dir(folder.path())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(names, ["state.json"]);
}

#[test]
fn what_a_crash_left_behind_is_overwritten() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state");
    let left = format!("state.{}.tmp", std::process::id());
    fs::write(folder.path().join(left), "part of somethi").expect("a file");
    write_secret_durably(&path, b"all").expect("it can be written");
    assert_eq!(fs::read(&path).expect("a file"), b"all");
    // Nor is it another user's, who could read it.
    assert_eq!(fs::metadata(&path).expect("a file").mode() & 0o077, 0);
}

#[test]
fn files_that_differ_in_their_extension_are_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, two) = (folder.path().join("a.1"), folder.path().join("a.2"));
    // Where the temporary file of `one` would stand, nothing can be written.
    let there = format!("a.1.{}.tmp", std::process::id());
    fs::create_dir(folder.path().join(there)).expect("a folder");
    write_durably(&one, b"1").expect_err("a folder stands there");
    write_durably(&two, b"2").expect("it can be written");
    assert!(!one.exists());
}

/// As the sessions of a standby do that was promoted.
#[test]
fn processes_write_the_same_file_at_the_same_time() {
    const WRITER: &str = "LEAF_TEST_WRITES";
    if let Some(path) = std::env::var_os(WRITER) {
        for _ in 0..100 {
            write_durably(path.as_ref(), &[b'x'; 1_000]).expect("it can be written");
        }
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state");
    let writers: Vec<_> = (0..4)
        .map(|_| {
            Command::new(std::env::current_exe().expect("this program"))
                .args(["--exact", "processes_write_the_same_file_at_the_same_time"])
                .env(WRITER, &path)
                .stdout(Stdio::null())
                .spawn()
                .expect("a process")
        })
        .collect();
    for mut writer in writers {
        assert!(writer.wait().expect("it ends").success());
    }
    assert_eq!(fs::read(&path).expect("a file").len(), 1_000);
}

#[test]
fn missing_folder_is_an_error_for_a_writer_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("gone").join("state");
    let error = write_durably(&path, b"").expect_err("there is no folder");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    remove_durably(&path).expect("it is not there");
}

#[test]
fn removed_file_is_gone_and_may_be_removed_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state");
    write_durably(&path, b"x").expect("it can be written");
    for _ in 0..2 {
        remove_durably(&path).expect("it can be removed");
        assert!(!path.exists());
    }
    // What is no file is not removed.
    fs::create_dir(&path).expect("a folder");
    remove_durably(&path).expect_err("it is a folder");
}
