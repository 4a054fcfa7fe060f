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

#[test]
fn commands_of_a_superusers_call_run_as_the_tables_owner() {
    let mut world = World::new();
    world.admin.run(
        "CREATE TABLE seen (who name DEFAULT current_user); GRANT INSERT ON seen TO PUBLIC;
         CREATE FUNCTION note() RETURNS event_trigger LANGUAGE plpgsql AS $$
         BEGIN INSERT INTO public.seen DEFAULT VALUES; END $$",
    );
    world.app.run(
        "CREATE TABLE serial (id bigserial); CREATE TABLE identity (id bigint GENERATED ALWAYS AS IDENTITY);
         CREATE TABLE plain (id bigint); CREATE TABLE required (id bigint NOT NULL)",
    );
    world
        .admin
        .run("CREATE EVENT TRIGGER note ON ddl_command_end EXECUTE FUNCTION note()");
    for table in ["serial", "identity", "plain", "required"] {
        for call in ["adopt", "release"] {
            world
                .admin
                .run(&format!("SELECT leaf_column_{call}('app.{table}', 'id')"));
        }
    }
    let seen = "SELECT string_agg(DISTINCT who::text, ' ') FROM seen";
    assert_eq!(world.admin.text(seen), "app");
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
    refused(world.admin.batch_execute(adopt), "42501");
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
    assert_eq!(error.detail(), Some("The tag belongs to role \"app\"."));
    world.app.next("victim").expect("the tag is still there");
}
