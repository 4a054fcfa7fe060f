/* leaf 0.1.0: everything CREATE EXTENSION leaf creates. Never edited once released. */
\echo Use "CREATE EXTENSION leaf" to load this file. \quit

/*
 * Tables and views live in schema leaf; functions are created in the schema
 * that CREATE EXTENSION targets. Others may create objects there, so operators
 * on types that pg_catalog has no exact operator for are named in full.
 */
CREATE SCHEMA leaf;
COMMENT ON SCHEMA leaf IS 'catalog and status of the leaf extension';
GRANT USAGE ON SCHEMA leaf TO PUBLIC;

/*
 * The catalog of tags. The first five columns are Meituan Leaf's leaf_alloc;
 * rows exported from there load as they are. Everything a role may do with a
 * tag is decided from owner and grantees, which are names on purpose: role
 * oids would break pg_upgrade, and a role that is missing is simply nobody.
 */
CREATE TABLE leaf.alloc (
    biz_tag         varchar(128) NOT NULL,
    max_id          bigint       NOT NULL DEFAULT 1,
    step            integer      NOT NULL,
    description     varchar(256),
    update_time     timestamptz  NOT NULL DEFAULT now(),
    max_value       bigint       NOT NULL DEFAULT 9223372036854775807,
    owner           name         NOT NULL DEFAULT CURRENT_USER,
    grantees        name[]       NOT NULL DEFAULT '{}',
    incarnation     uuid         NOT NULL DEFAULT gen_random_uuid(),
    history         text,
    last_grant      bigint       NOT NULL DEFAULT 0,
    largest_reserve bigint       NOT NULL DEFAULT 0,
    CONSTRAINT alloc_pkey PRIMARY KEY (biz_tag),
    CONSTRAINT alloc_biz_tag_check CHECK (biz_tag::text OPERATOR(pg_catalog.<>) ''::text),
    CONSTRAINT alloc_step_check CHECK (step OPERATOR(pg_catalog.>) 0)
);
COMMENT ON TABLE leaf.alloc IS 'one row per tag: how far its ids are granted';
COMMENT ON COLUMN leaf.alloc.biz_tag IS 'the tag: each has an id space of its own';
COMMENT ON COLUMN leaf.alloc.max_id IS 'the first number not yet granted; only grows';
COMMENT ON COLUMN leaf.alloc.step IS 'smallest number of ids in a segment';
COMMENT ON COLUMN leaf.alloc.update_time IS 'when the row was last changed, by a grant or by hand';
COMMENT ON COLUMN leaf.alloc.max_value IS 'largest id that may be granted (at most 9223372036854775806 is)';
COMMENT ON COLUMN leaf.alloc.owner IS 'name of the role that may draw from, alter, grant and drop the tag';
COMMENT ON COLUMN leaf.alloc.grantees IS 'names of the roles that may draw; public stands for everybody';
COMMENT ON COLUMN leaf.alloc.incarnation IS 'identity of the row: a tag that is dropped and created again is a new tag';
COMMENT ON COLUMN leaf.alloc.history IS 'history of the cluster (system identifier, timeline, nonce) of the last grant';
COMMENT ON COLUMN leaf.alloc.last_grant IS 'ids in the last granted segment';
COMMENT ON COLUMN leaf.alloc.largest_reserve IS 'ids in the largest block ever reserved';

-- Dumps carry the rows: a restored database goes on where the dump was taken.
SELECT pg_catalog.pg_extension_config_dump('leaf.alloc', '');

/* Triggers: what plain SQL on leaf.alloc means for ids already in memory. */
CREATE FUNCTION leaf_alloc_check() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'leaf_alloc_check';
COMMENT ON FUNCTION leaf_alloc_check() IS 'refuses a lower max_id and keeps update_time current';
CREATE FUNCTION leaf_alloc_changed() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'leaf_alloc_changed';
COMMENT ON FUNCTION leaf_alloc_changed() IS 'makes a change of leaf.alloc take effect at commit';

REVOKE EXECUTE ON FUNCTION leaf_alloc_check(), leaf_alloc_changed() FROM PUBLIC;

CREATE TRIGGER leaf_check BEFORE UPDATE ON leaf.alloc
    FOR EACH ROW EXECUTE FUNCTION leaf_alloc_check();
CREATE TRIGGER leaf_changed AFTER INSERT OR UPDATE OR DELETE ON leaf.alloc
    FOR EACH ROW EXECUTE FUNCTION leaf_alloc_changed();
CREATE TRIGGER leaf_truncated AFTER TRUNCATE ON leaf.alloc
    FOR EACH STATEMENT EXECUTE FUNCTION leaf_alloc_changed();
-- Apply workers and restores run as replica, where ordinary triggers are silent.
ALTER TABLE leaf.alloc ENABLE ALWAYS TRIGGER leaf_check;
ALTER TABLE leaf.alloc ENABLE ALWAYS TRIGGER leaf_changed;
ALTER TABLE leaf.alloc ENABLE ALWAYS TRIGGER leaf_truncated;

/* Drawing ids. */
CREATE FUNCTION leaf_segment_next(tag text) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'leaf_segment_next';
COMMENT ON FUNCTION leaf_segment_next(text) IS 'the next id of a tag';

CREATE FUNCTION leaf_segment_batch(tag text, count integer) RETURNS SETOF bigint
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE ROWS 1000
    AS 'MODULE_PATHNAME', 'leaf_segment_batch_wrapper';
COMMENT ON FUNCTION leaf_segment_batch(text, integer) IS 'count ids of a tag, ascending';

CREATE FUNCTION leaf_segment_reserve(
        tag text, count bigint,
        OUT first_id bigint, OUT last_id bigint, OUT increment bigint) RETURNS record
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'leaf_segment_reserve';
COMMENT ON FUNCTION leaf_segment_reserve(text, bigint)
    IS 'one block of count ids, durable before it is returned: first_id, first_id + increment, ..., last_id';

/* Keeping tags. */
CREATE FUNCTION leaf_tag_create(
        tag text, step integer DEFAULT 1000, start bigint DEFAULT 1,
        max_value bigint DEFAULT 9223372036854775807, description text DEFAULT NULL) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'leaf_tag_create_wrapper';
COMMENT ON FUNCTION leaf_tag_create(text, integer, bigint, bigint, text)
    IS 'creates a tag owned by the current role';
-- As with CREATE on a schema, making new objects is for those who were allowed to.
REVOKE EXECUTE ON FUNCTION leaf_tag_create(text, integer, bigint, bigint, text) FROM PUBLIC;

CREATE FUNCTION leaf_tag_alter(
        tag text, step integer DEFAULT NULL, advance_to bigint DEFAULT NULL,
        max_value bigint DEFAULT NULL, description text DEFAULT NULL) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'leaf_tag_alter_wrapper';
COMMENT ON FUNCTION leaf_tag_alter(text, integer, bigint, bigint, text)
    IS 'changes what is given and keeps the rest; ids never move backwards';

CREATE FUNCTION leaf_tag_drop(tag text) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'leaf_tag_drop_wrapper';
COMMENT ON FUNCTION leaf_tag_drop(text) IS 'removes a tag';

CREATE FUNCTION leaf_tag_grant(tag text, role name) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'leaf_tag_grant_wrapper';
COMMENT ON FUNCTION leaf_tag_grant(text, name) IS 'lets a role (or PUBLIC) draw ids of a tag';

CREATE FUNCTION leaf_tag_revoke(tag text, role name) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'leaf_tag_revoke_wrapper';
COMMENT ON FUNCTION leaf_tag_revoke(text, name) IS 'takes back what leaf_tag_grant gave';

/* Watching. */
CREATE FUNCTION leaf_segment_stats(
        OUT biz_tag text, OUT "position" bigint, OUT current_left bigint, OUT next_left bigint,
        OUT step bigint, OUT loads bigint, OUT waits bigint,
        OUT longest_wait_ms double precision, OUT timeouts bigint,
        OUT ids_per_second double precision,
        OUT last_error text, OUT last_error_at timestamptz) RETURNS SETOF record
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'leaf_segment_stats_wrapper';
COMMENT ON FUNCTION leaf_segment_stats() IS 'the tags of this database that are in shared memory';
REVOKE EXECUTE ON FUNCTION leaf_segment_stats() FROM PUBLIC;

CREATE VIEW leaf.stat_segment AS
SELECT a.biz_tag,
       a.max_id - 1 AS granted_up_to,
       coalesce(s."position", a.max_id) AS "position",
       coalesce(s.current_left, 0) AS current_left,
       coalesce(s.next_left, 0) AS next_left,
       coalesce(s.next_left, 0) > 0 AS next_ready,
       coalesce(nullif(s.step, 0), a.step) AS step,
       coalesce(s.loads, 0) AS loads,
       coalesce(s.waits, 0) AS waits,
       coalesce(s.longest_wait_ms, 0) AS longest_wait_ms,
       coalesce(s.timeouts, 0) AS timeouts,
       coalesce(s.ids_per_second, 0) AS ids_per_second,
       s.last_error,
       s.last_error_at
  FROM leaf.alloc AS a
  LEFT JOIN leaf_segment_stats() AS s ON s.biz_tag OPERATOR(pg_catalog.=) a.biz_tag::text;
COMMENT ON VIEW leaf.stat_segment IS 'one row per tag: position, buffers, loads, waits and errors since it was last brought into memory';

GRANT EXECUTE ON FUNCTION leaf_segment_stats() TO pg_monitor;
GRANT SELECT ON leaf.stat_segment TO pg_monitor;
