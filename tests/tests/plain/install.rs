//! Installing the plain edition, again, over others, and removing it.

use leaf_tests::{
    Draw, INSTALLER, Said, Server, Snowflake, failed, leafctl_on, refused, wait_until,
};

fn plain(server: &Server, user: &str, arguments: &[&str]) -> Said {
    let mut leafctl = leafctl_on(server);
    Said::by(leafctl.env("PGUSER", user).arg("plain").args(arguments))
}

/// A server without leaf, whose database `postgres` belongs to a role without superuser.
fn without_leaf() -> Server {
    let server = Server::options().plain().bare().start();
    server.connect().run(&format!(
        "CREATE ROLE {INSTALLER} LOGIN; ALTER DATABASE postgres OWNER TO {INSTALLER}"
    ));
    server
}

const NOTHING: &str = "SELECT (SELECT count(*) FROM pg_namespace WHERE nspname = 'leaf')
                            + (SELECT count(*) FROM pg_proc WHERE proname LIKE 'leaf%')
                            + (SELECT count(*) FROM pg_class WHERE relname LIKE 'leaf%')";

#[test]
fn installed_twice_keeps_rows_and_removed_leaves_nothing() {
    let server = without_leaf();
    let mut client = server.connect_as(INSTALLER, "postgres");
    let said = plain(&server, INSTALLER, &["install"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    client.run("SELECT leaf_tag_create('orders')");
    let block = client.reserve("orders", 100).expect("a block");
    for command in ["install", "upgrade"] {
        let said = plain(&server, INSTALLER, &[command]);
        assert_eq!(said.code, Some(0), "{}", said.err);
    }
    let next = client.reserve("orders", 100).expect("a block");
    assert_eq!(next.first, block.last + 1);

    let said = plain(&server, INSTALLER, &["uninstall"]);
    assert!(said.err.contains("such as \"orders\""), "{}", said.err);
    client.run("SELECT leaf_tag_drop('orders')");
    let late = "'checkout', clock => clock_timestamp() - interval '2 s', ahead => '100 ms'";
    let lease = client.register(late).expect("a lease");
    client.release(&lease).expect("a release");
    // What is installed next has the default.
    for change in [
        "UPDATE leaf.plain SET max_clock_offset = '0'",
        "DELETE FROM leaf.plain",
    ] {
        client.run(change);
        let said = plain(&server, INSTALLER, &["uninstall"]);
        assert!(said.err.contains("node \"checkout\" may"), "{}", said.err);
    }
    wait_until("no clock is below the ceiling", || {
        client.number("SELECT count(*) FROM leaf.worker WHERE ceiling + interval '5 s' > now()")
            == 0
    });
    // Whatever the role's own transactions see.
    client.run("ALTER ROLE CURRENT_USER SET default_transaction_isolation = 'serializable'");
    for command in ["install", "upgrade", "uninstall"] {
        let said = plain(&server, INSTALLER, &[command]);
        assert_eq!(said.code, Some(0), "{command}: {}", said.err);
    }
    assert_eq!(client.number(NOTHING), 1, "an empty schema");
    client.run("DROP SCHEMA leaf");
}

#[test]
fn upgrade_replaces_every_function() {
    let server = Server::options().plain().start();
    let mut client = server.connect_as(INSTALLER, "postgres");
    let functions = "SELECT string_agg(concat(oid::regprocedure, prosrc, prosqlbody, proconfig), '' ORDER BY oid)
                       FROM pg_proc WHERE proowner = CURRENT_USER::regrole";
    let before = client.text(functions);
    client.run(
        "DO $$ DECLARE it record; BEGIN
             FOR it IN SELECT oid::regprocedure AS name FROM pg_proc WHERE proowner = CURRENT_USER::regrole LOOP
                 EXECUTE format('ALTER FUNCTION %s SET lock_timeout = 1', it.name);
             END LOOP;
         END $$",
    );
    assert_ne!(client.text(functions), before);
    plain(&server, INSTALLER, &["upgrade"]).done();
    assert_eq!(client.text(functions), before);
    // As they were before the first release.
    client.run(
        "DROP FUNCTION leaf.may_draw, leaf.has_role, leaf.role_of, leaf.identity;
         CREATE FUNCTION leaf.has_role(asker oid, VARIADIC roles name[]) RETURNS boolean LANGUAGE sql AS 'SELECT true';
         CREATE FUNCTION leaf.may_draw(owner name, grantees name[], asker oid) RETURNS boolean
             LANGUAGE sql RETURN leaf.has_role(asker, owner);
         CREATE FUNCTION leaf.role_of(name name) RETURNS oid LANGUAGE sql AS 'SELECT 1::oid';
         CREATE FUNCTION leaf.identity(OUT a text, OUT b text, OUT c boolean) LANGUAGE sql AS 'SELECT NULL, NULL, true'",
    );
    plain(&server, INSTALLER, &["upgrade"]).done();
    client.run("SELECT leaf_tag_create('orders'), leaf_segment_reserve('orders', 1)");
}

/// Transactions that are open can execute functions that are no more, as their owner, with what somebody else puts
/// into a schema of that name.
#[test]
fn nobody_else_gets_the_schema_of_removed_functions() {
    let server = without_leaf();
    let mut superuser = server.connect();
    superuser.run("CREATE SCHEMA ids; GRANT USAGE ON SCHEMA ids TO PUBLIC");
    let as_superuser = |arguments: &[&str]| plain(&server, "postgres", arguments).done();
    as_superuser(&["install", "--schema", "ids"]);
    let [mut landlord, mut other] = [(); 2].map(|()| server.connect_as(INSTALLER, "postgres"));
    landlord.run("BEGIN; SELECT ids.leaf_segment_reserve(NULL, 1)");
    as_superuser(&["uninstall"]);
    other.fails("CREATE SCHEMA leaf", "42P06");
    other.fails("DROP SCHEMA leaf", "42501");
    plain(&server, INSTALLER, &["install"]).failed(1);
    landlord
        .simple_query("SELECT ids.leaf_segment_reserve('orders', 1)")
        .expect_err("it is removed");
    as_superuser(&["install", "--schema", "ids"]);
    as_superuser(&["uninstall"]);
    assert_eq!(superuser.number(NOTHING), 1, "an empty schema");
}

/// The owner of their schema can drop one.
#[test]
fn functions_are_removed_wherever_they_are() {
    let server = Server::options().plain().bare().start();
    let mut superuser = server.connect();
    plain(&server, "postgres", &["install"]).done();
    superuser.run(
        "CREATE SCHEMA app;
         CREATE FUNCTION app.leaf_id_text(bigint) RETURNS text LANGUAGE sql AS 'SELECT $1::text';
         SET quote_all_identifiers = on;
         -- As a restore does.
         ALTER FUNCTION leaf_tag_incarnation(text) SET search_path = pg_catalog, pg_temp",
    );
    superuser.run(&format!(
        "CREATE ROLE {INSTALLER} LOGIN; ALTER DATABASE postgres OWNER TO {INSTALLER}"
    ));
    superuser.run("CREATE AGGREGATE leaf.largest(bigint) (SFUNC = int8larger, STYPE = bigint)");
    server.connect_as(INSTALLER, "postgres").run(
        // Its functions are a superuser's.
        "CREATE EXTENSION hstore SCHEMA leaf;
         DROP FUNCTION leaf_alloc_check() CASCADE; DROP FUNCTION leaf_alloc_stats() CASCADE",
    );
    plain(&server, "postgres", &["uninstall"]).done();
    superuser.run("DROP EXTENSION hstore");
    assert_eq!(
        superuser.number(NOTHING),
        2,
        "an empty schema, and what is not leaf's"
    );
    assert_eq!(superuser.text("SELECT app.leaf_id_text(7)"), "7");
    superuser.run("RESET quote_all_identifiers; DROP SCHEMA leaf CASCADE");
    plain(&server, INSTALLER, &["install"]).done();
    superuser.run("DROP SCHEMA leaf CASCADE");
    plain(&server, INSTALLER, &["uninstall"]).done();
    assert_eq!(superuser.number(NOTHING), 1, "what is not leaf's");
    let said = plain(&server, INSTALLER, &["uninstall"]);
    assert!(said.err.contains("not installed"), "{}", said.err);
}

/// What a role lacks, and where the functions are, is named with a way out.
#[test]
fn install_that_cannot_be_says_what_would_do() {
    let server = without_leaf();
    server.connect().run(
        "CREATE ROLE guest LOGIN; CREATE SCHEMA ids; GRANT ALL ON SCHEMA ids TO PUBLIC;
         CREATE SCHEMA closed",
    );
    for (role, schema, way_out) in [
        ("guest", "ids", "as the owner of the database"),
        (
            INSTALLER,
            "closed",
            "Name a schema of your own with --schema",
        ),
        (INSTALLER, "missing", "Create it first"),
        (INSTALLER, "ids", ""),
        (INSTALLER, "public", "Use --schema ids"),
        (INSTALLER, "missing", "Use --schema ids"),
        ("guest", "public", "who has installed it"),
    ] {
        let said = plain(&server, role, &["install", "--schema", schema]);
        assert_eq!(said.code == Some(0), way_out.is_empty(), "{}", said.err);
        assert!(said.err.contains(way_out), "{}", said.err);
    }
}

/// The script that is shown does the same in psql.
#[test]
fn script_that_is_shown_installs_in_psql() {
    let server = without_leaf();
    let said = plain(&server, INSTALLER, &["install", "--dry-run"]);
    assert_eq!(server.connect().number(NOTHING), 0);
    for _ in 0..2 {
        let mut psql = server.program("psql");
        psql.args(["-X", "-q", "-1", "-v", "ON_ERROR_STOP=1", "-U", INSTALLER])
            .args(["-f", "-", "postgres"]);
        let said = Said::by_with(&mut psql, &said.out);
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    }
    let mut client = server.connect_as(INSTALLER, "postgres");
    client.run("SELECT leaf_tag_create('orders')");
    client.reserve("orders", 1).expect("a block");
}

#[test]
fn what_is_there_already_is_left_alone() {
    let server = without_leaf();
    let mut client = server.connect_as(INSTALLER, "postgres");
    client.run("CREATE SCHEMA leaf");
    let said = plain(&server, INSTALLER, &["install"]);
    assert_ne!(said.code, Some(0));
    assert!(
        said.err.contains("schema \"leaf\" already exists"),
        "{}",
        said.err
    );
    client.run("DROP SCHEMA leaf");
    assert_eq!(client.number(NOTHING), 0);

    let said = plain(&server, INSTALLER, &["install"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    client.run("UPDATE leaf.plain SET version = '99.0.0'");
    let said = plain(&server, INSTALLER, &["install"]);
    assert!(said.err.contains("99.0.0"), "{}", said.err);
    assert_eq!(client.text("SELECT version FROM leaf.plain"), "99.0.0");

    // Beside the extension.
    let server = Server::start();
    let said = plain(&server, "postgres", &["install"]);
    assert!(
        said.err.contains("the extension leaf is installed"),
        "{}",
        said.err
    );
    assert_eq!(
        server
            .connect()
            .number("SELECT count(*) FROM pg_class WHERE relname = 'plain'"),
        0
    );
}

/// And the extension beside the plain edition.
#[test]
fn extension_is_not_created_over_it() {
    let server = Server::start();
    let mut client = server.connect();
    client.run("DROP EXTENSION leaf");
    let said = plain(&server, "postgres", &["install"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    failed(client.simple_query("CREATE EXTENSION leaf"), "42P06");
}

/// Default privileges of a host give rights to functions in schema public to roles that are not
/// trusted.
#[test]
fn default_privileges_lend_nothing() {
    let server = without_leaf();
    let mut client = server.connect_as(INSTALLER, "postgres");
    let mut superuser = server.connect();
    superuser.run("CREATE ROLE anon LOGIN; CREATE ROLE shop LOGIN");
    client.run(
        "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT EXECUTE ON FUNCTIONS TO anon, pg_monitor;
         ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO anon, PUBLIC, pg_database_owner;
         ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO anon",
    );
    let said = plain(&server, INSTALLER, &["install"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    client
        .run("SELECT leaf_tag_create('orders'); GRANT EXECUTE ON FUNCTION leaf_tag_create TO shop");
    // Nor in a snapshot that knows the owner of the sequences by another name.
    let mut shop = server.connect_as("shop", "postgres");
    shop.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_roles");
    superuser.run(&format!("ALTER ROLE {INSTALLER} RENAME TO another"));
    shop.run("SELECT leaf_tag_create('parcels'); COMMIT");
    let mut anon = server.connect_as("anon", "postgres");
    for call in [
        "leaf_worker_register('node')",
        "leaf_tag_create('orders')",
        "leaf_new_history()",
    ] {
        failed(anon.simple_query(&format!("SELECT {call}")), "42501");
    }
    failed(
        anon.simple_query("SELECT secret FROM leaf.mask_secret"),
        "42501",
    );
    // It reads three views.
    let lent = "SELECT count(*) FROM pg_proc, aclexplode(proacl) AS a WHERE a.grantee = 'pg_monitor'::regrole \
                 AND (proname ^@ 'leaf_' OR pronamespace = 'leaf'::regnamespace)";
    assert_eq!(client.number(lent), 3);
    let lent = "SELECT count(*) FROM pg_class, aclexplode(relacl) AS a
                 WHERE relnamespace = 'leaf'::regnamespace AND a.grantee = 'pg_database_owner'::regrole";
    assert_eq!(client.number(lent), 0);
    for change in [
        "DELETE FROM leaf.alloc",
        "UPDATE leaf.plain SET history_skip = 0",
    ] {
        failed(anon.simple_query(change), "42501");
    }
    let sequences = client.query(
        "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'S' AND relnamespace = 'leaf'::regnamespace",
        &[],
    );
    let sequences = sequences.expect("the catalog");
    assert_eq!(sequences.len(), 4, "those of the tags, and two others");
    for row in sequences {
        let set = format!("SELECT setval('{}', 1)", row.get::<_, &str>(0));
        failed(anon.simple_query(&set), "42501");
    }
}

/// Operators for all pairs of types for which pg_catalog has none that fits exactly.
const BETTER_OPERATORS: &str = "
    DO $do$ DECLARE
        types text[] := '{bigint,integer,smallint,numeric,text,varchar,name,name[],oid,regclass,regrole,regnamespace,uuid,boolean,timestamptz,interval}';
        l text; r text; o text; f text;
    BEGIN
        FOR l, r IN SELECT a.t, b.t FROM unnest(types) AS a(t), unnest(types) AS b(t) LOOP
            f := md5(l || r);
            EXECUTE format('CREATE FUNCTION public.b_%s(%s, %s) RETURNS boolean LANGUAGE plpgsql AS
                            $$BEGIN PERFORM nextval(''public.runs''); RETURN true; END$$', f, l, r);
            EXECUTE format('CREATE FUNCTION public.a_%s(%s, %s) RETURNS %2$s LANGUAGE plpgsql AS
                            $$BEGIN PERFORM nextval(''public.runs''); RETURN $1; END$$', f, l, r);
            FOR o IN SELECT s FROM unnest('{=,<>,<,<=,>,>=,^@,~,||,+,-,*,/,%,&,#}'::text[]) AS s
                      WHERE NOT EXISTS (SELECT FROM pg_operator WHERE (oprname, oprleft, oprright) = (s, l::regtype, r::regtype)) LOOP
                EXECUTE format('CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = public.%s_%s)',
                               o, l, r, CASE WHEN o ~ '[=<>~@]' THEN 'b' ELSE 'a' END, f);
            END LOOP;
        END LOOP;
    END $do$";

/// What leaf's functions, views and tables depend on that a stranger has made.
const FOREIGN: &str = "
    SELECT count(*) FROM pg_depend AS d LEFT JOIN pg_proc AS p ON d.refclassid = 'pg_proc'::regclass AND p.oid = d.refobjid
                         LEFT JOIN pg_operator AS o ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid
     WHERE 'stranger'::regrole::oid IN (p.proowner, o.oprowner)
       AND (d.classid, d.objid) NOT IN (SELECT 'pg_operator'::regclass::oid, oid FROM pg_operator WHERE oprowner = 'stranger'::regrole::oid)";

/// What others have made in the schema of the functions, or called as leaf's tables, is not run by
/// the role that installs or removes.
#[test]
fn code_of_strangers_is_not_run_by_who_installs() {
    let server = without_leaf();
    let mut superuser = server.connect();
    superuser.run(
        "CREATE ROLE stranger LOGIN; GRANT CREATE ON SCHEMA public TO PUBLIC;
         GRANT CREATE ON DATABASE postgres TO stranger; CREATE SEQUENCE runs; GRANT ALL ON runs TO PUBLIC",
    );
    let mut stranger = server.connect_as("stranger", "postgres");
    stranger.run(BETTER_OPERATORS);
    superuser.run("SET search_path = pg_catalog, pg_temp");
    // Better matches than those of pg_catalog, in expressions that are parsed at the install.
    stranger.run(
        "CREATE FUNCTION public.format(text, text, oid, oid) RETURNS text LANGUAGE plpgsql AS
         $$BEGIN PERFORM nextval('public.runs'); RETURN ''; END$$;
         CREATE FUNCTION public.format(text, text, uuid) RETURNS text LANGUAGE plpgsql AS
         $$BEGIN PERFORM nextval('public.runs'); RETURN ''; END$$",
    );
    let mut installer = server.connect_as(INSTALLER, "postgres");
    for command in ["install", "upgrade", "uninstall"] {
        let said = plain(&server, INSTALLER, &[command]);
        assert_eq!(said.code, Some(0), "{command}: {}", said.err);
        if command == "upgrade" {
            // What is parsed at the install has found nothing of theirs.
            assert_eq!(superuser.number(FOREIGN), 0);
            installer.run("SELECT leaf_tag_create('orders')");
            installer.reserve("orders", 1).expect("a block");
            refused(stranger.reserve("orders", 1), "42501");
            installer.run("SELECT leaf_tag_drop('orders')");
        }
    }
    installer.run("DROP SCHEMA leaf");
    stranger.run(
        "CREATE FUNCTION public.note() RETURNS text LANGUAGE plpgsql AS
         $$BEGIN PERFORM nextval('public.runs'); RETURN '0.0.1'; END$$;
         CREATE SCHEMA leaf;
         CREATE VIEW leaf.plain AS SELECT public.note() AS version, interval '5 s' AS max_clock_offset;
         CREATE VIEW leaf.alloc AS SELECT 1 AS biz_tag WHERE public.note() = '';
         CREATE VIEW leaf.worker AS SELECT public.note() AS node, now() AS ceiling;
         GRANT USAGE ON SCHEMA leaf TO PUBLIC; GRANT ALL ON leaf.plain, leaf.alloc, leaf.worker TO PUBLIC",
    );
    for command in ["install", "upgrade", "uninstall"] {
        let said = plain(&server, "postgres", &[command]);
        assert_ne!(said.code, Some(0), "{command}: {}", said.out);
    }
    // A sequence remembers what was rolled back.
    assert_eq!(
        superuser.number("SELECT is_called::int::bigint FROM public.runs"),
        0
    );
}
