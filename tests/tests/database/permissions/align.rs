//! `leaf_tag_align`: nobody moves a tag of others, or runs code as somebody else.

use leaf_tests::{Draw, Server, refused};

#[test]
fn alignment_moves_nothing_of_others() {
    let (server, mut client) = Server::with_orders(1000);
    client.run(
        "CREATE ROLE shop LOGIN; CREATE SCHEMA shop AUTHORIZATION shop;
         CREATE TABLE orders (id bigint DEFAULT leaf_segment_next('orders'));
         INSERT INTO orders VALUES (5000)",
    );
    refused(
        client.batch_execute("SELECT leaf_tag_align('nothing')"),
        "42704",
    );
    let mut shop = server.connect_as("shop", "postgres");
    shop.run(
        "CREATE TABLE shop.own (id bigint DEFAULT leaf_segment_next('orders')); INSERT INTO shop.own VALUES (7000)",
    );
    let aligned =
        "SELECT string_agg(concat_ws(' ', used_in, moved, ignored), ', ') FROM leaf_tag_align()";
    let stranger = "tables whose owner may not draw from the tag";
    assert_eq!(
        shop.text(aligned),
        format!("public.orders.id f tables of other roles, shop.own.id f {stranger}")
    );
    client.run("SELECT leaf_tag_grant('orders', 'shop')");
    let shown =
        shop.text("SELECT string_agg(concat_ws(' ', used_in, moved), ', ') FROM leaf_tag_align()");
    assert_eq!(shown, "public.orders.id f, shop.own.id f");
    assert_eq!(client.next("orders").expect("an id"), 1);
}

/// A role could use up a tag of others with a table of its own.
#[test]
fn table_of_a_role_that_may_not_draw_moves_no_tag() {
    let (_server, mut client) = Server::with_orders(1000);
    client.run(
        "CREATE ROLE stranger; CREATE SCHEMA own AUTHORIZATION stranger;
         CREATE TABLE shared (id bigint DEFAULT leaf_segment_next('orders')) PARTITION BY LIST (id);
         INSERT INTO leaf.alloc (biz_tag, step) VALUES ('x', 1);
         SET ROLE stranger;
         CREATE TABLE own.big (id bigint DEFAULT leaf_segment_next('orders'));
         INSERT INTO own.big VALUES (5000000);
         RESET ROLE;
         CREATE TABLE own.part PARTITION OF shared DEFAULT;
         INSERT INTO shared VALUES (7000000);
         ALTER TABLE own.part OWNER TO stranger;
         CREATE TABLE child () INHERITS (own.big); INSERT INTO child VALUES (300)",
    );
    let aligned = "SELECT string_agg(concat_ws(' ', used_in, highest, moved, ignored), ', ')
                     FROM leaf_tag_align('orders')";
    let stranger = "tables whose owner may not draw from the tag";
    // A partition counts as its table, whoever owns it.
    assert_eq!(
        client.text(aligned),
        format!("own.big.id f {stranger}, public.child.id 300 t, public.shared.id 7000000 t")
    );
    client.run("SELECT leaf_tag_grant('orders', 'stranger')");
    assert_eq!(
        client.text(aligned),
        "own.big.id 5000000 f, public.child.id 300 f, public.shared.id 7000000 f"
    );
}

/// The role that aligns may be a superuser.
#[test]
fn alignment_executes_nothing_of_the_owners_of_tables() {
    let (server, mut client) = Server::with_orders(1000);
    client.run(
        "CREATE ROLE shop; CREATE SCHEMA shop AUTHORIZATION shop;
         SELECT leaf_tag_grant('orders', 'shop');
         CREATE EXTENSION postgres_fdw;
         CREATE SERVER here FOREIGN DATA WRAPPER postgres_fdw;
         SET ROLE shop;
         CREATE FUNCTION shop.trap(bigint) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$
         BEGIN RAISE LOG 'executed as %', current_user; RETURN true; END $$;
         CREATE FUNCTION shop.snare(bigint) RETURNS boolean IMMUTABLE LANGUAGE sql RETURN true;
         CREATE TABLE shop.orders (id bigint DEFAULT leaf_segment_next('orders') CHECK (shop.snare(1)));
         INSERT INTO shop.orders VALUES (5000);
         CREATE INDEX ON shop.orders (id) WHERE shop.snare(1);
         CREATE INDEX ON shop.orders (shop.snare(id));
         CREATE STATISTICS shop.s ON (shop.snare(1)), id FROM shop.orders;
         CREATE POLICY p ON shop.orders USING (shop.trap(id));
         ALTER TABLE shop.orders ENABLE ROW LEVEL SECURITY;
         CREATE OR REPLACE FUNCTION shop.snare(bigint) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$
         BEGIN RAISE LOG 'executed as %', current_user; RETURN true; END $$;
         RESET ROLE;
         CREATE FOREIGN TABLE shop.far (id bigint DEFAULT leaf_segment_next('orders')) SERVER here;
         ALTER FOREIGN TABLE shop.far OWNER TO shop",
    );
    client.run("SET ROLE shop; SELECT max(id) FROM shop.orders; RESET ROLE");
    assert!(server.log().contains("executed as shop"));
    let aligned = "SELECT string_agg(concat_ws(' ', used_in, highest, moved), ', ')
                     FROM leaf_tag_align('orders')";
    assert_eq!(client.text(aligned), "shop.far.id f, shop.orders.id 5000 t");
    assert!(!server.log().contains("executed as postgres"));
    // Nor does an error of theirs keep others from being aligned.
    client.run(
        "CREATE OR REPLACE FUNCTION shop.snare(bigint) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$
         BEGIN RAISE EXCEPTION 'executed as %', current_user; END $$;
         CREATE TABLE own (id bigint DEFAULT leaf_segment_next('orders')); INSERT INTO own VALUES (9000)",
    );
    assert_eq!(
        client.text(aligned),
        "public.own.id 9000 t, shop.far.id f, shop.orders.id f"
    );
}

/// The owner of the tag, or an administrator, aligns as a matter of routine.
#[test]
fn table_of_a_grantee_exhausts_no_tag() {
    let (_server, mut client) = Server::with_orders(1000);
    client.run(
        "CREATE ROLE grantee; CREATE SCHEMA own AUTHORIZATION grantee;
         SELECT leaf_tag_grant('orders', 'public');
         SELECT leaf_tag_create('small', max_value => 2147483647); SELECT leaf_tag_grant('small', 'public');
         SET ROLE grantee;
         CREATE TABLE own.far (id bigint DEFAULT leaf_segment_next('orders'));
         INSERT INTO own.far VALUES (9223372036854775806), (1000000002), (777);
         CREATE TABLE own.a (id bigint DEFAULT leaf_segment_next('small'));
         CREATE TABLE own.b (id bigint DEFAULT leaf_segment_next('small'));
         INSERT INTO own.a VALUES (2147483646), (1000000000);
         INSERT INTO own.b VALUES (2000000000), (1000000010);
         RESET ROLE;
         CREATE TABLE mine (id bigint DEFAULT leaf_segment_next('orders'));
         INSERT INTO mine VALUES (5000000000)",
    );
    let aligned = "SELECT string_agg(concat_ws(' ', used_in, highest, moved, ignored), ', ')
                     FROM leaf_tag_align()";
    let far = "values far ahead of the tag in tables whose owner does not own it";
    assert_eq!(
        client.text(aligned),
        format!(
            "own.far.id 777 t {far}, public.mine.id 5000000000 t, \
             own.a.id 1000000000 t {far}, own.b.id f {far}"
        )
    );
}
