//! Versions of the extension: the library serves the objects of each, and an
//! update makes of each what a new installation is.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Installation, Ledger, Server, Snowflake, draw_many};

/// The present version.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Everything that the extension consists of, as text.
fn description(client: &mut Client) -> Vec<String> {
    let query = "
        WITH member AS (
            SELECT d.classid, d.objid, d.objsubid
              FROM pg_depend AS d JOIN pg_extension AS e ON e.oid = d.refobjid
             WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
               AND e.extname = 'leaf')
        SELECT concat_ws(E'\\n',
                   pg_describe_object(m.classid, m.objid, m.objsubid),
                   obj_description(m.objid, m.classid::regclass::name),
                   pg_get_functiondef(p.oid), p.proacl,
                   n.nspacl, c.relkind, c.relacl, c.reloptions, c.relrowsecurity,
                   (SELECT string_agg(concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod),
                                                a.attnotnull, a.attacl, pg_get_expr(f.adbin, f.adrelid),
                                                col_description(c.oid, a.attnum)),
                                      E'\\n' ORDER BY a.attnum)
                      FROM pg_attribute AS a
                      LEFT JOIN pg_attrdef AS f ON f.adrelid = a.attrelid AND f.adnum = a.attnum
                     WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
                   (SELECT string_agg(concat_ws(' ', s.conname, pg_get_constraintdef(s.oid)),
                                      E'\\n' ORDER BY s.conname)
                      FROM pg_constraint AS s WHERE s.conrelid = c.oid),
                   (SELECT string_agg(pg_get_indexdef(i.indexrelid), E'\\n' ORDER BY i.indexrelid::regclass::text)
                      FROM pg_index AS i WHERE i.indrelid = c.oid),
                   (SELECT string_agg(concat_ws(' ', pg_get_triggerdef(t.oid), t.tgenabled),
                                      E'\\n' ORDER BY t.tgname)
                      FROM pg_trigger AS t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal),
                   CASE WHEN c.relkind = 'v' THEN pg_get_viewdef(c.oid) END)
          FROM member AS m
          LEFT JOIN pg_proc AS p ON m.classid = 'pg_proc'::regclass AND p.oid = m.objid
          LEFT JOIN pg_namespace AS n ON m.classid = 'pg_namespace'::regclass AND n.oid = m.objid
          LEFT JOIN pg_class AS c ON m.classid = 'pg_class'::regclass AND c.oid = m.objid
        UNION ALL
        SELECT concat_ws(' ', extversion, extconfig::regclass[], extcondition)
          FROM pg_extension WHERE extname = 'leaf'
         ORDER BY 1";
    let rows = client.query(query, &[]).expect("a description");
    assert!(rows.len() > 20, "that is not all of it");
    rows.iter().map(|row| row.get(0)).collect()
}

/// A version that never was, and the update from it: without `leaf_tag_align`, and
/// with a statistics view that lacks a column.
fn add_made_up_version(installation: &Installation) {
    let present = installation.script(&format!("leaf--{VERSION}.sql"));
    let section = |from: &str, to: &str| {
        let begin = present.find(from).expect("the beginning of a section");
        let end = begin + present[begin..].find(to).expect("the end of a section");
        &present[begin..end]
    };
    let align = section("CREATE FUNCTION leaf_tag_align", "/*\n");
    let stats = section(
        "CREATE FUNCTION leaf.snowflake_stats",
        "COMMENT ON VIEW leaf.stat_snowflake",
    );
    let rest = section(
        "COMMENT ON VIEW leaf.stat_snowflake",
        "CREATE FUNCTION leaf.upstream_stats",
    );
    let grant = "GRANT EXECUTE ON FUNCTION leaf.snowflake_stats() TO pg_monitor;\n\
                 GRANT SELECT ON leaf.stat_snowflake TO pg_monitor;";
    let column = "        OUT rollbacks bigint,\n";
    let earlier = present.replace(align, "").replace(column, "");
    assert_eq!(earlier.len(), present.len() - align.len() - column.len());
    let update = format!(
        "DROP VIEW leaf.stat_snowflake;\nDROP FUNCTION leaf.snowflake_stats();\n\
         {align}\n{stats}\n{rest}\n{grant}\n"
    );
    installation.add_script("leaf--0.0.9.sql", &earlier);
    installation.add_script(&format!("leaf--0.0.9--{VERSION}.sql"), &update);
}

#[test]
fn every_earlier_version_becomes_the_present_one() {
    let installation = Installation::copy();
    add_made_up_version(&installation);
    let server = Server::options().installation(&installation).bare().start();
    let mut admin = server.connect();
    admin.run("CREATE EXTENSION leaf");
    let fresh = description(&mut admin);
    let earlier = admin
        .query(
            "SELECT v.version FROM pg_available_extension_versions AS v
               JOIN pg_available_extensions AS e USING (name)
              WHERE v.name = 'leaf' AND v.version <> e.default_version ORDER BY 1",
            &[],
        )
        .expect("versions");
    let earlier: Vec<String> = earlier.iter().map(|row| row.get(0)).collect();
    assert_eq!(earlier.first().map(String::as_str), Some("0.0.9"));
    for (n, version) in earlier.iter().enumerate() {
        admin.run(&format!("CREATE DATABASE earlier{n}"));
        let mut client = server.connect_as("postgres", &format!("earlier{n}"));
        client.run(&format!("CREATE EXTENSION leaf VERSION '{version}'"));

        // It works as it did, with the library of today.
        let (mut ids, mut snowflakes) = (Ledger::new(), Ledger::new());
        client.run(
            "SELECT leaf_tag_create('orders', step => 10);
             CREATE TABLE orders (id bigint DEFAULT leaf_segment_next('orders'))",
        );
        ids.add(draw_many(&mut client, "orders", 100));
        ids.add(client.reserve("orders", 50).expect("a block").ids());
        snowflakes.add(client.snowflakes(100).expect("ids"));
        client.run("UPDATE leaf.alloc SET description = 'kept'");
        client.run("SELECT * FROM leaf.stat_segment; SELECT * FROM leaf.stat_snowflake");

        // A session that draws goes on through the update.
        let mut other = server.connect_as("postgres", &format!("earlier{n}"));
        let prepared = other
            .prepare("SELECT leaf_segment_next('orders')")
            .expect("a statement");
        let mut next = || {
            other
                .query_one(&prepared, &[])
                .expect("an id")
                .get::<_, i64>(0)
        };
        ids.add([next()]);
        client.run("ALTER EXTENSION leaf UPDATE");
        ids.add([next()]);

        let updated = description(&mut client);
        for (updated, fresh) in updated.iter().zip(&fresh) {
            assert_eq!(updated, fresh, "after an update from {version}");
        }
        assert_eq!(updated.len(), fresh.len());
        ids.add(draw_many(&mut client, "orders", 100));
        snowflakes.add(client.snowflakes(100).expect("ids"));
        client.run("INSERT INTO orders VALUES (100000)");
        assert_eq!(
            client.number("SELECT count(*) FROM leaf_tag_align() WHERE moved"),
            1
        );
        assert_eq!(
            client.text("SELECT description::text FROM leaf.alloc"),
            "kept"
        );
    }
}
