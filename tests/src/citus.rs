//! The catalogs of Citus, imitated.

use postgres::Client;

use crate::Draw;

/// Makes a database a node of Citus, which belongs to this group, and spreads no table yet.
pub fn join_citus(client: &mut Client, group: i32) {
    client.run(&format!(
        "SET allow_system_table_mods = on;
         CREATE TABLE pg_catalog.pg_dist_local_group (groupid integer PRIMARY KEY);
         INSERT INTO pg_catalog.pg_dist_local_group VALUES ({group});
         CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass);
         INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
         VALUES (99999, 'citus', 10, 11, false, '13.2-1');
         INSERT INTO pg_depend (classid, objid, objsubid, refclassid, refobjid, refobjsubid, deptype)
         VALUES ('pg_class'::regclass, 'pg_dist_local_group'::regclass, 0, 'pg_extension'::regclass, 99999, 0, 'e');
         RESET allow_system_table_mods"
    ));
}
