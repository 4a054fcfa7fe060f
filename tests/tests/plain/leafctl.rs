//! leafctl as an administrator, who runs nothing of another role.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use leaf_tests::{Draw, INSTALLER, Said, Server, failed, leafctl_on, wait_until};

/// A schema of the owner of a database before pg_catalog, with what leafctl and leaf's scripts use.
const HOSTILE: &str = "
    CREATE SCHEMA evil;
    GRANT USAGE ON SCHEMA evil TO PUBLIC;
    CREATE FUNCTION evil.ran() RETURNS boolean LANGUAGE plpgsql AS
        $$ BEGIN RAISE LOG 'it ran as %', session_user; RETURN true; END $$;
    CREATE VIEW evil.pg_extension AS SELECT * FROM pg_catalog.pg_extension WHERE evil.ran();
    CREATE VIEW evil.pg_class AS SELECT * FROM pg_catalog.pg_class WHERE evil.ran();
    CREATE VIEW evil.pg_database AS SELECT * FROM pg_catalog.pg_database WHERE evil.ran();
    GRANT SELECT ON ALL TABLES IN SCHEMA evil TO PUBLIC;
    CREATE FUNCTION evil.same(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT evil.ran()';
    CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.same);
    CREATE FUNCTION evil.joined(integer, text) RETURNS text LANGUAGE sql AS 'SELECT evil.ran()::text';
    CREATE OPERATOR evil.|| (LEFTARG = integer, RIGHTARG = text, FUNCTION = evil.joined);";

/// What a superuser may be asked to look at, and to do.
const COMMANDS: [&str; 10] = [
    "status",
    "doctor",
    "doctor -A",
    "tags list",
    "tags create parcels",
    "plain install",
    "plain upgrade",
    "plain uninstall",
    "bench -T 1",
    "bench -T 1 --buffered",
];

/// What leafctl has found is what it reads: the owner can neither hold it up between the two, nor move tables to and
/// fro so that it finds one thing by the snapshot and another by its name.
#[test]
fn leafctl_runs_nothing_of_an_owner_who_moves_tables() {
    let server = Server::options().plain().start();
    let [mut owner, mut mover] = [(); 2].map(|()| server.connect_as(INSTALLER, "postgres"));
    owner.run(HOSTILE);
    owner.run(
        "CREATE TABLE evil.rows AS SELECT * FROM leaf.stat_segment LIMIT 0;
         ALTER VIEW leaf.stat_segment RENAME TO stat_segment0;
         CREATE VIEW leaf.stat_segment AS SELECT * FROM evil.rows WHERE (SELECT evil.ran());
         DROP TRIGGER leaf_check ON leaf.alloc;
         CREATE TRIGGER leaf_check BEFORE UPDATE ON leaf.alloc FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
         ALTER SCHEMA leaf RENAME TO stash;
         CREATE SCHEMA leaf",
    );
    let status = || Said::by(leafctl_on(&server).arg("status"));
    owner.run(
        "ALTER DATABASE postgres SET default_transaction_isolation = 'serializable';
         ALTER DATABASE postgres SET default_transaction_deferrable = on",
    );
    owner.run("BEGIN ISOLATION LEVEL SERIALIZABLE READ WRITE; SELECT");
    thread::scope(|scope| {
        let command = scope.spawn(status);
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE cardinality(pg_safe_snapshot_blocking_pids(pid)) > 0";
        wait_until("leafctl ends", || {
            assert_eq!(mover.number(waits), 0, "leafctl waits for the owner");
            command.is_finished()
        });
    });
    owner.run("ROLLBACK; ALTER DATABASE postgres RESET ALL");
    let moves = |from: &str, to: &str| {
        format!(
            "ALTER TABLE {from}.plain SET SCHEMA {to}; ALTER VIEW {from}.stat_segment SET SCHEMA {to};
             ALTER TABLE {from}.alloc SET SCHEMA {to}"
        )
    };
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                mover.run(&moves("stash", "leaf"));
                mover.run("SELECT pg_sleep(0.004)");
                mover.run(&moves("leaf", "stash"));
            }
        });
        for _ in 0..200 {
            status();
        }
        ended.store(true, Ordering::Relaxed);
    });
    let log = server.log();
    assert!(!log.contains("it ran as postgres"), "{log}");
}

/// Functions, views and settings are the owner's, who may have made others of them.
#[test]
fn leafctl_runs_nothing_of_the_owners_as_a_superuser() {
    let server = Server::options().plain().start();
    let mut owner = server.connect_as(INSTALLER, "postgres");
    owner.run(HOSTILE);
    owner.run(
        "CREATE OR REPLACE FUNCTION leaf_tag_incarnation(tag text) RETURNS uuid LANGUAGE sql AS
             'SELECT gen_random_uuid() WHERE evil.ran()';
         SELECT leaf_tag_create('orders')",
    );
    let view = owner.text("SELECT pg_get_viewdef('leaf.stat_segment')");
    owner.run(&format!(
        "CREATE OR REPLACE VIEW leaf.stat_segment AS SELECT v.* FROM ({}) AS v WHERE leaf_tag_incarnation(v.biz_tag) IS NOT NULL",
        view.trim_end_matches(';')
    ));
    owner.run(
        "CREATE FUNCTION evil.changed() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN PERFORM evil.ran(); RETURN NEW; END $$;
         CREATE TRIGGER changed BEFORE UPDATE ON leaf.plain FOR EACH ROW EXECUTE FUNCTION evil.changed();
         CREATE POLICY hidden ON leaf.alloc USING (evil.ran());
         ALTER TABLE leaf.alloc ENABLE ROW LEVEL SECURITY;
         ALTER TABLE leaf.alloc FORCE ROW LEVEL SECURITY",
    );
    server
        .connect()
        .run("CREATE ROLE creator CREATEROLE LOGIN; GRANT installer TO creator; CREATE ROLE member LOGIN; GRANT creator TO member");
    let settings = ["search_path = evil, pg_catalog, public", "role = installer"];
    for setting in ["search_path = DEFAULT"].into_iter().chain(settings) {
        owner.run(&format!("ALTER DATABASE postgres SET {setting}"));
        for (command, role) in COMMANDS
            .iter()
            .flat_map(|command| ["postgres", "creator", "member"].map(|role| (command, role)))
        {
            let mut leafctl = leafctl_on(&server);
            let said = Said::by(leafctl.env("PGUSER", role).args(command.split(' ')));
            assert_ne!(said.code, Some(0), "{setting} {command} {role}: {said:?}");
        }
    }
    let log = server.log();
    for role in ["postgres", "creator", "member"] {
        assert!(!log.contains(&format!("it ran as {role}")), "{log}");
    }
    // The owner himself may.
    let mut leafctl = leafctl_on(&server);
    Said::by(leafctl.env("PGUSER", INSTALLER).arg("status")).done();
    assert!(server.log().contains("it ran as installer"));
}

/// What has failed may have been the look at who owns leaf: the owner of a database can give sessions a role that is
/// dropped meanwhile.
#[test]
fn leafctl_suggests_no_tag_of_an_owner_whom_it_does_not_know() {
    let server = Server::options().plain().start();
    let mut owner = server.connect_as(INSTALLER, "postgres");
    owner.run(HOSTILE);
    owner.run(
        "DROP VIEW leaf.stat_segment;
         CREATE VIEW leaf.stat_segment AS SELECT 'orders' AS biz_tag WHERE evil.ran();
         GRANT SELECT ON leaf.stat_segment TO PUBLIC",
    );
    let [mut admin, mut holder] = [(); 2].map(|()| server.connect());
    admin.run("CREATE ROLE passing");
    owner.run("ALTER DATABASE postgres SET role = 'passing'");
    holder.run("BEGIN; LOCK TABLE pg_catalog.pg_extension IN ACCESS EXCLUSIVE MODE");
    let said = thread::scope(|scope| {
        let command =
            scope.spawn(|| Said::by(leafctl_on(&server).args(["tags", "drop", "orderz"])));
        wait_until("leafctl looks who owns leaf", || {
            admin.number("SELECT count(*) FROM pg_locks WHERE NOT granted") > 0
        });
        admin.run("DROP ROLE passing");
        holder.run("COMMIT");
        command.join().expect("leafctl")
    });
    assert!(said.err.contains("invalid role OID"), "{said:?}");
    let log = server.log();
    assert!(!log.contains("it ran as postgres"), "{log}");
}

/// Nor in a database with the library, or without leaf, that belongs to somebody else.
#[test]
fn leafctl_looks_up_names_where_no_owner_has_put_any() {
    let server = Server::options().start();
    let mut superuser = server.connect();
    superuser.run("CREATE ROLE owner LOGIN");
    superuser.run("CREATE DATABASE shop OWNER owner");
    superuser.run("CREATE DATABASE without OWNER owner");
    for database in ["shop", "without"] {
        let mut owner = server.connect_as("owner", database);
        owner.run(HOSTILE);
        owner.run(&format!(
            "ALTER DATABASE {database} SET search_path = evil, pg_catalog, public"
        ));
    }
    let mut shop = server.connect_as("postgres", "shop");
    shop.run(
        "SET search_path = public; CREATE EXTENSION leaf SCHEMA public;
         SELECT leaf_tag_create('striped', stripes => 2, stripe => 1, stripe_width => 1000000);
         CREATE TABLE public.items (id bigint GENERATED ALWAYS AS IDENTITY)",
    );
    for command in COMMANDS.into_iter().chain(["tags adopt public.items id"]) {
        for database in ["shop", "without"] {
            let mut leafctl = leafctl_on(&server);
            let leafctl = leafctl.env("PGDATABASE", database).args(command.split(' '));
            let said = Said::by(leafctl);
            let is_refused = command.starts_with("plain");
            let has_leaf = database == "shop" && !is_refused || command == "doctor -A";
            assert_eq!(
                said.code == Some(0),
                has_leaf,
                "{database} {command}: {said:?}"
            );
        }
    }
    let log = server.log();
    assert!(!log.contains("it ran as postgres"), "{log}");
}

/// Who owns a schema can drop a function in it, and with it leaf's triggers.
#[test]
fn superuser_installs_where_nobody_else_owns_the_schema() {
    let server = Server::options().plain().start();
    server.connect().run("CREATE ROLE owner CREATEDB");
    server.connect().run("CREATE DATABASE shop OWNER owner");
    let mut shop = server.connect_as("postgres", "shop");
    shop.run("CREATE SCHEMA ids");
    let install_as = |role: &str, arguments: &str| {
        let mut leafctl = leafctl_on(&server);
        leafctl.env("PGDATABASE", "shop").env("PGUSER", role);
        leafctl.args(["plain", "install"]);
        Said::by(leafctl.args(arguments.split_whitespace()))
    };
    let install = |arguments: &str| install_as("postgres", arguments);
    // Code that a member runs can become a superuser, too.
    shop.run(
        "CREATE ROLE member LOGIN; GRANT postgres TO member;
         CREATE ROLE administrator CREATEROLE LOGIN; CREATE ROLE other LOGIN; GRANT administrator TO other;
         CREATE ROLE replica LOGIN REPLICATION; CREATE ROLE killer LOGIN; GRANT pg_signal_backend TO killer",
    );
    let administrators = [
        "postgres",
        "member",
        "administrator",
        "other",
        "replica",
        "killer",
    ];
    shop.run("CREATE ROLE tenant LOGIN; CREATE ROLE clerk LOGIN; ALTER ROLE owner LOGIN");
    for role in administrators.into_iter().chain(["tenant"]) {
        shop.run(&format!(
            "GRANT CREATE ON DATABASE shop TO {role}; GRANT CREATE ON SCHEMA public TO {role}"
        ));
        let error = install_as(role, "").failed(1);
        assert!(error.contains("belongs to another role"), "{error}");
        assert!(error.contains("--schema"), "{error}");
    }
    // Nor does leafctl call functions that the schema's owner may have replaced since.
    let run_as = |role: &str, command: &str| {
        let mut leafctl = leafctl_on(&server);
        leafctl.env("PGDATABASE", "shop").env("PGUSER", role);
        Said::by(leafctl.args(command.split(' ')))
    };
    install_as("owner", "").done();
    for role in administrators {
        let error = run_as(role, "tags create orders").failed(1);
        assert!(error.contains("what owner may have written"), "{error}");
    }
    // What is called otherwise, nobody calls.
    shop.run(
        "SET ROLE tenant; CREATE FUNCTION leaf_nodes() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
    );
    run_as("owner", "tags list").done();
    shop.run(
        "CREATE FUNCTION leaf_tag_create(text, text) RETURNS text LANGUAGE sql AS 'SELECT $1'",
    );
    let error = run_as("owner", "tags list").failed(1);
    assert!(error.contains("what tenant may have written"), "{error}");
    shop.run("DROP FUNCTION leaf_nodes, leaf_tag_create(text, text); RESET ROLE");
    let error = run_as("tenant", "tags list").failed(1);
    assert!(
        error.contains("permission denied for table alloc"),
        "{error}"
    );
    run_as("owner", "plain uninstall").done();
    shop.run("DROP SCHEMA leaf");
    // A member of the host's role can replace functions in its schema.
    shop.run(
        "CREATE ROLE host CREATEROLE; CREATE SCHEMA of_host AUTHORIZATION host; GRANT CREATE, USAGE ON SCHEMA of_host TO clerk;
         GRANT CREATE ON DATABASE shop TO clerk",
    );
    install_as("clerk", "--schema of_host").done();
    run_as("clerk", "tags list").done();
    shop.run(
        "GRANT host TO tenant; SET ROLE tenant;
         DROP FUNCTION of_host.leaf_tag_create;
         CREATE FUNCTION of_host.leaf_tag_create(tag text) RETURNS void LANGUAGE sql AS ''",
    );
    let error = run_as("clerk", "tags list").failed(1);
    assert!(error.contains("what tenant may have written"), "{error}");
    shop.run("DROP FUNCTION of_host.leaf_tag_create; RESET ROLE; REVOKE host FROM tenant");
    run_as("clerk", "plain uninstall").done();
    shop.run("DROP SCHEMA leaf");
    // Nor those of a role that may create schemas and roles.
    shop.run("CREATE SCHEMA of_tenant AUTHORIZATION tenant");
    install_as("tenant", "--schema of_tenant").done();
    for so in [
        "GRANT tenant TO clerk",
        "REVOKE tenant FROM clerk; ALTER ROLE tenant CREATEROLE",
    ] {
        shop.run(so);
        for role in ["owner", "clerk"] {
            let error = run_as(role, "tags list").failed(1);
            assert!(
                error.contains("what tenant may have written"),
                "{so}: {error}"
            );
        }
    }
    run_as("tenant", "plain uninstall").done();
    shop.run("DROP SCHEMA leaf");
    install("--schema ids").done();
    let list = || {
        let mut leafctl = leafctl_on(&server);
        Said::by(leafctl.env("PGDATABASE", "shop").args(["tags", "list"]))
    };
    list().done();
    shop.run("ALTER SCHEMA ids OWNER TO owner");
    list().failed(1);
    shop.run("ALTER SCHEMA ids OWNER TO postgres");
    // A trigger that is missing all the same stops all grants.
    shop.run("SELECT ids.leaf_tag_create('orders'); SELECT ids.leaf_segment_reserve('orders', 1)");
    shop.run("DROP TRIGGER leaf_check ON leaf.alloc");
    let reserve = shop.simple_query("SELECT ids.leaf_segment_reserve('orders', 1)");
    failed(reserve, "55000");
}
