//! Two servers with one past, and clients that draw of both: nothing comes twice
//! among them, as far as the documentation promises.

use leaf_tests::postgres::Client;
use leaf_tests::{
    Draw, Ledger, Load, Mode, Server, Snowflake, command, draw_many, run, wait_until,
};
use std::sync::Mutex;

/// What was drawn of both servers.
struct Ledgers {
    ids: Mutex<Ledger>,
    snowflakes: Mutex<Ledger>,
}

impl Ledgers {
    fn new() -> Ledgers {
        Ledgers {
            ids: Mutex::new(Ledger::new()),
            snowflakes: Mutex::new(Ledger::new()),
        }
    }

    /// Draws of a server in several sessions while `then` runs. What cannot be
    /// granted or leased while nobody confirms it is refused.
    fn draw_of(&self, server: &Server, then: impl FnOnce(&Load)) {
        let draw = |client: &mut Client, call: usize| {
            let ids = match call % 4 {
                0 => client.next("orders").map(|id| vec![id])?,
                1 => client.reserve("orders", 30)?.ids().collect(),
                2 => client.batch("orders", 99)?,
                _ => {
                    let ids = client.snowflakes(50)?;
                    self.snowflakes.lock().expect("no panic").add(ids);
                    return Ok(vec![]);
                }
            };
            self.ids.lock().expect("no panic").add(ids.iter().copied());
            Ok(ids)
        };
        let config = server.config("postgres", "postgres");
        Load::run(&config, 4, "55P03", draw, then);
    }

    /// Draws of a server, so many of each kind.
    fn draw_some(&self, server: &Server, count: usize) {
        let mut client = server.connect();
        let ids = draw_many(&mut client, "orders", count);
        self.ids.lock().expect("no panic").add(ids);
        let ids = client.snowflakes(count as i32).expect("ids");
        self.snowflakes.lock().expect("no panic").add(ids);
    }
}

/// A primary whose segments stay small, so that it grants often.
fn primary() -> Server {
    let server = Server::options()
        .set("leaf.max_step", "1000")
        .set("leaf.wait_timeout", "500ms")
        .set("wal_level", "replica")
        .start();
    server
        .connect()
        .run("SELECT leaf_tag_create('orders', step => 1000)");
    server
}

/// A standby that `primary` waits for with every commit. It skips nothing when it
/// is promoted: what protects is only what it has confirmed.
fn synchronous_standby(primary: &Server) -> Server {
    let standby = Server::options()
        .set("synchronous_standby_names", "")
        .set("leaf.history_skip", "0")
        .start_standby_of(primary);
    standby.catch_up_with(primary);
    primary.reload("synchronous_standby_names", "*");
    standby
}

#[test]
fn synchronous_standby_promoted_beside_its_primary_repeats_nothing() {
    let primary = primary();
    let standby = synchronous_standby(&primary);
    let ledgers = Ledgers::new();
    ledgers.draw_of(&primary, |of_primary| {
        of_primary.goes_on(10_000);
        standby.promote();
        ledgers.draw_of(&standby, |of_standby| {
            // The old primary gives out what was confirmed, and then no more.
            of_primary.is_refused(4);
            of_standby.goes_on(10_000);
        });
    });
}

#[test]
fn synchronous_standby_promoted_after_its_primarys_crash_repeats_nothing() {
    let mut primary = primary();
    let standby = synchronous_standby(&primary);
    let ledgers = Ledgers::new();
    let config = primary.config("postgres", "postgres");
    let draw = |client: &mut Client, call: usize| {
        let ids = client.batch("orders", 1 + (call as i32 * 31) % 400)?;
        ledgers.ids.lock().expect("no panic").add(ids.clone());
        Ok(ids)
    };
    Load::run(&config, 4, "55P03", draw, |load| {
        load.goes_on(20_000);
        primary.kill_postmaster();
    });
    standby.promote();
    ledgers.draw_of(&standby, |of_standby| of_standby.goes_on(10_000));
}

#[test]
fn asynchronous_standby_skips_what_it_may_have_missed() {
    let primary = primary();
    let standby = Server::options().start_standby_of(&primary);
    let ledgers = Ledgers::new();
    ledgers.draw_some(&primary, 5_000);
    standby.catch_up_with(&primary);
    standby.reload("primary_conninfo", "");
    wait_until("the standby receives nothing", || {
        primary
            .connect()
            .number("SELECT count(*) FROM pg_stat_replication")
            == 0
    });
    standby.connect().run("SELECT pg_wal_replay_pause()");
    // Six grants, of ten that the default of leaf.history_skip allows for.
    let before = standby.connect().number("SELECT max_id FROM leaf.alloc");
    ledgers.draw_some(&primary, 6_000);
    let mut client = standby.promote();
    let id = client.next("orders").expect("an id");
    assert!(id >= before + 10 * 1_000, "{before}, then {id}");
    ledgers.ids.lock().expect("no panic").add([id]);
    // Both are alive: the worker ids are two.
    ledgers.draw_some(&standby, 5_000);
    ledgers
        .snowflakes
        .lock()
        .expect("no panic")
        .add(primary.connect().snowflakes(5_000).expect("ids"));
    assert_ne!(
        client.snowflake_stat::<i32>("worker_id"),
        primary.connect().snowflake_stat::<i32>("worker_id")
    );
}

/// Waits until the archive has all that was written.
fn wait_for_archive(client: &mut Client) {
    let last = client.text("SELECT pg_walfile_name(pg_switch_wal())");
    wait_until("the archive has it all", || {
        client.number(&format!(
            "SELECT (last_archived_wal >= '{last}')::int::bigint FROM pg_stat_archiver"
        )) == 1
    });
}

#[test]
fn recovery_to_a_point_in_time_repeats_nothing() {
    let mut primary = primary();
    let archive = primary.make_folder("archive");
    let archive = archive.display();
    primary.configure(&format!(
        "archive_mode = on\narchive_command = 'cp %p {archive}/%f'\n"
    ));
    primary.restart(Mode::Fast);
    let ledgers = Ledgers::new();
    ledgers.draw_some(&primary, 3_000);
    let mut client = primary.connect();
    client.run("SELECT pg_backup_start('backup', fast => true)");
    let mut copy = primary.copy();
    let label = client.text("SELECT labelfile FROM pg_backup_stop(wait_for_archive => false)");
    ledgers.draw_some(&primary, 3_000);
    client.run("SELECT pg_create_restore_point('before the mistake')");
    ledgers.draw_some(&primary, 3_000);
    wait_for_archive(&mut client);
    copy.write("backup_label", label.as_bytes());
    copy.write("recovery.signal", b"");
    copy.configure(&format!(
        "archive_mode = off
         restore_command = 'cp {archive}/%f %p'
         recovery_target_name = 'before the mistake'
         recovery_target_action = 'promote'\n"
    ));
    copy.start_again();
    copy.ends_recovery();
    // Beside the original, which is alive.
    ledgers.draw_some(&copy, 5_000);
    let ids = primary.connect().snowflakes(5_000).expect("ids");
    ledgers.snowflakes.lock().expect("no panic").add(ids);
}

#[test]
fn restore_by_pgbackrest_repeats_nothing() {
    let mut primary = primary();
    let version = "SELECT current_setting('server_version_num')::bigint / 10000";
    if primary.connect().number(version) > 15 {
        // Debian 12 has one that knows no newer servers.
        return;
    }
    let folder = primary.make_folder("pgbackrest");
    let file = folder.join("pgbackrest.conf");
    let (shown, data, socket) = (folder.display(), primary.data(), primary.host());
    let settings = format!(
        "[global]\nrepo1-path={shown}\nlog-path={shown}\nlock-path={shown}\nstart-fast=y\n\
         [main]\npg1-path={}\npg1-socket-path={socket}\npg1-user=postgres\n",
        data.display()
    );
    std::fs::write(&file, settings).expect("a file");
    let backrest = |arguments: &[&str]| {
        let mut backrest = command("pgbackrest".as_ref());
        backrest.arg("--config").arg(&file).arg("--stanza=main");
        run(backrest.args(arguments));
    };
    primary.configure(&format!(
        "archive_mode = on\narchive_command = 'pgbackrest --config={} --stanza=main archive-push %p'\n",
        file.display()
    ));
    primary.restart(Mode::Fast);
    backrest(&["stanza-create"]);
    let ledgers = Ledgers::new();
    ledgers.draw_some(&primary, 3_000);
    backrest(&["backup"]);
    ledgers.draw_some(&primary, 3_000);
    let mut client = primary.connect();
    client.run("SELECT pg_create_restore_point('mistake')");
    ledgers.draw_some(&primary, 3_000);
    wait_for_archive(&mut client);
    for target in [
        &["--type=default"][..],
        &["--type=name", "--target=mistake", "--target-action=promote"],
        &["--type=immediate", "--target-action=promote"],
    ] {
        let mut restored = primary.filled(|data| {
            let to = format!("--pg1-path={}", data.display());
            backrest(&[target, &["restore", &to]].concat());
        });
        restored.configure("archive_mode = off\n");
        restored.start_again();
        restored.ends_recovery();
        // Beside the original, which is alive.
        ledgers.draw_some(&restored, 3_000);
    }
    let ids = primary.connect().snowflakes(5_000).expect("ids");
    ledgers.snowflakes.lock().expect("no panic").add(ids);
}
