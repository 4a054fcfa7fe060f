//! Nobody gains anything through what was there before the extension, or takes its place.

use leaf_tests::{Draw, Server, failed, refused};

#[test]
fn objects_in_the_target_schema_do_not_capture_the_extension() {
    let server = Server::options().bare().start();
    let mut admin = server.connect();
    admin.run(
        "CREATE TABLE captured (what text);
         CREATE FUNCTION public.not_equal(varchar, varchar) RETURNS boolean LANGUAGE plpgsql AS
             $$ BEGIN INSERT INTO public.captured VALUES ('<>'); RETURN true; END $$;
         CREATE FUNCTION public.equal(text, varchar) RETURNS boolean LANGUAGE plpgsql AS
             $$ BEGIN INSERT INTO public.captured VALUES ('='); RETURN true; END $$;
         CREATE OPERATOR public.<> (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = public.not_equal);
         CREATE OPERATOR public.= (LEFTARG = text, RIGHTARG = varchar, FUNCTION = public.equal);
         CREATE EXTENSION leaf;
         SELECT leaf_tag_create('orders')",
    );
    admin.next("orders").expect("an id");
    assert_eq!(admin.stat("orders", "position"), 2);
    assert_eq!(admin.number("SELECT count(*) FROM captured"), 0);
}

#[test]
fn default_privileges_of_who_creates_the_extension_lend_nothing() {
    let server = Server::options().bare().start();
    let mut admin = server.connect();
    admin.run(
        "CREATE ROLE anon LOGIN;
         ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO anon, PUBLIC;
         ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO anon, PUBLIC;
         ALTER DEFAULT PRIVILEGES GRANT ALL ON SCHEMAS TO anon, PUBLIC;
         ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO anon;
         CREATE FUNCTION leaf_of_others() RETURNS int LANGUAGE sql AS 'SELECT 1';
         REVOKE EXECUTE ON FUNCTION leaf_of_others() FROM PUBLIC;
         CREATE EXTENSION leaf;
         SELECT leaf_tag_create('orders')",
    );
    let lent = "SELECT count(*) FROM pg_shdepend WHERE deptype = 'a' AND refobjid = 'anon'::regrole
                   AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
                   AND classid <> 'pg_default_acl'::regclass
                   AND (classid, objid) <> ('pg_proc'::regclass, 'leaf_of_others()'::regprocedure)";
    assert_eq!(admin.number(lent), 0);
    let has = "SELECT has_function_privilege('anon', 'leaf_of_others()', 'EXECUTE')::int::bigint";
    assert_eq!(admin.number(has), 1);
    let mut anon = server.connect_as("anon", "postgres");
    for denied in [
        "UPDATE leaf.alloc SET max_id = 1",
        "INSERT INTO leaf.worker DEFAULT VALUES",
        "CREATE TABLE leaf.plain ()",
        "SELECT leaf_tag_create('mine')",
        "SELECT leaf_worker_register('node')",
    ] {
        failed(anon.simple_query(denied), "42501");
    }
    // What is for all, all have as before.
    anon.run("SELECT leaf_snowflake_next(); SELECT FROM leaf.stat_segment");
}

#[test]
fn schema_leaf_of_somebody_who_could_replace_it_is_refused() {
    let server = Server::options().bare().start();
    let mut admin = server.connect();
    admin.run(
        "CREATE ROLE mallory;
         GRANT CREATE ON DATABASE postgres TO mallory;
         CREATE SCHEMA leaf AUTHORIZATION mallory",
    );
    admin.fails("CREATE EXTENSION leaf SCHEMA leaf", "42501");
    admin.run("ALTER SCHEMA leaf OWNER TO postgres; CREATE EXTENSION leaf SCHEMA leaf");
}

/// The functions are in `public`, which is his.
#[test]
fn owner_of_the_database_cannot_put_his_own_functions_in_place_of_those_of_leaf() {
    let server = Server::options().bare().start();
    let mut admin = server.connect();
    admin.run("CREATE ROLE owner LOGIN");
    admin.run("CREATE DATABASE shop OWNER owner");
    let mut admin = server.connect_as("postgres", "shop");
    admin.run("CREATE EXTENSION leaf; SELECT leaf_tag_create('orders')");
    let mut owner = server.connect_as("owner", "shop");
    for attempt in [
        "DROP SCHEMA public CASCADE",
        "ALTER SCHEMA public RENAME TO before",
        // With operators of his own.
        "CREATE SCHEMA his;
         CREATE OPERATOR his.= (LEFTARG = oid, RIGHTARG = oid, FUNCTION = oidne);
         SET search_path = his, pg_catalog;
         ALTER SCHEMA public RENAME TO before",
    ] {
        refused(owner.batch_execute(attempt), "42501");
    }
    // What harms nobody.
    owner.run("ALTER SCHEMA public OWNER TO owner; CREATE SCHEMA other; ALTER SCHEMA other RENAME TO another; DROP SCHEMA another");
    assert!(admin.next("orders").is_ok());
    admin.run("ALTER SCHEMA public RENAME TO before");
    admin.run("SELECT before.leaf_segment_next('orders')");
    admin.run("DROP SCHEMA before CASCADE");
}
