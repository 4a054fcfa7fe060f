//! The files that leaf keeps in the data directory: lost, put back, or in a copy.

use leaf_tests::{Ledger, Mode, Server, Snowflake, draw_many};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// The names of the files that the code writes.
fn of_the_code() -> BTreeSet<String> {
    let source = include_str!("../../../../src/pg/data_directory.rs");
    let values = source.split("&str = \"").skip(1);
    let name = |value: &str| value.split('"').next().expect("a name").to_owned();
    values.map(name).collect()
}

/// The files of leaf in the data directory of a stopped server, by their names in it.
fn files(server: &Server) -> Vec<PathBuf> {
    let data = server.data();
    let mut found = Vec::new();
    for folder in ["", "leaf", "pg_stat_tmp"] {
        for entry in fs::read_dir(data.join(folder)).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(&data).expect("it is there").to_owned();
            if path.is_file() && name.to_string_lossy().contains("leaf") {
                found.push(name);
            }
        }
    }
    found
}

/// What was drawn of both kinds, each of which comes once.
#[derive(Default)]
struct Drawn {
    ids: Ledger,
    snowflakes: Ledger,
}

impl Drawn {
    fn draw(&mut self, server: &Server) {
        let mut client = server.connect();
        self.ids.add(draw_many(&mut client, "orders", 150));
        self.snowflakes.add(client.snowflakes(300).expect("ids"));
    }
}

#[test]
fn files_that_are_lost_or_older_repeat_nothing() {
    let (mut server, _) = Server::with_orders(1000);
    let mut drawn = Drawn::default();
    drawn.draw(&server);
    server.stop(Mode::Fast);
    let older = server.copy();
    let names = files(&server);
    let known = of_the_code();
    let is_known = |name: &PathBuf| {
        let name = name.to_string_lossy().into_owned();
        known.iter().any(|known| name.starts_with(known.as_str()))
    };
    assert!(
        names.len() >= 3 && names.iter().all(is_known),
        "{names:?}, {known:?}"
    );
    server.start_again();
    drawn.draw(&server);
    for name in names {
        let path = server.data().join(&name);
        server.stop(Mode::Fast);
        // One that was removed before is written only when it is needed.
        let _ = fs::remove_file(&path);
        server.start_again();
        drawn.draw(&server);
        server.stop(Mode::Fast);
        let content = fs::read(older.data().join(&name)).expect("it was there");
        server.write(&name.to_string_lossy(), &content);
        server.start_again();
        drawn.draw(&server);
        drawn.draw(&server);
    }
}

/// It has all files of its original, and the same history up to here.
#[test]
fn copy_that_was_told_to_be_one_hands_out_nothing_of_its_original() {
    let (mut server, _) = Server::with_orders(1000);
    let mut drawn = Drawn::default();
    drawn.draw(&server);
    server.stop(Mode::Fast);
    let mut copy = server.copy();
    copy.write("leaf_new_history.signal", b"");
    server.start_again();
    copy.start_again();
    for _ in 0..5 {
        drawn.draw(&server);
        drawn.draw(&copy);
    }
    let told = copy.data().join("leaf_new_history.signal");
    assert!(!told.exists(), "it is told once");
    let history = |server: &Server| fs::read(server.data().join("leaf/history")).expect("a file");
    let before = history(&copy);
    copy.restart(Mode::Immediate);
    let of = |content: &[u8]| {
        let content: serde_json::Value = serde_json::from_slice(content).expect("JSON");
        content["nonce"].clone()
    };
    assert_eq!(of(&history(&copy)), of(&before), "and then goes on");
}
