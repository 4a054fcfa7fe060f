//! Objects of other roles: nothing of theirs is executed with the rights of whoever adopts or
//! releases a column, and nothing of theirs stands in the way of others.

use super::{World, insert};
use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Server, refused, wait_until};
use std::thread;

/// A server with a superuser, and mallory, who owns schema `mal` and may create others.
struct Trap {
    server: Server,
    admin: Client,
    mallory: Client,
}

/// How mallory puts a view in the place of the sequence on which the superuser's call waits, and
/// how the view's function undoes that, so that the call goes on.
const SWAPS: [[&str; 2]; 2] = [
    [
        "ALTER SEQUENCE mal.t_id_seq RENAME TO hidden",
        "ALTER VIEW mal.t_id_seq RENAME TO gone; ALTER SEQUENCE mal.hidden RENAME TO t_id_seq",
    ],
    [
        "ALTER SCHEMA mal RENAME TO hidden; CREATE SCHEMA mal",
        "ALTER SCHEMA mal RENAME TO gone; ALTER SCHEMA hidden RENAME TO mal",
    ],
];

impl Trap {
    fn new() -> Trap {
        let World {
            server, mut admin, ..
        } = World::new();
        admin.run(
            "CREATE ROLE mallory LOGIN; GRANT CREATE ON DATABASE postgres TO mallory;
             GRANT CREATE ON SCHEMA public TO mallory; CREATE SCHEMA mal AUTHORIZATION mallory",
        );
        let mut mallory = server.connect_as("mallory", "postgres");
        mallory.run(
            "CREATE FUNCTION public.evil(undo text) RETURNS bigint LANGUAGE plpgsql AS $$
             BEGIN
                 EXECUTE 'ALTER ROLE mallory SUPERUSER;' || undo;
                 RETURN 5;
             END $$",
        );
        Trap {
            server,
            admin,
            mallory,
        }
    }

    /// Lets the superuser make a call that waits for a lock on mallory's sequence, and mallory
    /// do something in her transaction before she lets go of it.
    fn spring(&mut self, call: &str, [swap, undo]: [&str; 2]) {
        let mut caller = self.server.connect();
        let pid = caller.number("SELECT pg_backend_pid()::bigint");
        self.mallory
            .run("BEGIN; SELECT * FROM mal.t_id_seq; SELECT nextval('mal.t_id_seq')");
        thread::scope(|scope| {
            // It may well be refused.
            let calling = scope.spawn(move || caller.batch_execute(call));
            let admin = &mut self.admin;
            wait_until("the call waits for the sequence", || {
                admin.number(&format!(
                    "SELECT count(*) FROM pg_locks WHERE pid = {pid} AND NOT granted
                        AND relation = 'mal.t_id_seq'::regclass"
                )) > 0
            });
            self.mallory.run(&format!(
                "{swap}; CREATE VIEW mal.t_id_seq AS
                     SELECT public.evil('{undo}') AS last_value, true AS is_called;
                 COMMIT"
            ));
            let _ = calling.join().expect("an answer");
        });
        let rights = "SELECT rolsuper::int::bigint FROM pg_roles WHERE rolname = 'mallory'";
        assert_eq!(self.admin.number(rights), 0, "{call}: {swap}");
    }
}

#[test]
fn adoption_executes_nothing_of_the_tables_owner() {
    for swap in SWAPS {
        let mut trap = Trap::new();
        trap.mallory.run("CREATE TABLE mal.t (id bigserial)");
        trap.spring("SELECT leaf_column_adopt('mal.t', 'id', 't')", swap);
    }
}

#[test]
fn release_executes_nothing_of_the_tables_owner() {
    for swap in SWAPS {
        let mut trap = Trap::new();
        trap.mallory.run("CREATE TABLE mal.t (id bigserial)");
        trap.admin
            .run("SELECT leaf_column_adopt('mal.t', 'id', 't')");
        trap.mallory
            .run("ALTER SEQUENCE mal.t_id_seq RESTART WITH 10");
        trap.spring("SELECT leaf_column_release('mal.t', 'id')", swap);
    }
}

/// A default, a domain, a policy and the predicate of an index are the owner's code.
#[test]
fn superuser_executes_nothing_of_the_tables_owner() {
    let mut trap = Trap::new();
    trap.mallory.run(
        "CREATE FUNCTION mal.note(bigint) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$
         BEGIN
             IF current_user <> 'mallory' THEN RAISE EXCEPTION 'executed as %', current_user; END IF;
             RETURN true;
         END $$;
         CREATE DOMAIN mal.id AS bigint CHECK (mal.note(value));
         CREATE TABLE mal.t (id bigserial CHECK (mal.note(id)), other mal.id DEFAULT mal.note(1)::int);
         INSERT INTO mal.t VALUES (5, 5);
         CREATE INDEX ON mal.t (id) WHERE mal.note(id); CREATE INDEX ON mal.t (mal.note(id));
         CREATE STATISTICS mal.s ON (mal.note(1)), id FROM mal.t;
         CREATE POLICY p ON mal.t USING (mal.note(id)); ALTER TABLE mal.t ENABLE ROW LEVEL SECURITY",
    );
    trap.admin
        .run("SELECT leaf_column_adopt('mal.t', 'id', 't')");
    trap.mallory
        .run("SELECT leaf_tag_alter('t', step => 10); INSERT INTO mal.t VALUES (700, 7)");
    let moved = "SELECT highest FROM leaf_tag_align() WHERE moved";
    assert_eq!(trap.admin.number(moved), 700);
    assert_eq!(
        trap.admin.number("SELECT leaf.highest('mal.t', 'other')"),
        7
    );
    trap.admin.run("SELECT leaf_column_release('mal.t', 'id')");
    assert_eq!(trap.mallory.number("SELECT nextval('mal.t_id_seq')"), 701);
}

/// What is left of a sequence is the owner's: its name, its comment and its options.
#[test]
fn comment_of_a_sequence_is_no_command() {
    let mut trap = Trap::new();
    trap.mallory.run(
        "CREATE TABLE mal.t (id bigint); CREATE SEQUENCE mal.s OWNED BY mal.t.id;
         COMMENT ON SEQUENCE mal.s IS 'fenced by leaf_column_adopt, was GENERATED ALWAYS AS IDENTITY; ALTER ROLE mallory SUPERUSER; ALTER TABLE mal.t ALTER id DROP IDENTITY; ALTER TABLE mal.t ALTER id ADD GENERATED ALWAYS AS IDENTITY'",
    );
    trap.admin.run(
        "SELECT leaf_tag_create('t', owner => 'mallory');
         ALTER TABLE mal.t ALTER id SET DEFAULT leaf_segment_next('t'); SELECT leaf_column_release('mal.t', 'id')",
    );
    let rights = "SELECT rolsuper::int::bigint FROM pg_roles WHERE rolname = 'mallory'";
    assert_eq!(trap.admin.number(rights), 0);
}

/// Better matches than leaf's own functions, or than PostgreSQL's.
#[test]
fn functions_and_operators_of_others_are_not_taken_for_leafs() {
    let mut trap = Trap::new();
    trap.mallory.run(
        "CREATE FUNCTION public.leaf_tag_grant(text, text) RETURNS bigint LANGUAGE sql AS
             $$ SELECT public.evil('SELECT 1') $$;
         CREATE FUNCTION public.format(text, name, name) RETURNS text LANGUAGE plpgsql AS
             $$ BEGIN PERFORM public.evil('SELECT 1'); RETURN pg_catalog.format($1, $2, $3); END $$;
         CREATE FUNCTION public.same(regproc, regproc) RETURNS boolean LANGUAGE plpgsql AS
             $$ BEGIN PERFORM public.evil('SELECT 1'); RETURN true; END $$;
         CREATE OPERATOR public.= (LEFTARG = regproc, RIGHTARG = regproc, FUNCTION = public.same)",
    );
    trap.admin.run(
        "CREATE ROLE clerks; CREATE TABLE t (id bigserial); GRANT INSERT ON t TO clerks; INSERT INTO t DEFAULT VALUES;
         SELECT leaf.highest('t', 'id'); SELECT leaf_column_adopt('t', 'id', 't')",
    );
    let rights = "SELECT rolsuper::int::bigint FROM pg_roles WHERE rolname = 'mallory'";
    assert_eq!(trap.admin.number(rights), 0);
    assert_eq!(
        trap.admin.text("SELECT grantees::text FROM leaf.alloc"),
        "{clerks}"
    );
}

#[test]
fn tag_of_a_groups_table_belongs_to_the_group() {
    let mut world = World::new();
    world.admin.run(
        "CREATE ROLE crew; GRANT crew TO clerk; GRANT CREATE, USAGE ON SCHEMA app TO crew;
         GRANT EXECUTE ON FUNCTION leaf_tag_create TO clerk; CREATE TABLE app.shared (id bigserial);
         ALTER TABLE app.shared OWNER TO crew",
    );
    world
        .clerk
        .run("SELECT leaf_column_adopt('app.shared', 'id', 't')");
    let owner = "SELECT owner::text FROM leaf.alloc WHERE biz_tag = 't'";
    assert_eq!(world.admin.text(owner), "crew");
    refused(
        world
            .app
            .batch_execute("SELECT leaf_tag_create('u', owner => 'crew')"),
        "42501",
    );
    world
        .clerk
        .run("SELECT leaf_column_release('app.shared', 'id')");
}

/// Their owner could otherwise have a superuser restart a sequence of another role.
#[test]
fn sequence_of_another_role_is_left_alone() {
    let mut world = World::new();
    world.admin.run(
        "CREATE ROLE mallory LOGIN; CREATE SCHEMA mal AUTHORIZATION mallory; GRANT USAGE ON SCHEMA app TO mallory",
    );
    world.app.run("CREATE SEQUENCE numbers START 500");
    let mut mallory = world.server.connect_as("mallory", "postgres");
    mallory.run(
        "CREATE TABLE mal.t (id bigint DEFAULT nextval('app.numbers'));
         CREATE TABLE mal.p (id bigint, n int) PARTITION BY LIST (n);
         CREATE TABLE mal.p1 PARTITION OF mal.p DEFAULT",
    );
    let adopt = "SELECT leaf_column_adopt('mal.t', 'id')";
    refused(world.admin.batch_execute(adopt), "55000");
    world.admin.run("SELECT leaf_column_adopt('mal.p', 'id')");
    mallory.run("ALTER TABLE mal.p1 ALTER id SET DEFAULT nextval('app.numbers')");
    let release = "SELECT leaf_column_release('mal.p', 'id')";
    refused(world.admin.batch_execute(release), "42501");
    assert_eq!(world.app.number("SELECT nextval('numbers')"), 500);
}

/// CREATE VIEW needs no right on the table.
#[test]
fn view_or_rule_of_a_stranger_makes_nobody_a_grantee() {
    let mut world = World::new();
    world.admin.run(
        "CREATE ROLE mallory LOGIN; CREATE SCHEMA mal AUTHORIZATION mallory;
         GRANT USAGE ON SCHEMA app TO mallory; GRANT USAGE ON SCHEMA mal TO PUBLIC",
    );
    world
        .app
        .run("CREATE TABLE orders (id bigserial, n int); GRANT INSERT (n) ON orders TO clerk");
    let mut mallory = world.server.connect_as("mallory", "postgres");
    mallory.run(
        "CREATE VIEW mal.v AS SELECT n FROM app.orders; GRANT INSERT ON mal.v TO PUBLIC;
         CREATE VIEW mal.w AS TABLE mal.v; CREATE TABLE mal.t (n int);
         CREATE RULE r AS ON INSERT TO mal.t DO INSTEAD INSERT INTO app.orders (n) VALUES (new.n)",
    );
    mallory.fails("INSERT INTO mal.v VALUES (1)", "42501");
    world
        .app
        .run("SELECT leaf_column_adopt('orders', 'id', 't')");
    refused(mallory.next("t"), "42501");
    refused(mallory.reserve("t", 1_000_000_000), "42501");
    let grantees = "SELECT grantees::text FROM leaf.alloc";
    assert_eq!(world.admin.text(grantees), "{clerk}");
    world.app.run("SELECT leaf_column_release('orders', 'id')");
    mallory.fails("SELECT nextval('app.orders_id_seq')", "42501");
}

/// No right is needed to set it.
#[test]
fn default_of_a_stranger_is_in_nobodys_way() {
    let mut world = World::new();
    world.admin.run(
        "CREATE ROLE mallory LOGIN; CREATE SCHEMA mal AUTHORIZATION mallory; GRANT USAGE ON SCHEMA app TO mallory",
    );
    let mut mallory = world.server.connect_as("mallory", "postgres");
    world.app.run("CREATE TABLE orders (id bigserial)");
    mallory.run("CREATE TABLE mal.z (id bigint DEFAULT nextval('app.orders_id_seq'))");
    world
        .app
        .run("SELECT leaf_column_adopt('orders', 'id', 't')");
    mallory.run("CREATE TABLE mal.y (id bigint DEFAULT leaf_segment_next('t'))");
    let id = insert(&mut world.app);
    world.app.run("SELECT leaf_column_release('orders', 'id')");
    refused(world.app.next("t"), "42704");
    assert!(insert(&mut world.app) > id);
    world
        .app
        .run("SELECT leaf_tag_create('t'); SELECT leaf_tag_drop('t')");
    // Those of a role that may draw count.
    world
        .app
        .run("SELECT leaf_tag_create('t'); SELECT leaf_tag_grant('t', 'mallory')");
    refused(
        world.app.batch_execute("SELECT leaf_tag_drop('t')"),
        "2BP01",
    );
}

#[test]
fn tag_of_another_role_is_not_dropped_by_a_release() {
    let mut world = World::new();
    world
        .admin
        .run("CREATE ROLE mallory LOGIN; CREATE SCHEMA mal AUTHORIZATION mallory");
    world.app.run("SELECT leaf_tag_create('victim')");
    let mut mallory = world.server.connect_as("mallory", "postgres");
    mallory.run("CREATE TABLE mal.t (id bigint DEFAULT leaf_segment_next('victim'))");
    let release = "SELECT leaf_column_release('mal.t', 'id')";
    let error = refused(world.admin.batch_execute(release), "55000");
    assert_eq!(
        error.detail(),
        Some("It belongs to another role than the table.")
    );
    world.app.next("victim").expect("the tag is still there");
}
