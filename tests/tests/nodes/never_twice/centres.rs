//! A centre that has lost numbers that shards have got: it feeds nobody before somebody has
//! moved the tag past them.

use leaf_tests::postgres::NoTls;
use leaf_tests::{
    Centre, Draw, Mode, Server, Signal, Snowflake, attach, draw_many, refused, signal, wait_until,
};
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

/// A centre whose failovers lose nothing.
fn lossless_centre() -> Centre {
    Centre::of(Server::options().set("leaf.lossless_failover", "on"))
}

#[test]
fn promoted_synchronous_standby_of_a_centre_feeds_on() {
    let mut centre = lossless_centre();
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
    let mut centre = lossless_centre();
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

/// A standby of `primary` whose commits nobody has to confirm.
fn standby_of(primary: &Server, name: &str) -> Server {
    let standby = Server::options()
        .set("cluster_name", name)
        .set("synchronous_standby_names", "")
        .start_standby_of(primary);
    standby.catch_up_with(primary);
    standby
}

/// Nobody can ask in between: what is not fed says nothing.
#[test]
fn centre_feeds_on_after_failovers_that_follow_each_other() {
    let mut centre = lossless_centre();
    centre.create("orders", "");
    let mut standbys = ["b", "c"].map(|name| standby_of(&centre.0, name));
    (centre.0.connect()).feed("orders", 1000).expect("numbers");
    standbys[1].catch_up_with(&centre.0);
    centre.0.stop(Mode::Immediate);
    standbys[0].promote();
    let origins = "SELECT count(*) FROM pg_replication_origin WHERE roname ~ '^leaf_history'";
    wait_until("its history is recorded", || {
        standbys[0].connect().number(origins) == 2
    });
    let conninfo = standbys[0].connection_string();
    standbys[1].reload("primary_conninfo", &conninfo.replace('\'', "''"));
    standbys[1].catch_up_with(&standbys[0]);
    standbys[0].stop(Mode::Immediate);
    let fed = standbys[1].promote().feed("orders", 10).expect("numbers");
    assert!(fed.first > 1000, "{fed:?}");
}

/// The server in between was promoted as one that lacks something, and has handed out nothing.
#[test]
fn standby_of_a_server_that_lacks_numbers_feeds_nothing_when_it_is_promoted_next() {
    let mut centre = lossless_centre();
    centre.create("orders", "");
    let mut standbys = ["b", "c"].map(|name| standby_of(&centre.0, name));
    let mut client = centre.0.connect();
    let former = client.snowflake().expect("an id");
    for standby in &standbys {
        standby.catch_up_with(&centre.0);
        standby.reload("primary_conninfo", "");
    }
    client.feed("orders", 1000).expect("numbers");
    centre.0.stop(Mode::Immediate);
    standbys[0].configure("leaf.lossless_failover = off\n");
    standbys[0].restart(Mode::Fast);
    let mut there = standbys[0].promote();
    assert_eq!(there.feed("orders", 1).expect_err("none"), "55000");
    let conninfo = standbys[0].connection_string();
    standbys[1].reload("primary_conninfo", &conninfo.replace('\'', "''"));
    standbys[1].catch_up_with(&standbys[0]);
    standbys[0].stop(Mode::Immediate);
    let mut there = standbys[1].promote();
    assert_eq!(there.feed("orders", 1).expect_err("none"), "55000");
    let worker_id = |id: i64| id >> 12 & 1_023;
    let id = there.snowflake().expect("an id");
    assert_ne!(worker_id(id), worker_id(former));
}

#[test]
fn standby_that_was_told_of_lossless_failovers_after_its_promotion_feeds_nothing() {
    let centre = Centre::start();
    centre.create("orders", "");
    let mut standby = standby_of(&centre.0, "s");
    (centre.0.connect()).feed("orders", 1000).expect("numbers");
    standby.catch_up_with(&centre.0);
    let mut there = standby.promote();
    assert_eq!(there.feed("orders", 1).expect_err("none"), "55000");
    standby.configure("leaf.lossless_failover = on\n");
    standby.restart(Mode::Fast);
    let mut there = standby.connect();
    assert_eq!(there.feed("orders", 1).expect_err("none"), "55000");
    // Nor does its own standby.
    let next = standby_of(&standby, "t");
    let mut there = next.promote();
    assert_eq!(there.feed("orders", 1).expect_err("none"), "55000");
}

#[test]
fn promoted_standby_feeds_once_somebody_vouches() {
    let centre = Centre::start();
    centre.create("orders", "");
    centre.create("parcels", "");
    centre.0.connect().run(
        "CREATE ROLE boss LOGIN; CREATE ROLE other LOGIN; ALTER DATABASE postgres OWNER TO boss",
    );
    let standby = standby_of(&centre.0, "s");
    let before = (centre.0.connect()).feed("orders", 1000).expect("numbers");
    standby.catch_up_with(&centre.0);
    let mut there = standby.promote();
    for tag in ["orders", "parcels"] {
        assert_eq!(there.feed(tag, 1).expect_err("none"), "55000");
    }
    let vouch = |role: &str, call: &str| {
        let mut client = standby.connect_as(role, "postgres");
        client.batch_execute(&format!("SELECT leaf_tag_vouch({call})"))
    };
    refused(vouch("other", "'orders'"), "42501");
    refused(vouch("boss", "'missing'"), "42704");
    vouch("boss", "'orders'").expect("the owner of the database may");
    let after = there.feed("orders", 1).expect("numbers");
    assert!(after.first > before.last, "{before:?}, then {after:?}");
    assert_eq!(there.feed("parcels", 1).expect_err("none"), "55000");
    vouch("postgres", "").expect("a superuser may");
    there.feed("parcels", 1).expect("numbers");
    let log = standby.log();
    for said in [
        "role \"boss\" vouches for tag \"orders\"",
        "role \"postgres\" vouches for all",
    ] {
        assert!(log.contains(said), "{said}");
    }
}

/// The synchronous one had confirmed everything, and another one is promoted.
#[test]
fn promoted_asynchronous_standby_of_a_replicated_centre_feeds_nothing() {
    let mut centre = Centre::start();
    centre.create("orders", "");
    let [_synchronous, asynchronous] = ["s", "a"].map(|name| standby_of(&centre.0, name));
    centre.0.reload("synchronous_standby_names", "s");
    let mut client = centre.0.connect();
    client.feed("orders", 1000).expect("numbers");
    asynchronous.catch_up_with(&centre.0);
    asynchronous.reload("primary_conninfo", "");
    client.feed("orders", 1000).expect("numbers");
    centre.0.stop(Mode::Immediate);
    let mut there = asynchronous.promote();
    assert_eq!(there.feed("orders", 1000).expect_err("none"), "55000");
}

/// It has all that it had written itself, and not what others have fed since.
#[test]
fn former_primary_that_is_promoted_after_others_had_led_feeds_nothing() {
    let mut centre = Centre::start();
    centre.create("orders", "");
    let standby = standby_of(&centre.0, "s");
    (centre.0.connect()).feed("orders", 1000).expect("numbers");
    standby.catch_up_with(&centre.0);
    centre.0.stop(Mode::Fast);
    let mut there = standby.promote();
    there.run("SELECT leaf_tag_vouch()");
    there.feed("orders", 1000).expect("numbers");
    drop(standby);
    centre.0.write("standby.signal", b"");
    centre.0.start_again();
    let mut again = centre.0.promote();
    assert_eq!(again.feed("orders", 1000).expect_err("none"), "55000");
}

/// Its columns are not all that has got numbers.
#[test]
fn alignment_of_a_restored_centre_does_not_make_it_feed() {
    let centre = Centre::start();
    centre.create("orders", "");
    let mut client = centre.0.connect();
    client.run("CREATE TABLE orders (id bigint DEFAULT leaf_segment_next('orders'))");
    client.feed("orders", 1000).expect("numbers");
    client.run("CREATE DATABASE other");
    centre.0.dump_and_restore("postgres", "other");
    client.feed("orders", 60_000).expect("numbers");
    let mut other = centre.0.connect_as("postgres", "other");
    other.run("INSERT INTO orders SELECT max_id + 20000 FROM leaf.alloc; SELECT leaf_tag_align()");
    assert_eq!(other.feed("orders", 1000).expect_err("none"), "55000");
    other.run("UPDATE leaf.alloc SET max_id = max_id + 1");
    assert_eq!(other.feed("orders", 1000).expect_err("none"), "55000");
}

/// Nothing was drawn in between.
#[test]
fn centre_that_is_restarted_after_its_promotion_feeds_on() {
    let mut centre = lossless_centre();
    centre.create("orders", "");
    let mut standby = standby_of(&centre.0, "s");
    (centre.0.connect()).feed("orders", 1000).expect("numbers");
    standby.catch_up_with(&centre.0);
    centre.0.stop(Mode::Immediate);
    standby.promote();
    let history = standby.data().join("leaf/history");
    wait_until("the new history is stored", || {
        fs::read_to_string(&history).is_ok_and(|it| it.contains("continued"))
    });
    standby.restart(Mode::Fast);
    let fed = standby.connect().feed("orders", 10).expect("numbers");
    assert!(fed.first > 1000, "{fed:?}");
}

/// Nothing was recorded of its own history, in which it was restored.
#[test]
fn restored_centre_that_is_promoted_as_its_own_standby_feeds_nothing() {
    let mut centre = lossless_centre();
    centre.create("orders", "");
    (centre.0.connect()).feed("orders", 1000).expect("numbers");
    let mut backup = Server::options().start_backup_of(&centre.0);
    (centre.0.connect()).feed("orders", 1000).expect("numbers");
    centre.0.stop(Mode::Immediate);
    backup.single_user("SELECT 1");
    backup.write("standby.signal", b"");
    backup.start_again();
    let mut there = backup.promote();
    assert_eq!(there.feed("orders", 1).expect_err("none"), "55000");
}

/// A file that somebody has removed meanwhile says nothing of what has happened.
#[test]
fn crash_begins_no_history_while_the_server_runs() {
    let mut centre = lossless_centre();
    centre.create("orders", "");
    (centre.0.connect()).feed("orders", 1000).expect("numbers");
    fs::remove_file(centre.0.data().join("leaf/history")).expect("the file");
    crash(&centre.0);
    (centre.0.connect()).feed("orders", 1000).expect("numbers");
    let standby = standby_of(&centre.0, "s");
    (centre.0.connect()).feed("orders", 1000).expect("numbers");
    standby.catch_up_with(&centre.0);
    centre.0.stop(Mode::Immediate);
    standby.promote().feed("orders", 10).expect("numbers");
}

/// It is another space of ids, which has the identity of the first.
#[test]
fn database_that_was_copied_from_a_centre_feeds_nothing() {
    let centre = Centre::start();
    let mut admin = centre.0.connect();
    admin.run("CREATE DATABASE ids");
    let mut ids = centre.0.connect_as("postgres", "ids");
    ids.run("CREATE EXTENSION leaf; SELECT leaf_tag_create('orders')");
    ids.feed("orders", 10).expect("numbers");
    drop(ids);
    admin.run("CREATE DATABASE copy TEMPLATE ids");
    let mut copy = centre.0.connect_as("postgres", "copy");
    assert_eq!(copy.feed("orders", 10).expect_err("none"), "55000");
}

/// A backend of the server is killed; all others are ended with it.
fn crash(server: &Server) {
    let (mut client, mut other) = (server.connect(), server.connect());
    let pid = client.number("SELECT pg_backend_pid()::bigint");
    signal(pid as i32, Signal::SIGKILL);
    wait_until("the server has noticed", || {
        other.batch_execute("SELECT").is_err()
    });
    wait_until("the server has recovered", || {
        let client = server.config("postgres", "postgres").connect(NoTls);
        client.is_ok_and(|mut it| it.batch_execute("SELECT pg_current_wal_lsn()").is_ok())
    });
}

/// It has not been restarted since it was made from a base backup.
#[test]
fn promoted_standby_whose_backend_crashes_feeds_on() {
    let mut centre = lossless_centre();
    centre.create("orders", "");
    let standby = standby_of(&centre.0, "b");
    (centre.0.connect()).feed("orders", 1000).expect("numbers");
    standby.catch_up_with(&centre.0);
    centre.0.stop(Mode::Immediate);
    let mut client = standby.promote();
    client.feed("orders", 10).expect("numbers");
    crash(&standby);
    let fed = standby.connect().feed("orders", 10).expect("numbers");
    assert!(fed.first > 1000, "{fed:?}");
}

#[test]
fn standby_that_was_made_of_another_standby_feeds_nothing_of_a_copied_centre() {
    let mut centre = lossless_centre();
    centre.create("orders", "");
    (centre.0.connect()).feed("orders", 1000).expect("numbers");
    centre.0.stop(Mode::Fast);
    let mut copy = centre.0.copy();
    centre.0.start_again();
    copy.write("leaf_new_history.signal", b"");
    copy.start_again();
    assert_eq!(copy.connect().feed("orders", 1).expect_err("none"), "55000");
    let first = standby_of(&copy, "b");
    let second = Server::options().start_standby_of(&first);
    copy.connect().batch("orders", 5000).expect("ids");
    second.catch_up_with(&copy);
    let mut client = second.promote();
    assert_eq!(client.feed("orders", 1).expect_err("none"), "55000");
}
