//! Columns of users' tables, as they are when one is adopted or released: their defaults,
//! sequences, and who may insert.

use pgrx::pg_sys::Oid;

use super::defaults::{self, DefaultOfTag};
use super::extension;
use super::sequences::{self, Sequence};
use super::statement::{
    bigint, bytes, column_of, command, flag, literal, optional_text, query_latest, quoted, text,
};
use crate::error::{Error, Problem};
use crate::pg::column::Summary;
use crate::pg::datum::{Arg, bigint_arg, text_arg};
use crate::pg::expression::{Constant, PlainCall};
use crate::pg::{display, expression, relation_name, role};

/// A column, or what stands in the way of adopting it.
#[derive(Clone, Debug)]
pub struct Column {
    pub table: Oid,
    pub attribute: Vec<u8>,
    /// The table, qualified and quoted.
    pub table_name: String,
    /// The column, quoted.
    pub name: String,
    /// A name for a tag: `table.column`, with the schema before it unless that is `public`.
    pub plain_name: String,
    /// Whether the table is one that has a default for each row: an ordinary or partitioned
    /// table.
    pub is_of_table: bool,
    /// Whether the table is one of leaf's own.
    pub is_of_leaf: bool,
    /// Whether the table lasts only as long as its session.
    pub is_temporary: bool,
    /// Whether the table is a partition, or the column comes from a parent.
    pub is_inherited: bool,
    /// Whether the current role has the privileges of the table's owner.
    pub is_owned: bool,
    /// The table's owner, and its name.
    pub owner_oid: Oid,
    pub owner: Vec<u8>,
    /// Whether the owner may create sequences in the table's schema.
    may_create: bool,
    /// The largest number of the column's type; `None` if that is not `smallint`, `integer`
    /// or `bigint`.
    pub largest: Option<i64>,
    pub is_not_null: bool,
    /// Whether the column is computed from others.
    pub is_computed: bool,
    /// The default, for messages.
    pub default: Option<String>,
    /// The default as PostgreSQL stores it.
    expression: Option<Vec<u8>>,
}

/// A column by its name; `None` if the table has no such column. `None` also if the table no
/// longer exists.
pub fn find(table: Oid, attribute: &[u8]) -> Option<Column> {
    query_latest(
        "SELECT c.oid::bigint AS table, f.attname::text AS attribute, \
                format('%I.%I', n.nspname, c.relname) AS table_name, format('%I', f.attname) AS name, \
                CASE WHEN n.nspname <> 'public' THEN n.nspname || '.' ELSE '' END \
                || c.relname || '.' || f.attname AS plain_name, \
                c.relkind IN ('r', 'p') AS is_of_table, c.relpersistence = 't' AS is_temporary, \
                c.relispartition OR f.attinhcount > 0 AS is_inherited, \
                pg_has_role(c.relowner, 'USAGE') AS is_owned, \
                c.relowner::bigint AS owner_oid, r.rolname::text AS owner, \
                has_schema_privilege(c.relowner, n.oid, 'CREATE') AS may_create, \
                CASE f.atttypid WHEN 'smallint'::regtype THEN 32767 \
                                WHEN 'integer'::regtype THEN 2147483647 \
                                WHEN 'bigint'::regtype THEN 9223372036854775807 END::bigint AS largest, \
                f.attnotnull AS is_not_null, f.attgenerated <> '' AS is_computed, \
                pg_get_expr(d.adbin, d.adrelid) AS default, d.adbin::text AS expression, \
                EXISTS (SELECT FROM pg_depend AS e JOIN pg_extension AS x ON x.oid = e.refobjid \
                         WHERE e.classid = 'pg_class'::regclass AND e.objid = c.oid AND e.deptype = 'e' \
                           AND e.refclassid = 'pg_extension'::regclass AND x.extname = 'leaf') AS is_of_leaf \
           FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace \
           JOIN pg_roles AS r ON r.oid = c.relowner \
           JOIN pg_attribute AS f ON f.attrelid = c.oid AND f.attname = $2::name \
                                 AND f.attnum > 0 AND NOT f.attisdropped \
           LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = f.attnum \
          WHERE c.oid = $1::oid",
        &[oid_arg(table), text_arg(attribute)],
        |row| Column {
            table: oid(bigint(row, "table")),
            attribute: bytes(row, "attribute").unwrap_or_default(),
            table_name: text(row, "table_name"),
            name: text(row, "name"),
            plain_name: text(row, "plain_name"),
            is_of_table: flag(row, "is_of_table"),
            is_of_leaf: flag(row, "is_of_leaf"),
            is_temporary: flag(row, "is_temporary"),
            is_inherited: flag(row, "is_inherited"),
            is_owned: flag(row, "is_owned"),
            owner: bytes(row, "owner").unwrap_or_default(),
            largest: column_of::<i64>(row, "largest"),
            is_not_null: flag(row, "is_not_null"),
            is_computed: flag(row, "is_computed"),
            default: optional_text(row, "default"),
            expression: bytes(row, "expression"),
            owner_oid: oid(bigint(row, "owner_oid")),
            may_create: flag(row, "may_create"),
        },
    )
    .pop()
}

/// The name of a relation, qualified and quoted as necessary.
pub fn name_of(relation: Oid) -> String {
    named(relation, "$1::oid::regclass::text")
}

/// What a relation is, with its name: `table shop.orders`.
pub fn kind_and_name_of(relation: Oid) -> String {
    named(
        relation,
        "(SELECT CASE c.relkind WHEN 'S' THEN 'sequence ' WHEN 'i' THEN 'index ' ELSE 'table ' END \
            FROM pg_class AS c WHERE c.oid = $1::oid) || $1::oid::regclass::text",
    )
}

fn named(relation: Oid, expression: &str) -> String {
    let names = query_latest(
        &format!("SELECT {expression}"),
        &[oid_arg(relation)],
        |row| text(row, 1),
    );
    names.into_iter().next().unwrap_or_default()
}

/// The largest number in a column; `None` if it has none, or if the current role may not read
/// all of it.
pub fn highest(table: Oid, attribute: &[u8]) -> Option<i64> {
    let may_read = query_latest(
        "SELECT has_column_privilege($1::oid, $2::text, 'SELECT') AND NOT row_security_active($1::oid) AS may_read",
        &[oid_arg(table), text_arg(attribute)],
        |row| flag(row, "may_read"),
    );
    if may_read != [true] {
        return None;
    }
    find(table, attribute)?.summary(i64::MAX)?.largest
}

impl Column {
    /// The tables in which the column's values are, and those above them: the table itself
    /// and all that are below it, by their OIDs.
    pub fn tables(&self) -> Vec<Oid> {
        query_latest(
            "WITH RECURSIVE tree(oid) AS ( \
                 SELECT $1::oid UNION \
                 SELECT i.inhrelid FROM pg_inherits AS i JOIN tree AS t ON t.oid = i.inhparent) \
             SELECT oid::bigint FROM tree ORDER BY oid",
            &[oid_arg(self.table)],
            |row| oid(bigint(row, 1)),
        )
    }

    /// What the tables have in the column, including numbers up to `limit`; `None` if one of
    /// them cannot be read here, because it is a foreign table.
    pub fn summary(&self, limit: i64) -> Option<Summary> {
        let mut all = Summary::default();
        for member in defaults::members(number(self.table), &self.attribute) {
            let summary = member.column?.summary(limit, |_| true)?;
            all.largest = all.largest.max(summary.largest);
            all.has_outliers |= summary.has_outliers;
        }
        Some(all)
    }

    /// The tag that the default draws from, if it is a plain call of `leaf_segment_next`.
    pub fn tag(&self) -> Option<Vec<u8>> {
        let function = extension::function("leaf_segment_next")?.oid;
        match self.plain_call()? {
            PlainCall {
                function: called,
                argument: Some(Constant::Text(tag)),
            } if called == function => Some(tag),
            _ => None,
        }
    }

    /// The sequence that the default draws from, if it is a plain call of `nextval`.
    pub fn sequence(&self) -> Option<Oid> {
        match self.plain_call()? {
            PlainCall {
                function: expression::NEXTVAL,
                argument: Some(Constant::Relation(sequence)),
            } => Some(sequence),
            _ => None,
        }
    }

    /// What the default is, if it is a plain call. Not as it is printed, which depends on
    /// settings and on the search path.
    fn plain_call(&self) -> Option<PlainCall> {
        let expression = self.expression.as_ref()?;
        expression::plain_call(&defaults::c_string(expression.clone()))
    }

    /// Whether the default is a plain call of `leaf_snowflake_next`.
    pub fn is_snowflake(&self) -> bool {
        let function = extension::function("leaf_snowflake_next").map(|it| it.oid);
        function.is_some() && function == self.plain_call().map(|call| call.function)
    }

    /// Sets the default to draw from a sequence.
    pub fn use_sequence(&self, sequence: &str) {
        let literal = literal(sequence);
        self.alter(&format!("SET DEFAULT nextval({literal}::regclass)"));
    }

    /// Sets the default to draw from a tag, or, without one, to snowflake ids.
    pub fn set_default(&self, tag: Option<&[u8]>) {
        let call = match tag {
            Some(tag) => extension::function("leaf_segment_next")
                .map(|it| format!("{}({}::text)", it.name, literal(&display(tag)))),
            None => extension::function("leaf_snowflake_next").map(|it| format!("{}()", it.name)),
        };
        // The extension may have been dropped meanwhile.
        let call = call.unwrap_or_else(|| Error::NoCatalog.raise());
        self.alter(&format!("SET DEFAULT {call}"));
    }

    /// Alters the column.
    pub fn alter(&self, change: &str) {
        self.as_owner(&self.alteration(change));
    }

    fn alteration(&self, change: &str) -> String {
        let Column {
            table_name, name, ..
        } = self;
        format!("ALTER TABLE {table_name} ALTER COLUMN {name} {change}")
    }

    /// Runs a command as the owner of the table: triggers of others that it sets off, and
    /// objects of others that have taken a name meanwhile, get no more rights than the owner has.
    pub fn as_owner(&self, change: &str) {
        role::acting_as(self.owner_oid, || command(change));
    }

    /// Runs a command that creates a sequence as the owner of the table, or as the current role
    /// if only that may be allowed to.
    fn as_creator(&self, change: &str) {
        let creator = match self.may_create {
            true => self.owner_oid,
            false => role::current(),
        };
        role::acting_as(creator, || command(change));
    }

    /// Whether a default is the column's, or that of a table below.
    pub fn has(&self, default: &DefaultOfTag) -> bool {
        default.is_of(&self.attribute) && self.tables().contains(&oid(default.table))
    }

    /// The sequences of the column, also of the tables below, which come last.
    pub fn sequences(&self) -> Vec<Sequence> {
        sequences::of_column(number(self.table), &self.attribute)
    }

    /// The names of the roles that may insert, into the table, a table below it, or a view
    /// or another table with a rule through which rows get there; `public` for all roles.
    /// Anybody can create views and rules: they count if their owner may insert, as whom they do.
    pub fn inserters(&self) -> Vec<Vec<u8>> {
        query_latest(
            "WITH RECURSIVE tree(oid) AS ( \
                 SELECT $1::oid UNION \
                 SELECT x.oid FROM tree AS t CROSS JOIN LATERAL ( \
                     SELECT i.inhrelid FROM pg_inherits AS i WHERE i.inhparent = t.oid UNION \
                     SELECT w.ev_class FROM pg_depend AS p JOIN pg_rewrite AS w ON w.oid = p.objid \
                       JOIN pg_class AS v ON v.oid = w.ev_class AND (w.ev_type = '3' OR v.relkind = 'v') \
                        AND has_any_column_privilege(v.relowner, t.oid, 'INSERT') \
                      WHERE p.classid = 'pg_rewrite'::regclass \
                        AND p.refclassid = 'pg_class'::regclass AND p.refobjid = t.oid) AS x(oid)), \
             acls AS ( \
                 SELECT coalesce(c.relacl, acldefault('r', c.relowner)) AS acl \
                   FROM tree JOIN pg_class AS c USING (oid) UNION ALL \
                 SELECT f.attacl FROM tree JOIN pg_attribute AS f ON f.attrelid = tree.oid \
                  WHERE f.attacl IS NOT NULL) \
             SELECT DISTINCT coalesce(r.rolname, 'public')::text \
               FROM acls CROSS JOIN LATERAL aclexplode(acls.acl) AS a \
               LEFT JOIN pg_roles AS r ON r.oid = a.grantee \
              WHERE a.privilege_type = 'INSERT' AND (a.grantee = 0 OR r.oid IS NOT NULL) \
              UNION \
             SELECT r.rolname::text FROM pg_roles AS r \
              WHERE r.rolname = 'pg_write_all_data' \
                AND EXISTS (SELECT FROM pg_auth_members AS m WHERE m.roleid = r.oid)",
            &[oid_arg(self.table)],
            |row| bytes(row, 1).unwrap_or_default(),
        )
    }

    /// Creates a sequence that begins at `start`, and makes it the column's default. Returns its
    /// name.
    pub fn create_default_sequence(&self, start: i64) -> String {
        let names = query_latest(
            "SELECT c.relname::text, c.relnamespace::bigint, quote_ident(n.nspname) \
               FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace \
              WHERE c.oid = $1::oid",
            &[oid_arg(self.table)],
            |row| {
                let table = bytes(row, 1).unwrap_or_default();
                let free =
                    relation_name::free(&table, &self.attribute, c"seq", oid(bigint(row, 2)));
                format!("{}.{}", text(row, 3), quoted(&free))
            },
        );
        let name = names.join("");
        let min = start.min(1);
        self.create_sequence(&name, &format!("MINVALUE {min} START WITH {start}"));
        self.use_sequence(&name);
        name
    }

    /// Creates a sequence that belongs to the column.
    pub fn create_sequence(&self, name: &str, options: &str) {
        self.as_creator(&format!("CREATE SEQUENCE {name} {options}"));
        if !self.may_create {
            let owner = quoted(&self.owner);
            self.as_creator(&format!("ALTER SEQUENCE {name} OWNER TO {owner}"));
        }
        self.own(name);
    }

    /// Makes a sequence belong to the column.
    pub fn own(&self, sequence: &str) {
        let Column {
            table_name, name, ..
        } = self;
        self.as_owner(&format!(
            "ALTER SEQUENCE {sequence} OWNED BY {table_name}.{name}"
        ));
    }

    /// Makes a sequence belong to no column.
    pub fn disown(&self, sequence: &str) {
        self.as_owner(&format!("ALTER SEQUENCE {sequence} OWNED BY NONE"));
    }

    /// Makes the column an identity column, `ALWAYS` or `BY DEFAULT`.
    pub fn add_identity(&self, generated: &str, options: &str) {
        self.as_creator(&self.alteration(&format!(
            "ADD GENERATED {generated} AS IDENTITY ({options})"
        )));
    }

    /// Sets a sequence to its end, so that it has no value left. `TRUNCATE ... RESTART IDENTITY`
    /// gives it back its last value only.
    pub fn exhaust(&self, sequence: &Sequence) {
        let (name, end) = (&sequence.name, sequence.end());
        // A restart gives the sequence another file, which a rollback discards, as it does what
        // setval writes to it.
        self.as_owner(&format!(
            "ALTER SEQUENCE {name} NO CYCLE START WITH {end} RESTART WITH {end}"
        ));
        let literal = literal(name);
        self.as_owner(&format!("SELECT setval({literal}::regclass, {end}, true)"));
    }

    /// Comments on a sequence; an empty comment is none.
    pub fn comment(&self, sequence: &Sequence, comment: &str) {
        let comment = literal(comment);
        self.as_owner(&format!(
            "COMMENT ON SEQUENCE {} IS {comment}",
            sequence.name
        ));
    }

    /// Allows all who may insert to draw from a sequence.
    pub fn grant_usage(&self, sequence: &str) {
        for role in self.inserters() {
            let role = match role.as_slice() {
                b"public" => "PUBLIC".to_owned(),
                role => quoted(role),
            };
            self.as_owner(&format!("GRANT USAGE ON SEQUENCE {sequence} TO {role}"));
        }
    }
}

/// Whether this transaction has locked a relation of users.
pub fn locks_are_held() -> bool {
    let found = query_latest(
        "SELECT EXISTS (SELECT FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation \
                         WHERE l.pid = pg_backend_pid() AND l.granted AND c.oid >= 16384 \
                           AND c.relnamespace <> 'leaf'::regnamespace)",
        &[],
        |row| flag(row, 1),
    );
    found == [true]
}

/// Whether a session that waits for a lock of this transaction has locked a relation.
pub fn is_awaited_by_holder(relation: Oid) -> bool {
    let found = query_latest(
        "SELECT EXISTS ( \
             SELECT FROM pg_locks AS w \
              WHERE NOT w.granted AND w.pid <> pg_backend_pid() \
                AND w.pid IN (SELECT h.pid FROM pg_locks AS h \
                               WHERE h.granted AND h.relation = $1::oid \
                                 AND h.database = (SELECT d.oid FROM pg_database AS d \
                                                    WHERE d.datname = current_database())) \
                AND pg_backend_pid() = ANY (pg_blocking_pids(w.pid)))",
        &[oid_arg(relation)],
        |row| flag(row, 1),
    );
    found == [true]
}

fn oid(number: i64) -> Oid {
    Oid::from(number as u32)
}

fn number(oid: Oid) -> i64 {
    i64::from(oid.to_u32())
}

fn oid_arg(oid: Oid) -> Arg {
    bigint_arg(number(oid))
}
