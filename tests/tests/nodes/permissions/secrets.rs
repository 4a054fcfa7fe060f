//! What a shard knows of its way to the centre is shown to nobody who need not know it.

use leaf_tests::{Centre, Draw, Relay, Server, attach, failed, refused};
use std::time::Duration;

const PASSWORD: &str = "topsecret4711";

#[test]
fn password_in_the_connection_string_is_refused_and_never_quoted() {
    let mut shard = Server::options()
        .set("leaf.upstream", &format!("host=a password={PASSWORD}"))
        .set("log_min_error_statement", "panic")
        .start();
    let mut client = shard.connect();
    assert_eq!(client.text("SHOW leaf.upstream"), "");
    for value in [
        format!("host=a password={PASSWORD}"),
        format!("postgresql://shard:{PASSWORD}@a/db"),
        format!("postgresql://a/db?p%61ssword={PASSWORD}"),
    ] {
        let set = format!("ALTER SYSTEM SET leaf.upstream = '{value}'");
        let error = failed(client.batch_execute(&set), "22023");
        let texts = [Some(error.message()), error.detail(), error.hint()];
        for text in texts.into_iter().flatten() {
            assert!(!text.contains(PASSWORD), "{error:?}");
        }
        shard.configure(&format!("leaf.upstream = '{value}'\n"));
        client.run("SELECT pg_reload_conf()");
    }
    assert_eq!(client.text("SHOW leaf.upstream"), "");
    // Not even in pieces, if libpq cannot make sense of it.
    shard.unconfigure("leaf.upstream");
    shard.configure(&format!("leaf.upstream = 'host=a {PASSWORD}'\n"));
    shard.reload("leaf.upstream_timeout", "1s");
    client.run("SELECT leaf_tag_create('orders')");
    let attach = client.batch_execute("SELECT leaf_tag_attach('orders')");
    let error = refused(attach, "55000");
    assert!(!format!("{error:?}").contains(PASSWORD), "{error:?}");
    let views = client.text("SELECT stat_upstream::text FROM leaf.stat_upstream");
    assert!(!views.contains(PASSWORD), "{views}");
    shard.wait_ready();
    let log = shard.log();
    let lines = log.lines().filter(|line| !line.contains("changed to"));
    assert!(
        !lines.into_iter().any(|line| line.contains(PASSWORD)),
        "{log}"
    );
}

#[test]
fn password_of_a_password_file_is_nowhere_to_be_found() {
    let centre = Centre::start();
    centre.create("orders", "");
    let mut there = centre.0.connect();
    there.run(&format!("ALTER ROLE shard PASSWORD '{PASSWORD}'"));
    centre.0.write(
        "pg_hba.conf",
        b"local all shard scram-sha-256\nlocal all all trust\n",
    );
    there.run("SELECT pg_reload_conf()");
    let relay = Relay::start(&centre.0, Duration::ZERO);
    let (host, port) = relay.address();
    let shard = Server::options().set("log_statement", "all").start();
    shard.write("pass", format!("*:*:*:shard:{PASSWORD}\n").as_bytes());
    let passfile = shard.data().join("pass");
    std::fs::set_permissions(
        &passfile,
        std::os::unix::fs::PermissionsExt::from_mode(0o600),
    )
    .expect("permissions");
    let upstream = format!(
        "host={host} port={port} user=shard dbname=postgres passfile={}",
        passfile.display()
    );
    shard.reload("leaf.upstream", &upstream);
    attach(&shard, "orders", 10);
    let mut client = shard.connect();
    client.next("orders").expect("an id");
    client.run("CREATE ROLE joe LOGIN; SELECT leaf_tag_grant('orders', 'public')");

    let mut joe = shard.connect_as("joe", "postgres");
    for hidden in [
        "SHOW leaf.upstream",
        "SELECT current_setting('leaf.upstream')",
    ] {
        joe.fails(hidden, "42501");
    }
    joe.fails("SELECT * FROM leaf.stat_upstream", "42501");
    joe.fails("ALTER ROLE joe SET leaf.upstream = 'x'", "55P02");
    assert_eq!(
        joe.number("SELECT count(*) FROM pg_settings WHERE name = 'leaf.upstream'"),
        0
    );
    // During an outage, with a password that is wrong by now.
    there.run("ALTER ROLE shard PASSWORD 'other'; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'shard'");
    joe.run("SET leaf.wait_timeout = '300ms'");
    let error = (0..100).find_map(|_| joe.batch("orders", 10).err());
    let error = refused::<()>(Err(error.expect("an error")), "55P03");
    for secret in ["shard", host, PASSWORD] {
        let texts = [Some(error.message()), error.detail(), error.hint()];
        let mut texts = texts.into_iter().flatten();
        assert!(!texts.any(|text| text.contains(secret)), "{error:?}");
    }
    let last_error = "SELECT last_error FROM leaf.stat_upstream";
    assert!(client.text(last_error).contains("shard"));
    let activity = "SELECT string_agg(a::text, ' ') FROM pg_stat_activity AS a";
    let views = [
        activity,
        "SELECT string_agg(s::text, ' ') FROM pg_settings AS s",
        "SELECT string_agg(s::text, ' ') FROM leaf.stat_segment AS s",
        "SELECT string_agg(s::text, ' ') FROM leaf.stat_upstream AS s",
        "SELECT string_agg(a::text, ' ') FROM leaf.alloc AS a",
    ];
    let mut texts: Vec<String> = views.iter().map(|view| client.text(view)).collect();
    texts.push(there.text(activity));
    for text in texts {
        assert!(!text.contains(PASSWORD), "{text}");
    }
    let dump = shard.program("pg_dumpall").output().expect("a dump");
    let dump = String::from_utf8_lossy(&dump.stdout).into_owned();
    for secret in [PASSWORD, host, "user=shard"] {
        assert!(!dump.contains(secret), "{dump}");
    }
    assert!(!shard.log().contains(PASSWORD));
}

#[test]
fn role_of_a_shard_can_use_up_its_numbers_and_nothing_else() {
    let centre = Centre::start();
    centre.create("orders", ", max_value => 5");
    let mut there = centre.0.connect();
    there.run(
        "SELECT leaf_tag_create('other');
         ALTER ROLE shard SET leaf.max_reserve = 100; ALTER ROLE shard SET leaf.max_leases = 1",
    );
    let mut thief = centre.0.connect_as("shard", "postgres");
    for statement in [
        "SELECT leaf_tag_create('mine')",
        "SELECT leaf_tag_alter('orders', max_value => 2000)",
        "SELECT leaf_tag_drop('orders')",
        "SELECT leaf_tag_grant('orders', 'public')",
        "SELECT leaf_tag_attach('orders')",
        "SELECT leaf_tag_vouch('orders')",
        "SELECT leaf_stat_reset()",
        "SELECT leaf_segment_next('other')",
        "SELECT * FROM leaf.alloc",
        "UPDATE leaf.alloc SET max_id = 1",
        "SELECT * FROM leaf.worker",
        "SELECT * FROM leaf.stat_upstream",
        "SET leaf.max_reserve = 1000000",
        "SET leaf.max_leases = 1000",
        "SELECT leaf_worker_release(0, gen_random_uuid(), 1)",
    ] {
        thief.fails(statement, "42501");
    }
    assert_eq!(thief.number("SELECT count(*) FROM leaf.stat_segment"), 0);
    for (tag, count, code) in [
        ("other", 1, "42501"),
        ("other", 0, "42501"),
        ("orders", 101, "22023"),
    ] {
        assert_eq!(thief.feed(tag, count).expect_err("none"), code);
    }
    for _ in 0..5 {
        thief.feed("orders", 100).expect("numbers");
    }
    assert_eq!(thief.feed("orders", 1).expect_err("none"), "2200H");
    thief.run("SELECT * FROM leaf_worker_register('n')");
    thief.fails("SELECT * FROM leaf_worker_register('n')", "53400");
}
