//! A centre that has lost numbers that shards have got: it feeds nobody before somebody has
//! moved the tag past them.

use leaf_tests::{Centre, Draw, Mode, Server, attach, draw_many, refused, wait_until};
use std::fs;

/// A shard that finds the centre at one of these servers.
fn shard_of(servers: &[&Server]) -> Server {
    let list = |part: fn(&Server) -> String| {
        let parts: Vec<_> = servers.iter().map(|server| part(server)).collect();
        parts.join(",")
    };
    let (hosts, ports) = (list(Server::host), list(|server| server.port().to_string()));
    let upstream = format!("host={hosts} port={ports} user=shard dbname=postgres");
    Server::options()
        .set("leaf.upstream", &upstream)
        .set("leaf.upstream_timeout", "1s")
        .start()
}

/// A fed tag of the shard, with segments of at most 100 ids.
fn attach_small(shard: &Server) {
    attach(shard, "orders", 10);
    let mut client = shard.connect();
    client.run("SELECT leaf_tag_alter('orders', max_step => 100)");
    client.next("orders").expect("an id");
}

/// The tag feeds nobody, but works at the centre; moved by hand, it feeds again.
fn feeds_only_once_it_was_moved(centre: &Server, shard: &Server) {
    let mut client = shard.connect();
    client.run("SET leaf.wait_timeout = '2s'");
    refused(client.reserve("orders", 10), "55P03");
    let cause = "SELECT count(*) FROM leaf.stat_upstream WHERE last_error ~ 'may have fed'";
    assert_eq!(client.number(cause), 1);
    let mut there = centre.connect();
    there.next("orders").expect("an id of the centre's own");
    assert_eq!(there.feed("orders", 1).expect_err("none"), "55000");
    let highest = client.number("SELECT max_id FROM leaf.alloc");
    there.run(&format!(
        "SELECT leaf_tag_alter('orders', advance_to => greatest(max_id, {highest})) FROM leaf.alloc"
    ));
    let block = client.reserve("orders", 10).expect("a block");
    assert!(block.first >= highest, "{block:?} after {highest}");
}

/// Starts a backup that was to be a standby as the end of a recovery from an empty archive.
fn recover(backup: &mut Server) {
    fs::remove_file(backup.data().join("standby.signal")).expect("a standby");
    backup.write("recovery.signal", b"");
    backup.configure("restore_command = 'false'\nprimary_conninfo = ''\n");
    backup.start_again();
    backup.ends_recovery();
}

#[test]
fn centre_restored_from_a_backup_feeds_only_once_the_tag_was_moved() {
    let mut centre = Centre::start();
    centre.create("orders", "");
    let mut backup = Server::options().start_standby_of(&centre.0);
    let shard = shard_of(&[&centre.0, &backup]);
    attach_small(&shard);
    backup.catch_up_with(&centre.0);
    backup.stop(Mode::Fast);
    draw_many(&mut shard.connect(), "orders", 5000);
    centre.0.stop(Mode::Immediate);
    recover(&mut backup);
    feeds_only_once_it_was_moved(&backup, &shard);
}

#[test]
fn centre_after_an_asynchronous_failover_feeds_only_once_the_tag_was_moved() {
    let mut centre = Centre::start();
    centre.create("orders", "");
    let standby = Server::options().start_standby_of(&centre.0);
    let shard = shard_of(&[&centre.0, &standby]);
    attach_small(&shard);
    standby.catch_up_with(&centre.0);
    draw_many(&mut shard.connect(), "orders", 5000);
    centre.0.stop(Mode::Immediate);
    standby.promote();
    feeds_only_once_it_was_moved(&standby, &shard);
}

#[test]
fn centre_that_was_dumped_and_restored_feeds_only_once_the_tag_was_moved() {
    let centre = Centre::start();
    centre.create("orders", "");
    (centre.0.connect()).feed("orders", 1000).expect("numbers");
    centre.0.connect().run("CREATE DATABASE other");
    centre.0.dump_and_restore("postgres", "other");
    let mut other = centre.0.connect_as("postgres", "other");
    assert_eq!(other.feed("orders", 1).expect_err("none"), "55000");
    other.run("SELECT leaf_tag_alter('orders', advance_to => 5000)");
    assert!(other.feed("orders", 1).expect("numbers").first >= 5000);
}

#[test]
fn promoted_synchronous_standby_of_a_centre_feeds_on() {
    let mut centre = Centre::start();
    let standby = Server::options()
        .set("synchronous_standby_names", "")
        .start_standby_of(&centre.0);
    standby.catch_up_with(&centre.0);
    centre.0.reload("synchronous_standby_names", "*");
    centre.create("orders", "");
    let shard = shard_of(&[&centre.0, &standby]);
    attach_small(&shard);
    let before = draw_many(&mut shard.connect(), "orders", 5000);
    centre.0.stop(Mode::Immediate);
    standby.promote();
    let after = draw_many(&mut shard.connect(), "orders", 5000);
    assert!(after.first() > before.last());
}

/// A centre whose grants a synchronous standby confirms, a stopped copy of it from before the
/// shard has drawn, and the folder with its archive.
fn centre_with_backup_and_archive() -> (Centre, Server, Server, Server, String) {
    let centre = Centre::of(
        Server::options()
            .set("archive_mode", "on")
            .set("wal_level", "replica"),
    );
    let archive = centre.0.make_folder("archive").display().to_string();
    centre
        .0
        .reload("archive_command", &format!("cp %p {archive}/%f"));
    centre.create("orders", "");
    let no_standby = || {
        Server::options()
            .set("synchronous_standby_names", "")
            .set("archive_mode", "off")
    };
    let standby = no_standby().start_standby_of(&centre.0);
    let mut backup = no_standby().start_standby_of(&centre.0);
    for copy in [&standby, &backup] {
        copy.catch_up_with(&centre.0);
    }
    backup.stop(Mode::Fast);
    centre.0.reload("synchronous_standby_names", "*");
    let shard = shard_of(&[&centre.0, &backup]);
    attach_small(&shard);
    draw_many(&mut shard.connect(), "orders", 500);
    (centre, standby, backup, shard, archive)
}

#[test]
fn centre_restored_from_an_archive_as_a_standby_feeds_only_once_the_tag_was_moved() {
    let (mut centre, standby, mut backup, shard, archive) = centre_with_backup_and_archive();
    let mut there = centre.0.connect();
    there.run("SELECT pg_switch_wal()");
    wait_until("the segment is archived", || {
        there.number("SELECT archived_count FROM pg_stat_archiver") > 0
    });
    draw_many(&mut shard.connect(), "orders", 5000);
    centre.0.stop(Mode::Immediate);
    drop(standby);
    backup.configure(&format!(
        "restore_command = 'cp {archive}/%f %p'\nprimary_conninfo = ''\n"
    ));
    backup.start_again();
    backup.promote();
    feeds_only_once_it_was_moved(&backup, &shard);
}

#[test]
fn centre_restored_from_a_replicated_one_feeds_only_once_the_tag_was_moved() {
    let (mut centre, standby, mut backup, shard, _) = centre_with_backup_and_archive();
    draw_many(&mut shard.connect(), "orders", 5000);
    centre.0.stop(Mode::Immediate);
    drop(standby);
    recover(&mut backup);
    feeds_only_once_it_was_moved(&backup, &shard);
}

/// As Patroni restarts a leader.
#[test]
fn centre_that_starts_as_a_standby_and_is_promoted_again_feeds_on() {
    let mut centre = Centre::start();
    centre.create("orders", "");
    let standby = Server::options()
        .set("synchronous_standby_names", "")
        .start_standby_of(&centre.0);
    standby.catch_up_with(&centre.0);
    centre.0.reload("synchronous_standby_names", "*");
    let shard = shard_of(&[&centre.0]);
    attach_small(&shard);
    let before = draw_many(&mut shard.connect(), "orders", 500);
    centre.0.stop(Mode::Fast);
    drop(standby);
    centre.0.write("standby.signal", b"");
    centre.0.start_again();
    centre.0.promote();
    centre.0.reload("synchronous_standby_names", "");
    let after = draw_many(&mut shard.connect(), "orders", 500);
    assert!(after.first() > before.last());
}
