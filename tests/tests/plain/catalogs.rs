//! Both editions have the same functions, tables and views, with the same rights.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Server};
use std::collections::BTreeSet;

/// What only one of them has, by the beginnings of the lines.
const ALLOWED: [&str; 4] = [
    // Settings, and the call after a restore, which take the place of the library's settings and of
    // its own look at the cluster.
    "plain only: relation leaf.plain",
    "plain only: relation leaf.next_worker_id",
    "plain only: function leaf_new_history",
    // Only there, a row's identity names its high water.
    "plain only: index CREATE UNIQUE INDEX alloc_incarnation_idx",
];

/// Names, arguments, results, comments and rights of all that callers can see. The owner is
/// somebody else in each edition.
fn contents(client: &mut Client) -> BTreeSet<String> {
    let rights = "SELECT coalesce(string_agg(concat_ws(' ', CASE WHEN grantee = 0 THEN 'PUBLIC' WHEN grantee = o.owner THEN 'owner' \
                                             ELSE pg_get_userbyid(grantee) END, privilege_type), ', ' \
                                   ORDER BY grantee <> o.owner, pg_get_userbyid(grantee), privilege_type), '') \
                    FROM aclexplode(coalesce(o.acl, o.usual))";
    let functions = format!(
        "SELECT format('function %s(%s) RETURNS %s, rights %s, comment %s', p.proname,
                       pg_get_function_arguments(p.oid), pg_get_function_result(p.oid), ({rights}),
                       obj_description(p.oid, 'pg_proc'))
           FROM pg_proc AS p, LATERAL (SELECT p.proacl AS acl, acldefault('f', p.proowner) AS usual, p.proowner AS owner) AS o
          WHERE p.pronamespace = 'public'::regnamespace"
    );
    let relations = format!(
        "SELECT format('relation leaf.%s %s, rights %s, comment %s', c.relname, c.relkind, ({rights}), obj_description(c.oid, 'pg_class'))
           FROM pg_class AS c, LATERAL (SELECT c.relacl AS acl, acldefault('r', c.relowner) AS usual, c.relowner AS owner) AS o
          WHERE c.relnamespace = 'leaf'::regnamespace AND c.relkind IN ('r', 'v', 'S') AND c.relname !~ '^g_'"
    );
    let columns = "SELECT format('column of relation leaf.%s: %s %s %s %s %s, comment %s', c.relname, a.attnum, a.attname,
                                 format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid),
                                 col_description(c.oid, a.attnum))
                     FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                     LEFT JOIN pg_attrdef AS d ON (d.adrelid, d.adnum) = (a.attrelid, a.attnum)
                    WHERE c.relnamespace = 'leaf'::regnamespace AND c.relkind IN ('r', 'v') AND c.relname <> 'plain'";
    let parts = "SELECT format('constraint of relation %s: %s', conrelid::regclass, pg_get_constraintdef(oid))
                   FROM pg_constraint WHERE connamespace = 'leaf'::regnamespace AND conrelid <> coalesce(to_regclass('leaf.plain'), 0)
                 UNION ALL
                 SELECT format('index %s', indexdef) FROM pg_indexes WHERE schemaname = 'leaf' AND tablename <> 'plain'
                 UNION ALL
                 SELECT format('trigger %s', pg_get_triggerdef(oid)) FROM pg_trigger
                  WHERE NOT tgisinternal AND tgrelid::regclass::text ^@ 'leaf.'";
    let parts = [functions.as_str(), relations.as_str(), columns, parts];
    let rows = client.query(&parts.join(" UNION ALL "), &[]);
    let rows = rows.expect("the catalog");
    rows.iter().map(|row| row.get(0)).collect()
}

#[test]
fn catalogs_differ_in_what_is_listed_alone() {
    let [of_extension, of_plain] = [Server::options(), Server::options().plain()]
        .map(|options| contents(&mut options.start().connect()));
    assert!(of_extension.len() > 150, "{of_extension:#?}");
    // Whose rows the owner of the database may restore. Elsewhere that is whoever has installed leaf.
    let of_restorer = ", pg_database_owner INSERT, pg_database_owner SELECT";
    let lines = of_extension
        .iter()
        .filter(|line| line.contains(of_restorer));
    assert_eq!(lines.count(), 2, "leaf.alloc and leaf.worker");
    let of_extension = of_extension
        .iter()
        .map(|line| line.replace(of_restorer, ""))
        .collect();
    let only = |name, these: &BTreeSet<String>, those: &BTreeSet<String>| -> Vec<String> {
        let only = these.difference(those);
        only.map(|line| format!("{name} only: {line}")).collect()
    };
    let mut differences = only("extension", &of_extension, &of_plain);
    differences.append(&mut only("plain", &of_plain, &of_extension));
    for allowed in ALLOWED {
        let before = differences.len();
        differences.retain(|line| !line.starts_with(allowed));
        assert_ne!(differences.len(), before, "no such difference: {allowed}");
    }
    assert!(differences.is_empty(), "{differences:#?}");
}

/// What others call, also superusers who read a view, finds no names of the caller's search_path,
/// which may be the database's owner's: a body is parsed when it is made, or has a path of its own.
/// What runs as the owner has plans that do not contain what it has read: the host can log them, and a session
/// can have them sent.
#[test]
fn no_function_that_others_call_is_exposed_to_their_settings() {
    let server = Server::options().plain().start();
    let rows = server.connect().query(
        "SELECT p.oid::regprocedure::text FROM pg_proc AS p, pg_language AS l
          WHERE l.oid = p.prolang AND l.lanname <> 'internal' AND prosqlbody IS NULL
            AND (pronamespace = 'leaf'::regnamespace AND has_function_privilege('public', p.oid, 'EXECUTE')
                 OR pronamespace = 'public'::regnamespace AND proname ^@ 'leaf_')
            AND NOT coalesce(proconfig, '{}') && ARRAY['search_path=pg_catalog, pg_temp']
             OR l.oid = p.prolang AND prosecdef AND pronamespace IN ('leaf'::regnamespace, 'public'::regnamespace)
            AND NOT coalesce(proconfig, '{}') && ARRAY['plan_cache_mode=force_generic_plan']",
        &[],
    );
    let without: Vec<String> = rows
        .expect("functions")
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert!(without.is_empty(), "{without:?}");
}

/// Types of variables are looked up when a session first compiles a function, which anybody can have done with any
/// search_path: a type of his would run his code as the owner.
#[test]
fn variables_have_no_types_of_the_callers_search_path() {
    let server = Server::options().plain().start();
    let mut client = server.connect();
    // Whatever finds one of these fails.
    client.run(
        "CREATE SCHEMA planted;
         DO $$ DECLARE type name; BEGIN
             FOR type IN SELECT typname FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace AND typtype <> 'c' AND typcategory <> 'A' LOOP
                 EXECUTE format('CREATE TYPE planted.%I', type);
             END LOOP;
         END $$;
         SET search_path = planted, pg_catalog",
    );
    let functions = client
        .query(
            "SELECT p.oid, p.oid::pg_catalog.regprocedure::pg_catalog.text FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang
              WHERE l.lanname = 'plpgsql'
                AND pronamespace IN ('leaf'::pg_catalog.regnamespace, 'public'::pg_catalog.regnamespace)",
            &[],
        )
        .expect("functions");
    assert!(functions.len() > 50, "{}", functions.len());
    for row in functions {
        let (oid, name): (u32, String) = (row.get(0), row.get(1));
        client
            .execute("SELECT pg_catalog.plpgsql_validator($1)", &[&oid])
            .unwrap_or_else(|error| panic!("{name}: {error:?}"));
    }
}

/// Functions that need the library say so, and name a way out.
#[test]
fn what_needs_the_library_says_so() {
    let server = Server::options().plain().start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('orders'); CREATE TABLE t (id bigint)");
    for call in [
        "leaf_segment_next('orders')",
        "leaf_segment_batch('orders', 10)",
        "leaf_segment_last('orders')",
        "leaf_snowflake_next()",
        "leaf_snowflake_batch(10)",
        "leaf_tag_attach('orders')",
        "leaf_tag_restripe('orders', 2, 0, 1000)",
        "leaf_tag_align()",
        "leaf_column_adopt('t', 'id')",
        "leaf_column_release('t', 'id')",
        "leaf_mask('orders', 1)",
        "leaf_unmask('orders', 1)",
    ] {
        let error = leaf_tests::refused(client.simple_query(&format!("SELECT {call}")), "0A000");
        assert!(error.hint().is_some_and(|hint| !hint.is_empty()), "{call}");
    }
}

/// Another version of the system's collations would have another order, so that a search in an index
/// could miss a row, which would then be made again.
#[test]
fn no_index_depends_on_a_collation_of_the_system() {
    for server in [Server::start(), Server::options().plain().start()] {
        let mut client = server.connect();
        let sql = "SELECT count(*) FROM pg_index AS i, unnest(i.indcollation::oid[]) AS c \
                    WHERE i.indrelid IN ('leaf.alloc'::regclass, 'leaf.worker'::regclass) \
                      AND c NOT IN (0, 'pg_catalog.\"C\"'::regcollation)";
        assert_eq!(client.number(sql), 0);
    }
}
