/*
 * leaf 0.1.0: everything that CREATE EXTENSION leaf creates. Once this version is
 * released, this script must not be changed.
 */
\echo Use "CREATE EXTENSION leaf" to load this file. \quit

/*
 * Tables and views live in schema leaf; functions are created in the schema
 * that CREATE EXTENSION targets. Other roles may create objects there, so operators
 * for types without an exact operator in pg_catalog are schema-qualified.
 */
CREATE FUNCTION leaf_install_schema(target text) RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'leaf_install_schema';
-- If schema leaf is the target itself, it exists already.
SELECT leaf_install_schema($target$@extschema@$target$::pg_catalog.text);
DROP FUNCTION leaf_install_schema(text);
COMMENT ON SCHEMA leaf IS 'catalog and status of the leaf extension';
GRANT USAGE ON SCHEMA leaf TO PUBLIC;

/*
 * The catalog of tags. The first five columns are Meituan Leaf's leaf_alloc;
 * rows exported from there can be loaded unchanged. What a role may do with a tag
 * depends only on owner and grantees. These are names because role OIDs would
 * break pg_upgrade; the name of a role that does not exist has no effect.
 */
-- The index must not depend on a collation, whose order another version of the system can change.
CREATE TABLE leaf.alloc (
    biz_tag         varchar(128) COLLATE pg_catalog."C" NOT NULL,
    max_id          bigint       NOT NULL DEFAULT 1,
    step            integer      NOT NULL,
    description     varchar(256),
    update_time     timestamptz  NOT NULL DEFAULT now(),
    max_value       bigint       NOT NULL DEFAULT 9223372036854775807,
    owner           name         NOT NULL DEFAULT CURRENT_USER,
    grantees        name[]       NOT NULL DEFAULT '{}',
    incarnation     uuid         NOT NULL DEFAULT gen_random_uuid(),
    history         text,
    is_copy         boolean      NOT NULL DEFAULT false,
    last_grant      bigint       NOT NULL DEFAULT 0,
    largest_reserve bigint       NOT NULL DEFAULT 0,
    written_by      xid          NOT NULL DEFAULT '0',
    floor           bigint       NOT NULL DEFAULT -9223372036854775808,
    max_step        integer,
    upstream_tag    varchar(128),
    upstream_incarnation uuid,
    vouched_in      text,
    stripes         integer      NOT NULL DEFAULT 1,
    stripe          integer      NOT NULL DEFAULT 0,
    stripe_width    bigint       NOT NULL DEFAULT 1000000,
    cache           integer      NOT NULL DEFAULT 1,
    stripe_group    integer,
    CONSTRAINT alloc_pkey PRIMARY KEY (biz_tag),
    CONSTRAINT alloc_biz_tag_check CHECK (biz_tag::text OPERATOR(pg_catalog.<>) ''::text),
    CONSTRAINT alloc_step_check CHECK (step OPERATOR(pg_catalog.>) 0),
    CONSTRAINT alloc_max_step_check CHECK (max_step OPERATOR(pg_catalog.>) 0),
    CONSTRAINT alloc_upstream_check CHECK ((upstream_tag IS NULL) OPERATOR(pg_catalog.=) (upstream_incarnation IS NULL)),
    CONSTRAINT alloc_fed_check CHECK (upstream_tag IS NULL OR stripes OPERATOR(pg_catalog.=) 1),
    CONSTRAINT alloc_stripe_check CHECK (stripe OPERATOR(pg_catalog.>=) 0 AND stripe OPERATOR(pg_catalog.<) stripes),
    CONSTRAINT alloc_stripe_width_check CHECK (stripe_width OPERATOR(pg_catalog.>) 0
        AND stripe_width OPERATOR(pg_catalog.<=) (9223372036854775807 OPERATOR(pg_catalog./) greatest(stripes, 1))),
    CONSTRAINT alloc_cache_check CHECK (cache OPERATOR(pg_catalog.>=) 1 AND cache OPERATOR(pg_catalog.<=) 1024)
);
COMMENT ON TABLE leaf.alloc IS 'one row per tag: how far its ids are granted';
COMMENT ON COLUMN leaf.alloc.biz_tag IS 'name of the tag; the ids of each tag are counted separately';
COMMENT ON COLUMN leaf.alloc.max_id IS 'the first number not yet granted; only grows';
COMMENT ON COLUMN leaf.alloc.step IS 'smallest number of ids in a segment';
COMMENT ON COLUMN leaf.alloc.update_time IS 'when the row was last changed, by a grant or by another update';
COMMENT ON COLUMN leaf.alloc.max_step IS 'largest number of ids in a segment that is chosen for the tag; null for leaf.max_step';
COMMENT ON COLUMN leaf.alloc.max_value IS 'largest id that may be granted, but at most 9223372036854775806, because max_id stores the next number';
COMMENT ON COLUMN leaf.alloc.owner IS 'name of the role that may draw from, alter, grant and drop the tag';
COMMENT ON COLUMN leaf.alloc.grantees IS 'names of the roles that may draw; public means all roles';
COMMENT ON COLUMN leaf.alloc.incarnation IS 'identity of the row: a tag that is dropped and created again is a new tag';
COMMENT ON COLUMN leaf.alloc.history IS 'history of the cluster (system identifier, timeline, nonce) in which the row was made or last granted ids';
COMMENT ON COLUMN leaf.alloc.is_copy IS 'whether the row was copied, as by a restore, and has granted no ids since: the original may have granted more';
COMMENT ON COLUMN leaf.alloc.last_grant IS 'ids in the last granted segment; of a stripe, as many as it would have had without the end of a block';
COMMENT ON COLUMN leaf.alloc.largest_reserve IS 'ids in the largest block ever reserved';
COMMENT ON COLUMN leaf.alloc.floor IS 'the tag was moved here, or ids below are in use: unused ids below are not taken back';
COMMENT ON COLUMN leaf.alloc.written_by IS 'the transaction that wrote the row, set by a trigger; with another xmin, the row was written while triggers were disabled';
COMMENT ON COLUMN leaf.alloc.upstream_tag IS 'the tag of the centre from which the ids of a fed tag come; null if they are granted here';
COMMENT ON COLUMN leaf.alloc.upstream_incarnation IS 'the identity of that tag: another tag with its name feeds nothing';
COMMENT ON COLUMN leaf.alloc.vouched_in IS 'history of the database in which the row lacks nothing that it has fed to other clusters; in another one, it feeds nothing';
COMMENT ON COLUMN leaf.alloc.stripes IS 'into how many stripes the numbers are cut; 1 if they are not';
COMMENT ON COLUMN leaf.alloc.stripe IS 'the stripe, from 0, whose numbers are granted here: no two nodes may have the same one';
COMMENT ON COLUMN leaf.alloc.cache IS 'how many ids a session takes at once, to hand them out from its own memory';
COMMENT ON COLUMN leaf.alloc.stripe_group IS 'the group of the node of Citus for which the stripe was made; null if the database was not one of Citus';
COMMENT ON COLUMN leaf.alloc.stripe_width IS 'numbers in a block of a stripe; every block of them belongs to the next stripe';

-- Dumps contain the rows: a restored database continues where the dump was taken.
SELECT pg_catalog.pg_extension_config_dump('leaf.alloc', '');

/* Triggers: changes made with plain SQL take effect on the ids already in memory. */
CREATE FUNCTION leaf_alloc_check() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'leaf_alloc_check';
COMMENT ON FUNCTION leaf_alloc_check() IS 'rejects a lower max_id or another stripe, keeps update_time current, and records where the row comes from';
CREATE FUNCTION leaf_alloc_changed() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'leaf_alloc_changed';
COMMENT ON FUNCTION leaf_alloc_changed() IS 'makes a change of leaf.alloc take effect at commit';

REVOKE EXECUTE ON FUNCTION leaf_alloc_check(), leaf_alloc_changed() FROM PUBLIC;

CREATE TRIGGER leaf_check BEFORE INSERT OR UPDATE OR DELETE ON leaf.alloc
    FOR EACH ROW EXECUTE FUNCTION leaf_alloc_check();
CREATE TRIGGER leaf_changed AFTER INSERT OR UPDATE OR DELETE ON leaf.alloc
    FOR EACH ROW EXECUTE FUNCTION leaf_alloc_changed();
CREATE TRIGGER leaf_truncated AFTER TRUNCATE ON leaf.alloc
    FOR EACH STATEMENT EXECUTE FUNCTION leaf_alloc_changed();
-- Apply workers and restores run with session_replication_role = replica, in which
-- ordinary triggers do not fire. A restore with --disable-triggers makes these ordinary,
-- which leafctl doctor finds.
ALTER TABLE leaf.alloc ENABLE ALWAYS TRIGGER leaf_check;
ALTER TABLE leaf.alloc ENABLE ALWAYS TRIGGER leaf_changed;
ALTER TABLE leaf.alloc ENABLE ALWAYS TRIGGER leaf_truncated;

/*
 * The registry of worker ids. Ids with a worker id and a time below its ceiling
 * may have been issued: the next lease of the worker id starts there. A row is the
 * record of what was used, so it can be deleted only once its ceiling has passed.
 */
CREATE TABLE leaf.worker (
    worker_id       integer          NOT NULL,
    node            text             COLLATE pg_catalog."C" NOT NULL,
    nonce           uuid             NOT NULL,
    token           bigint           NOT NULL,
    history         text             COLLATE pg_catalog."C" NOT NULL,
    layout          text             NOT NULL,
    epoch           timestamptz      NOT NULL,
    ceiling         timestamptz      NOT NULL,
    leased_until    timestamptz      NOT NULL,
    clock_offset_ms double precision NOT NULL DEFAULT 0,
    registered_at   timestamptz      NOT NULL DEFAULT now(),
    renewed_at      timestamptz      NOT NULL DEFAULT now(),
    start_at        timestamptz,
    leased_by       name,
    upstream_nonce  uuid,
    upstream_token  bigint,
    upstream_ceiling timestamptz,
    upstream_registry uuid,
    upstream_history text,
    upstream_address text,
    upstream_setting text,
    CONSTRAINT worker_pkey PRIMARY KEY (worker_id),
    CONSTRAINT worker_worker_id_check CHECK (worker_id OPERATOR(pg_catalog.>=) 0)
);
COMMENT ON TABLE leaf.worker IS 'one row per worker id of snowflake ids that was ever leased';
COMMENT ON COLUMN leaf.worker.node IS 'the node that holds the worker id, or held it last';
COMMENT ON COLUMN leaf.worker.nonce IS 'made at the registration: the secret that proves, with the token, that a lease is the caller''s';
COMMENT ON COLUMN leaf.worker.token IS 'changes with each renewal, so that only one of two copies of a node can renew';
COMMENT ON COLUMN leaf.worker.history IS 'history of this database (system identifier, timeline, nonce, OID) of the last renewal';
COMMENT ON COLUMN leaf.worker.layout IS 'layout of the ids, the same in all rows';
COMMENT ON COLUMN leaf.worker.epoch IS 'epoch of the ids, the same in all rows';
COMMENT ON COLUMN leaf.worker.ceiling IS 'ids of earlier times may have been issued; the next lease starts here';
COMMENT ON COLUMN leaf.worker.start_at IS 'where the ids of the lease begin: a release does not lower the ceiling below it; null if that is not known';
COMMENT ON COLUMN leaf.worker.leased_by IS 'the role that registered the node; null for the server itself';
COMMENT ON COLUMN leaf.worker.upstream_nonce IS 'if the worker id is leased from a centre: the nonce of that lease';
COMMENT ON COLUMN leaf.worker.upstream_token IS 'the token of that lease';
COMMENT ON COLUMN leaf.worker.upstream_ceiling IS 'the ceiling of that lease: this server issues no ids of later times before the centre has raised it';
COMMENT ON COLUMN leaf.worker.upstream_registry IS 'which registry has granted that lease: another one has none of it';
COMMENT ON COLUMN leaf.worker.upstream_history IS 'the history of that registry''s database at the last renewal';
COMMENT ON COLUMN leaf.worker.upstream_address IS 'where the centre was reached: its hosts, ports and database';
COMMENT ON COLUMN leaf.worker.upstream_setting IS 'a digest of leaf.upstream as it was then: with another one, the lease is used only once it is known to be the same centre''s';
COMMENT ON COLUMN leaf.worker.leased_until IS 'until when no other node gets the worker id';
COMMENT ON COLUMN leaf.worker.clock_offset_ms IS 'how far the holder''s clock was ahead of the registry''s';

-- Dumps contain the rows: a restored database has another history, in which none of
-- these worker ids is its own.
SELECT pg_catalog.pg_extension_config_dump('leaf.worker', '');

/*
 * Which registry this is. A lease is of the registry that has granted it: a dump, whose rows
 * look the same after a restore, makes another one. A sequence is kept by promotion, copies of
 * the cluster and pg_upgrade, is in no dump of an extension, and is not replicated.
 */
CREATE SEQUENCE leaf.registry_incarnation;
SELECT pg_catalog.setval('leaf.registry_incarnation', greatest(1,
    pg_catalog.uuid_hash_extended(pg_catalog.gen_random_uuid(), 0) OPERATOR(pg_catalog.&) 9223372036854775807));
COMMENT ON SEQUENCE leaf.registry_incarnation IS 'a random number made with the registry of worker ids, which leases name: another one is another registry';

CREATE FUNCTION leaf_worker_check() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'leaf_worker_check';
COMMENT ON FUNCTION leaf_worker_check() IS 'rejects changes that would lose the record of ids that may be in use';
REVOKE EXECUTE ON FUNCTION leaf_worker_check() FROM PUBLIC;

CREATE TRIGGER leaf_check BEFORE INSERT OR UPDATE OR DELETE ON leaf.worker
    FOR EACH ROW EXECUTE FUNCTION leaf_worker_check();
CREATE TRIGGER leaf_truncated BEFORE TRUNCATE ON leaf.worker
    FOR EACH STATEMENT EXECUTE FUNCTION leaf_worker_check();
-- Registering and renewing read few rows, however many there are.
CREATE INDEX worker_history_leased_until_idx ON leaf.worker (history, leased_until);
CREATE INDEX worker_nonce_idx ON leaf.worker (nonce);
CREATE INDEX worker_leased_by_idx ON leaf.worker (leased_by, leased_until) WHERE leased_by IS NOT NULL;
CREATE INDEX worker_upstream_ceiling_idx ON leaf.worker (upstream_ceiling) WHERE upstream_ceiling IS NOT NULL;
CREATE INDEX worker_server_idx ON leaf.worker (node) WHERE node OPERATOR(pg_catalog.^@) 'server '::text;
ALTER TABLE leaf.worker ENABLE ALWAYS TRIGGER leaf_check;
ALTER TABLE leaf.worker ENABLE ALWAYS TRIGGER leaf_truncated;

/* Drawing ids. */
CREATE FUNCTION leaf_segment_next(tag text) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'leaf_segment_next';
COMMENT ON FUNCTION leaf_segment_next(text) IS 'the next id of a tag';

CREATE FUNCTION leaf_segment_batch(tag text, count integer) RETURNS SETOF bigint
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE ROWS 1000
    AS 'MODULE_PATHNAME', 'leaf_segment_batch';
COMMENT ON FUNCTION leaf_segment_batch(text, integer) IS 'any number of ascending ids of a tag; can be cancelled';

CREATE FUNCTION leaf_segment_last(tag text) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED
    AS 'MODULE_PATHNAME', 'leaf_segment_last';
COMMENT ON FUNCTION leaf_segment_last(text) IS 'the id of a tag that this session drew last with leaf_segment_next or leaf_segment_batch';

CREATE FUNCTION leaf_segment_reserve(tag text, count bigint, incarnation uuid DEFAULT NULL) RETURNS int8range
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'leaf_segment_reserve';
COMMENT ON FUNCTION leaf_segment_reserve(text, bigint, uuid)
    IS 'one block of count ids, durable before it is returned; with an incarnation, an error if the tag now has another one';

CREATE FUNCTION leaf_segment_return(tag text, block int8range) RETURNS boolean
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'leaf_segment_return';
COMMENT ON FUNCTION leaf_segment_return(text, int8range)
    IS 'takes back the unused end of a block that this session reserved, if nothing was granted after the block; true if it did; after an error, it may have taken it back';

CREATE FUNCTION leaf_segment_return(tags text[], first bigint[], last bigint[]) RETURNS SETOF boolean
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 1000
    AS 'MODULE_PATHNAME', 'leaf_segment_return_all';
COMMENT ON FUNCTION leaf_segment_return(text[], bigint[], bigint[])
    IS 'with arrays, it takes back the unused ends of several blocks at once, a row for each in their order; one that cannot be taken back is false, and no error';

CREATE FUNCTION leaf_segment_feed(tags text[], counts bigint[], exact boolean[] DEFAULT NULL)
    RETURNS TABLE (tag text, first bigint, last bigint, incarnation uuid, error_code text, message text, detail text, hint text)
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100
    AS 'MODULE_PATHNAME', 'leaf_segment_feed';
COMMENT ON FUNCTION leaf_segment_feed(text[], bigint[], boolean[])
    IS 'numbers for tags of another cluster that are fed from these tags, a row for each tag: as many as its count says, or, unless exact, as many as are left; or an error that concerns this tag alone';

CREATE FUNCTION leaf_tag_incarnation(tag text) RETURNS uuid
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'leaf_tag_incarnation';
COMMENT ON FUNCTION leaf_tag_incarnation(text)
    IS 'identity of a tag: if it was dropped and created again, buffers of its ids outside the server are no longer valid';

CREATE FUNCTION leaf_snowflake_next() RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'leaf_snowflake_next';
COMMENT ON FUNCTION leaf_snowflake_next() IS 'the next snowflake id, made of time, worker id and sequence';

CREATE FUNCTION leaf_snowflake_batch(count integer) RETURNS SETOF bigint
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE ROWS 1000
    AS 'MODULE_PATHNAME', 'leaf_snowflake_batch';
COMMENT ON FUNCTION leaf_snowflake_batch(integer) IS 'any number of ascending snowflake ids; can be cancelled';

/*
 * Reading snowflake ids. The functions that take layout and epoch depend on nothing
 * but their arguments.
 */
CREATE FUNCTION leaf_snowflake_decode(
        id bigint,
        OUT created_at timestamptz, OUT worker_id integer, OUT sequence integer) RETURNS record
    LANGUAGE c STABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'leaf_snowflake_decode';
COMMENT ON FUNCTION leaf_snowflake_decode(bigint) IS 'the fields of an id of this database';

CREATE FUNCTION leaf_snowflake_decode(
        id bigint, layout text, epoch timestamptz,
        OUT created_at timestamptz, OUT worker_id integer, OUT sequence integer) RETURNS record
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'leaf_snowflake_decode';
COMMENT ON FUNCTION leaf_snowflake_decode(bigint, text, timestamptz)
    IS 'the fields of an id with a given layout and epoch';

CREATE FUNCTION leaf_snowflake_floor(ts timestamptz) RETURNS bigint
    LANGUAGE c STABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'leaf_snowflake_floor';
COMMENT ON FUNCTION leaf_snowflake_floor(timestamptz)
    IS 'the smallest id of an instant in this database, for scans of a range of time';

CREATE FUNCTION leaf_snowflake_floor(ts timestamptz, layout text, epoch timestamptz) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'leaf_snowflake_floor';
COMMENT ON FUNCTION leaf_snowflake_floor(timestamptz, text, timestamptz)
    IS 'the smallest id of an instant with a given layout and epoch, for partition bounds';

CREATE FUNCTION leaf_snowflake_time(id bigint) RETURNS timestamptz
    LANGUAGE c STABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'leaf_snowflake_time';
COMMENT ON FUNCTION leaf_snowflake_time(bigint) IS 'when the tick of an id of this database began';

CREATE FUNCTION leaf_snowflake_time(id bigint, layout text, epoch timestamptz) RETURNS timestamptz
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'leaf_snowflake_time';
COMMENT ON FUNCTION leaf_snowflake_time(bigint, text, timestamptz)
    IS 'when the tick of an id with a given layout and epoch began';

/*
 * The time encoder and decoder of pg_partman, for a text column with snowflake ids of layout
 * leaf and its own epoch. pg_partman calls them by their qualified names, so each has a name
 * without overloads.
 */
CREATE FUNCTION leaf_partman_encoder(ts timestamptz) RETURNS text
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'leaf_partman_encoder';
COMMENT ON FUNCTION leaf_partman_encoder(timestamptz)
    IS 'the text of the smallest id of an instant with layout leaf: a time encoder for pg_partman';

CREATE FUNCTION leaf_partman_decoder(id text) RETURNS timestamptz
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'leaf_partman_decoder';
COMMENT ON FUNCTION leaf_partman_decoder(text)
    IS 'when the tick of the id in a text began, with layout leaf: a time decoder for pg_partman';

/* Ids as texts. */
CREATE FUNCTION leaf_id_text(id bigint) RETURNS text
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'leaf_id_text';
COMMENT ON FUNCTION leaf_id_text(bigint)
    IS 'an id in 13 symbols of Crockford''s base 32 and a check symbol; sorts as the ids do';

CREATE FUNCTION leaf_id_parse(text) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'leaf_id_parse';
COMMENT ON FUNCTION leaf_id_parse(text)
    IS 'the id that leaf_id_text has written as a text, in upper or lower case, with or without hyphens';

/*
 * Worker ids for nodes that issue snowflake ids themselves. The functions that return
 * records must be called in FROM: in a select list, (function).* would call them once
 * for each column.
 */
CREATE FUNCTION leaf_worker_register(
        node text, worker_id integer DEFAULT NULL, clock timestamptz DEFAULT NULL,
        ahead interval DEFAULT NULL, nonce uuid DEFAULT NULL,
        OUT worker_id integer, OUT nonce uuid, OUT token bigint, OUT start_at timestamptz,
        OUT ceiling timestamptz, OUT layout text, OUT epoch timestamptz,
        OUT registry uuid, OUT history text) RETURNS record
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'leaf_worker_register';
COMMENT ON FUNCTION leaf_worker_register(text, integer, timestamptz, interval, uuid)
    IS 'leases a worker id to a node, which may issue ids from start_at on, below ceiling; committed before it returns, whatever becomes of the transaction; repeated with the same nonce, returns the same lease';

CREATE FUNCTION leaf_worker_renew(
        worker_id integer, nonce uuid, token bigint, clock timestamptz DEFAULT NULL,
        ahead interval DEFAULT NULL, next_token bigint DEFAULT NULL,
        OUT token bigint, OUT ceiling timestamptz, OUT registry uuid, OUT history text) RETURNS record
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'leaf_worker_renew';
COMMENT ON FUNCTION leaf_worker_renew(integer, uuid, bigint, timestamptz, interval, bigint)
    IS 'raises the ceiling of a lease; the token returned, which is next_token if that is given, is for the next renewal; repeated with the same next_token, returns the same';

CREATE FUNCTION leaf_worker_release(
        worker_id integer, nonce uuid, token bigint, used_until timestamptz DEFAULT NULL) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'leaf_worker_release';
COMMENT ON FUNCTION leaf_worker_release(integer, uuid, bigint, timestamptz)
    IS 'ends a lease: the worker id can then be leased to another node';

CREATE FUNCTION leaf_worker_take_over(worker_id integer DEFAULT NULL) RETURNS integer
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'leaf_worker_take_over';
COMMENT ON FUNCTION leaf_worker_take_over(integer)
    IS 'vouches that the servers of earlier histories issue no ids any more, or that the holder of this worker id does not: makes their worker ids available above their ceilings, and returns how many';
REVOKE EXECUTE ON FUNCTION leaf_worker_take_over(integer) FROM PUBLIC;

REVOKE EXECUTE ON FUNCTION leaf_worker_register(text, integer, timestamptz, interval, uuid),
    leaf_worker_renew(integer, uuid, bigint, timestamptz, interval, bigint),
    leaf_worker_release(integer, uuid, bigint, timestamptz) FROM PUBLIC;

/* Managing tags. */
CREATE FUNCTION leaf_tag_create(
        tag text, step integer DEFAULT 1000, start bigint DEFAULT 1,
        max_value bigint DEFAULT 9223372036854775807, description text DEFAULT NULL,
        if_not_exists boolean DEFAULT false, max_step integer DEFAULT NULL,
        stripes integer DEFAULT NULL, stripe integer DEFAULT NULL,
        stripe_width bigint DEFAULT NULL, owner name DEFAULT NULL, cache integer DEFAULT 1,
        upstream_tag text DEFAULT NULL) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'leaf_tag_create';
COMMENT ON FUNCTION leaf_tag_create(text, integer, bigint, bigint, text, boolean, integer, integer, integer, bigint, name, integer, text)
    IS 'creates a tag owned by the current role, or by one of which it is a member; with if_not_exists, a tag that exists is left as it is; with stripes and stripe, only numbers of that stripe are granted; with cache, a session takes so many ids at once; with upstream_tag, it is fed by that tag of the centre';
-- As with CREATE on a schema, only roles that were granted this can create tags.
REVOKE EXECUTE ON FUNCTION leaf_tag_create(text, integer, bigint, bigint, text, boolean, integer, integer, integer, bigint, name, integer, text) FROM PUBLIC;

CREATE FUNCTION leaf_tag_alter(
        tag text, step integer DEFAULT NULL, advance_to bigint DEFAULT NULL,
        max_value bigint DEFAULT NULL, description text DEFAULT NULL,
        max_step integer DEFAULT NULL, cache integer DEFAULT NULL) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'leaf_tag_alter';
COMMENT ON FUNCTION leaf_tag_alter(text, integer, bigint, bigint, text, integer, integer)
    IS 'changes the given properties of a tag; never moves it backwards; max_step 0 stands for leaf.max_step';

CREATE FUNCTION leaf_tag_attach(tag text, upstream_tag text DEFAULT NULL) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'leaf_tag_attach';
COMMENT ON FUNCTION leaf_tag_attach(text, text)
    IS 'makes a tag fed: its ids come from a tag of the centre, by default from the one with the same name';
-- It uses what leaf.upstream allows, and cannot be undone.
REVOKE EXECUTE ON FUNCTION leaf_tag_attach(text, text) FROM PUBLIC;

CREATE FUNCTION leaf_tag_vouch(tag text DEFAULT NULL) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'leaf_tag_vouch';
COMMENT ON FUNCTION leaf_tag_vouch(text)
    IS 'says that a tag, or every tag, lacks nothing that it has fed to tags of other clusters: it feeds again after a failover or a restore';

CREATE FUNCTION leaf_tag_drop(tag text, force boolean DEFAULT false, if_exists boolean DEFAULT false) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'leaf_tag_drop';
COMMENT ON FUNCTION leaf_tag_drop(text, boolean, boolean)
    IS 'drops a tag; without force, an error if the default of a column draws from it';

CREATE FUNCTION leaf_tag_grant(tag text, role name) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'leaf_tag_grant';
COMMENT ON FUNCTION leaf_tag_grant(text, name) IS 'allows a role, or PUBLIC, to draw ids of a tag';

CREATE FUNCTION leaf_tag_revoke(tag text, role name) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'leaf_tag_revoke';
COMMENT ON FUNCTION leaf_tag_revoke(text, name) IS 'revokes what leaf_tag_grant has granted';

/*
 * Columns that draw from leaf: taking them over from a sequence, giving them back, and moving tags past
 * their values. All of this runs as its caller, who has the privileges of the table's owner. It reads no
 * rows of users' tables and computes no position: it asks the four functions that are in C.
 */
CREATE FUNCTION leaf.highest("table" regclass, "column" name, up_to bigint DEFAULT 9223372036854775807) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    AS 'MODULE_PATHNAME', 'leaf_highest';
COMMENT ON FUNCTION leaf.highest(regclass, name, bigint)
    IS 'the largest number in a column of a table and those below it, as the table''s owner sees them now';

CREATE FUNCTION leaf.privilege(tag text, role oid) RETURNS text
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'leaf_privilege';
COMMENT ON FUNCTION leaf.privilege(text, oid) IS 'what a role may do with a tag: own, draw or none; null if there is no such tag';

CREATE FUNCTION leaf.frontier(tag text) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'leaf_frontier';
COMMENT ON FUNCTION leaf.frontier(text)
    IS 'the first number of a tag that nobody has been given; what is below is not taken back';

CREATE FUNCTION leaf.advance(tag text, "to" bigint) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'leaf_advance';
COMMENT ON FUNCTION leaf.advance(text, bigint)
    IS 'moves a tag past ids that are in use here, as leaf_tag_alter does, but says nothing of what was fed';

CREATE FUNCTION leaf.retire(tag text, drained boolean) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'leaf_retire';
COMMENT ON FUNCTION leaf.retire(text, boolean) IS 'drops a tag, and returns the number from which on nothing of it was handed out; without a tag, the first snowflake id that no node has issued';

CREATE FUNCTION leaf.fail(code text, message text, hint text, detail text DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF detail IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, HINT = hint;
    END IF;
    RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, HINT = hint, DETAIL = detail;
END
$$;
COMMENT ON FUNCTION leaf.fail(text, text, text, text) IS 'raises an error';

CREATE FUNCTION leaf.require_transaction() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('transaction_read_only')::boolean THEN
        -- When: `leaf_column_adopt`, `leaf_column_release`, `leaf_tag_align`
        PERFORM leaf.fail('25006', 'columns cannot change hands in a read-only transaction',
            'Call the function on the primary, in a transaction that may write.');
    ELSIF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        -- When: `leaf_column_adopt`, `leaf_column_release`, `leaf_tag_align`
        PERFORM leaf.fail('25001', format('columns cannot change hands at isolation level %s', current_setting('transaction_isolation')),
            'Call the function in a transaction at READ COMMITTED, which sees what others have committed meanwhile.');
    END IF;
END
$$;
COMMENT ON FUNCTION leaf.require_transaction() IS 'raises an error in a transaction that may not write or has one snapshot';

-- The schema can get another name.
CREATE FUNCTION leaf.home() RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT quote_ident(n.nspname) FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace WHERE e.extname = 'leaf'
$$;
COMMENT ON FUNCTION leaf.home() IS 'the schema of the functions whose names begin with leaf_';

CREATE FUNCTION leaf.tree("table" regclass) RETURNS SETOF oid
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE tree (oid) AS (
        SELECT $1::oid UNION SELECT i.inhrelid FROM pg_inherits AS i JOIN tree AS t ON t.oid = i.inhparent)
    SELECT oid FROM tree
$$;
COMMENT ON FUNCTION leaf.tree(regclass) IS 'a table and all that are below it';

CREATE FUNCTION leaf.inserters("table" regclass) RETURNS SETOF text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    -- Anybody can create views and rules: they count if their owner may insert, as whom they do.
    WITH RECURSIVE tree (oid) AS (
        SELECT $1::oid UNION
        SELECT x.oid FROM tree AS t CROSS JOIN LATERAL (
            SELECT i.inhrelid FROM pg_inherits AS i WHERE i.inhparent = t.oid UNION
            SELECT w.ev_class FROM pg_depend AS p JOIN pg_rewrite AS w ON w.oid = p.objid
              JOIN pg_class AS v ON v.oid = w.ev_class AND (w.ev_type = '3' OR v.relkind = 'v')
               AND has_any_column_privilege(v.relowner, t.oid, 'INSERT')
             WHERE p.classid = 'pg_rewrite'::regclass AND p.refclassid = 'pg_class'::regclass AND p.refobjid = t.oid) AS x (oid)),
    acls AS (
        SELECT coalesce(c.relacl, acldefault('r', c.relowner)) AS acl FROM tree JOIN pg_class AS c USING (oid) UNION ALL
        SELECT f.attacl FROM tree JOIN pg_attribute AS f ON f.attrelid = tree.oid WHERE f.attacl IS NOT NULL)
    SELECT coalesce(r.rolname, 'public') FROM acls CROSS JOIN LATERAL aclexplode(acls.acl) AS a
      LEFT JOIN pg_roles AS r ON r.oid = a.grantee
     WHERE a.privilege_type = 'INSERT' AND (a.grantee = 0 OR r.oid IS NOT NULL)
     UNION
    SELECT r.rolname FROM pg_roles AS r
     WHERE r.rolname = 'pg_write_all_data' AND EXISTS (SELECT FROM pg_auth_members AS m WHERE m.roleid = r.oid)
$$;
COMMENT ON FUNCTION leaf.inserters(regclass) IS 'who may insert into a table, by whatever way; public for all roles';

CREATE FUNCTION leaf.defaults(
        OUT "table" regclass, OUT "column" name, OUT owner oid, OUT used_in text, OUT function name, OUT tag text,
        OUT is_plain boolean) RETURNS SETOF record
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
    SET quote_all_identifiers = off SET standard_conforming_strings = on AS $$
DECLARE
    literal  text := $r$(?:tag => )?\(?(E?'(?:[^']|'')*')::(?:text|(?:character varying|name)\)::text)\)$r$;
    called   text;
    tree     pg_node_tree;
    shown    text;
    argument text;
BEGIN
    FOR "table", "column", owner, used_in, function, called, tree IN
        WITH functions AS (
            SELECT p.oid, p.proname, regexp_replace(format('%I.%I(', n.nspname, p.proname), '(\W)', '\\\1', 'g') AS called
              FROM pg_extension AS e JOIN pg_depend AS d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
              JOIN pg_proc AS p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid JOIN pg_namespace AS n ON n.oid = p.pronamespace
             WHERE e.extname = 'leaf' AND p.proname IN ('leaf_segment_next', 'leaf_snowflake_next')),
        uses AS (
            SELECT f.*, p.classid, p.objid FROM functions AS f
              JOIN pg_depend AS p ON p.refclassid = 'pg_proc'::regclass AND p.refobjid = f.oid),
        found AS (
            SELECT u.*, a.attrelid, a.attname, d.adbin AS tree
              FROM uses AS u JOIN pg_attrdef AS d ON u.classid = 'pg_attrdef'::regclass AND d.oid = u.objid
              JOIN pg_attribute AS a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
             UNION ALL
            SELECT u.*, a.attrelid, a.attname, t.typdefaultbin
              FROM uses AS u JOIN pg_type AS t ON u.classid = 'pg_type'::regclass AND t.oid = u.objid
              JOIN pg_attribute AS a ON a.atttypid = t.oid AND NOT a.attisdropped AND NOT a.atthasdef)
        SELECT c.oid::regclass, f.attname, c.relowner, format('%s.%I', c.oid::regclass, f.attname), f.proname, f.called, f.tree
          FROM found AS f JOIN pg_class AS c ON c.oid = f.attrelid AND c.relkind IN ('r', 'p', 'f') LOOP
        tag := NULL;
        BEGIN
            shown := pg_get_expr(tree, 0);
        EXCEPTION WHEN statement_too_complex THEN
            shown := '';
        END;
        is_plain := shown ~ ('^' || called || CASE function WHEN 'leaf_segment_next' THEN literal ELSE '\)' END || '$');
        FOR argument IN SELECT m[1] FROM regexp_matches(shown, called || '(?:' || literal || ')?', 'g') AS m LOOP
            tag := left(replace(substr(argument, strpos(argument, '''') + 1), '''''', ''''), -1);
            tag := CASE WHEN argument ^@ 'E' THEN replace(tag, '\\', '\') ELSE tag END;
            RETURN NEXT;
        END LOOP;
    END LOOP;
END
$$;
COMMENT ON FUNCTION leaf.defaults()
    IS 'the columns whose default, or that of their domain, calls a function of leaf; the tag is null if it is no constant';

CREATE FUNCTION leaf.sequences("table" regclass, "column" name,
        OUT sequence regclass, OUT name text, OUT kind text, OUT type regtype, OUT options text, OUT last bigint, OUT step bigint,
        OUT is_bounded boolean, OUT was text, OUT refusal text) RETURNS SETOF record
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
    WITH columns AS (
        SELECT f.attrelid, f.attnum, f.attidentity, d.oid AS expression
          FROM leaf.tree($1) AS t JOIN pg_attribute AS f ON f.attrelid = t AND f.attname = $2 AND NOT f.attisdropped
          LEFT JOIN pg_attrdef AS d ON d.adrelid = f.attrelid AND d.adnum = f.attnum),
    found AS (
        SELECT p.objid, c.attrelid, CASE c.attidentity WHEN 'a' THEN 'ALWAYS' WHEN 'd' THEN 'BY DEFAULT' ELSE 'owned' END AS kind
          FROM columns AS c JOIN pg_depend AS p ON p.refclassid = 'pg_class'::regclass AND p.refobjid = c.attrelid
           AND p.refobjsubid = c.attnum AND p.classid = 'pg_class'::regclass AND p.deptype IN ('a', 'i')
         UNION ALL
        SELECT p.refobjid, c.attrelid, 'used' FROM columns AS c JOIN pg_depend AS p
            ON p.classid = 'pg_attrdef'::regclass AND p.objid = c.expression AND p.refclassid = 'pg_class'::regclass
          JOIN pg_sequence AS s ON s.seqrelid = p.refobjid),
    -- Anybody can set a default that names a sequence: it counts if the table's owner may draw.
    others AS (
        SELECT s.objid, string_agg(DISTINCT format('%s.%I', u.attrelid::regclass, u.attname), ', ') AS names
          FROM found AS s JOIN pg_depend AS p
            ON p.refclassid = 'pg_class'::regclass AND p.refobjid = s.objid AND p.classid = 'pg_attrdef'::regclass
            OR p.classid = 'pg_class'::regclass AND p.objid = s.objid AND p.refclassid = 'pg_class'::regclass AND p.deptype = 'i'
          LEFT JOIN pg_attrdef AS d ON p.classid = 'pg_attrdef'::regclass AND d.oid = p.objid
          JOIN pg_attribute AS u ON u.attrelid = coalesce(d.adrelid, p.refobjid) AND u.attnum = coalesce(d.adnum, p.refobjsubid)
          JOIN pg_class AS c ON c.oid = u.attrelid AND has_sequence_privilege(c.relowner, s.objid, 'USAGE, UPDATE')
         WHERE NOT EXISTS (SELECT FROM columns AS o WHERE o.attrelid = u.attrelid AND o.attnum = u.attnum) GROUP BY s.objid)
    SELECT r.oid::regclass, format('%I.%I', n.nspname, r.relname), f.kind, s.seqtypid::regtype,
           format('INCREMENT BY %s MINVALUE %s %s CACHE %s', s.seqincrement, s.seqmin,
                  CASE WHEN b.is_bounded THEN 'MAXVALUE ' || s.seqmax ELSE 'NO MAXVALUE' END, s.seqcache),
           s.seqmax, s.seqincrement, b.is_bounded,
           substring(obj_description(r.oid, 'pg_class') FROM '^fenced by leaf_column_adopt, was GENERATED (ALWAYS|BY DEFAULT) AS IDENTITY$') AS was,
           CASE WHEN f.kind IN ('ALWAYS', 'BY DEFAULT') AND f.attrelid <> $1 THEN format('is the identity of %s.%I', f.attrelid::regclass, $2)
                WHEN u.names IS NOT NULL THEN format('is used by %s', u.names)
                WHEN f.kind = 'used' AND f.attrelid = $1 THEN 'is not owned by the column'
                WHEN s.seqincrement < 0 THEN 'counts downwards'
                WHEN s.seqcycle THEN 'begins again at its end' END
      FROM (SELECT DISTINCT ON (objid) * FROM found ORDER BY objid, kind) AS f
      JOIN pg_sequence AS s ON s.seqrelid = f.objid JOIN pg_class AS r ON r.oid = f.objid
      JOIN pg_namespace AS n ON n.oid = r.relnamespace LEFT JOIN others AS u ON u.objid = f.objid
     CROSS JOIN LATERAL (SELECT s.seqmax <> CASE s.seqtypid WHEN 'smallint'::regtype THEN 32767 WHEN 'integer'::regtype THEN 2147483647
                                                            ELSE 9223372036854775807 END AS is_bounded) AS b
     ORDER BY f.attrelid <> $1, was NULLS LAST, f.objid
$$;
COMMENT ON FUNCTION leaf.sequences(regclass, name) IS 'the sequences from which a column takes its values, and why leaf cannot take the place of one';

CREATE FUNCTION leaf.column_of("table" regclass, "column" name, kind text, replaces regprocedure DEFAULT NULL,
        OUT relation text, OUT attribute text, OUT full_name text, OUT plain_name text, OUT schema text, OUT owner oid,
        OUT largest bigint, OUT is_required boolean) RETURNS record
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
    wrong record;
BEGIN
    PERFORM leaf.require_transaction();
    IF num_nulls($1, $2) > 0 THEN
        -- When: `leaf_column_adopt`, `leaf_column_release`
        PERFORM leaf.fail('22023', 'table and column must not be null', 'Give a table and a column, such as ''orders'', ''id''.');
    END IF;
    SELECT format('%I.%I', n.nspname, r.relname), quote_ident(f.attname), format('%I.%I.%I', n.nspname, r.relname, f.attname),
           CASE WHEN n.nspname <> 'public' THEN n.nspname || '.' ELSE '' END || r.relname || '.' || f.attname,
           quote_ident(n.nspname), r.relowner, f.attnotnull,
           CASE f.atttypid WHEN 'smallint'::regtype THEN 32767 WHEN 'integer'::regtype THEN 2147483647
                           WHEN 'bigint'::regtype THEN 9223372036854775807 END
      INTO relation, attribute, full_name, plain_name, schema, owner, is_required, largest
      FROM pg_class AS r JOIN pg_namespace AS n ON n.oid = r.relnamespace
      JOIN pg_attribute AS f ON f.attrelid = r.oid AND f.attname = $2 AND f.attnum > 0 AND NOT f.attisdropped
     WHERE r.oid = $1;
    IF NOT FOUND THEN
        -- When: `leaf_column_adopt`, `leaf_column_release`
        PERFORM leaf.fail('42703', format('column "%s" of table %s does not exist', $2, $1),
            'Check the spelling: unlike in SQL commands, upper case is not folded to lower case here.');
    END IF;
    SELECT w.* INTO wrong
      FROM pg_class AS r JOIN pg_attribute AS f ON f.attrelid = r.oid AND f.attname = $2
      LEFT JOIN pg_attrdef AS d ON d.adrelid = r.oid AND d.adnum = f.attnum AND kind IS NOT NULL
      LEFT JOIN LATERAL (
          SELECT q.name, q.refusal FROM leaf.sequences($1, $2) AS q WHERE $3 IS NOT NULL AND q.refusal IS NOT NULL LIMIT 1) AS s ON true
     CROSS JOIN LATERAL (VALUES
        -- When: `leaf_column_adopt`, `leaf_column_release`
        (r.relkind NOT IN ('r', 'p'), '42809', '%1$s is neither an ordinary nor a partitioned table',
         'Specify the table in which the rows are stored.', NULL),
        -- When: `leaf_column_adopt`, `leaf_column_release`
        (NOT pg_has_role(r.relowner, 'USAGE'), '42501', 'must be owner of table %1$s',
         'Use the role of the owner, a member of it, or a superuser.', NULL),
        -- When: `leaf_column_adopt` and `leaf_column_release`
        (schema = 'leaf', '42809', 'table %1$s belongs to leaf', 'Specify a table of your own.', NULL),
        -- When: `leaf_column_adopt`
        (r.relpersistence = 't', '42809', '%1$s is a temporary table, which a tag would outlive',
         'Create the tag with leaf_tag_create, and set the default with ALTER TABLE.', NULL),
        -- When: `leaf_column_adopt`, `leaf_column_release`
        (r.relispartition OR f.attinhcount > 0, '42809', 'table %1$s is a partition, or has the column from a parent table',
         'Specify the partitioned table, or the parent.', NULL),
        -- When: `leaf_column_adopt`, `leaf_column_release`
        (f.attgenerated <> '', '42809', 'table %1$s generates the column from others', 'Choose another column.', NULL),
        -- When: `leaf_column_adopt`: its type is not `bigint`, nor, for segment ids, `integer` or `smallint`
        (kind = 'segment' AND largest IS NULL OR kind = 'snowflake' AND largest IS DISTINCT FROM 9223372036854775807, '42804',
         'column %2$s has no room for the ids', 'Change its type with ALTER TABLE ... ALTER COLUMN ... TYPE bigint first.', NULL),
        (EXISTS (SELECT FROM leaf.defaults() AS o
                  -- When: `leaf_column_adopt`
                  WHERE kind IS NOT NULL AND o."column" = $2 AND o."table" IN (SELECT leaf.tree($1))), '55000',
         'the default of column %2$s already draws from leaf',
         'Nothing is left to do. To go back to a sequence, use leaf_column_release.', NULL),
        (pg_get_expr(d.adbin, 0) !~ '^nextval\(''(?:[^'']|'''')*''::regclass\)$'
         AND NOT EXISTS (SELECT FROM pg_depend AS p WHERE p.classid = 'pg_attrdef'::regclass AND p.objid = d.oid
                            AND p.refclassid = 'pg_proc'::regclass AND p.refobjid = $4),
         -- When: `leaf_column_adopt`
         '55000', 'column %2$s has a default that is not nextval of a sequence',
         'Name its function with replaces => ..., or drop the default first, once nothing depends on its values.',
         format('The default is %s.', pg_get_expr(d.adbin, 0))),
        -- When: `leaf_column_adopt`, if the sequence counts downwards, begins again at its end (CYCLE), is used by
        -- other columns, is the identity of a table below, or is not owned by the column; DETAIL says which
        (s.refusal IS NOT NULL, '55000', 'leaf cannot take the place of the sequence of column %2$s',
         'Give the column a sequence that it alone uses and owns (ALTER SEQUENCE ... OWNED BY), and that counts upwards without CYCLE.',
         format('Sequence %s %s.', s.name, s.refusal))) AS w (is_so, code, message, hint, detail)
     WHERE r.oid = $1 AND w.is_so LIMIT 1;
    IF FOUND THEN
        PERFORM leaf.fail(wrong.code, format(wrong.message, relation, full_name), wrong.hint, wrong.detail);
    END IF;
END
$$;
COMMENT ON FUNCTION leaf.column_of(regclass, name, text, regprocedure)
    IS 'a column that the caller may give another default, or, with a kind, adopt; an error if it is none';

CREATE FUNCTION leaf.lock(relation regclass, owner oid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    named text := relation;
    cache bigint := (SELECT s.seqcache FROM pg_sequence AS s WHERE s.seqrelid = relation);
BEGIN
    IF cache IS NULL THEN
        EXECUTE format('LOCK TABLE ONLY %s IN ACCESS EXCLUSIVE MODE', named);
    ELSIF pg_has_role(owner, (SELECT c.relowner FROM pg_class AS c WHERE c.oid = relation), 'USAGE') THEN
        -- It changes nothing, and conflicts with nextval().
        EXECUTE format('ALTER SEQUENCE %s CACHE %s', named, cache);
    ELSE
        -- When: `leaf_column_adopt`, `leaf_column_release`
        PERFORM leaf.fail('42501', format('sequence %s does not belong to role "%s", who owns the table', named, pg_get_userbyid(owner)),
            'Use ALTER SEQUENCE ... OWNER TO first, or drop the default that uses the sequence.');
    END IF;
    IF relation::text <> named OR NOT EXISTS (SELECT FROM pg_class AS c WHERE c.oid = relation) THEN
        -- When: `leaf_column_adopt`, `leaf_column_release`, if the table or a sequence of the column was dropped, or
        -- got another name, before it could be locked
        PERFORM leaf.fail('40001', format('%s was changed meanwhile', named), 'Repeat the call.');
    END IF;
END
$$;
COMMENT ON FUNCTION leaf.lock(regclass, oid) IS 'locks a table of a role, or a sequence, until the transaction ends';

/*
 * Locks a table, those below it and the sequences of a column, while sessions insert, and then adopts the
 * column, or without a kind releases it. A session may have locked a sequence and want the table, or the
 * other way round. So a try waits for one relation only, while it holds no other, and for at most two
 * seconds, in which others queue behind it; if any other is not free, all are released, and that is the
 * one to wait for. After a try that waited, the next ones wait for nothing for ten times as long.
 */
CREATE FUNCTION leaf.hand_over("table" regclass, "column" name, tag text, kind text, drained boolean DEFAULT false,
        replaces regprocedure DEFAULT NULL) RETURNS regclass
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
DECLARE
    own_timeout text     := current_setting('lock_timeout');
    own_wait    text     := current_setting('leaf.wait_timeout');
    patience    interval := nullif((SELECT setting FROM pg_settings WHERE name = 'lock_timeout')::integer, 0) * interval '1 ms';
    -- Whoever waits for what the transaction has locked before could become the victim of a deadlock.
    has_locks   boolean  := EXISTS (SELECT FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
                                     WHERE l.pid = pg_backend_pid() AND l.granted AND c.oid >= 16384
                                       AND c.relnamespace <> 'leaf'::regnamespace);
    owner       oid      := (SELECT c.relowner FROM pg_class AS c WHERE c.oid = $1);
    began       timestamptz := clock_timestamp();
    may_wait    timestamptz := began;
    tried       timestamptz;
    first       regclass := $1;
    missing     regclass;
    locked      oid[];
    result      regclass;
BEGIN
    LOOP
        tried := clock_timestamp();
        BEGIN
            PERFORM set_config('leaf.wait_timeout', '1ms', true),
                    set_config('lock_timeout', CASE WHEN has_locks OR tried < may_wait THEN '1'
                        ELSE greatest(1, extract(epoch FROM least('2 s', began + patience - tried)) * 1000)::integer::text END, true);
            missing := first;
            LOOP
                PERFORM leaf.lock(missing, owner), set_config('lock_timeout', '1ms', true);
                locked := CASE WHEN missing = first THEN '{}' ELSE locked END || missing::oid;
                SELECT l.oid INTO missing FROM (
                    SELECT c.oid, 1 FROM leaf.tree($1) AS t JOIN pg_class AS c ON c.oid = t AND c.relkind <> 'f' UNION ALL
                    SELECT s.sequence, 2 FROM leaf.sequences($1, $2) AS s) AS l (oid, rank)
                 WHERE l.oid <> ALL (locked) ORDER BY l.rank LIMIT 1;
                EXIT WHEN NOT FOUND;
            END LOOP;
            missing := 'leaf.alloc';
            IF kind IS NULL THEN
                result := leaf.give_back($1, $2, tag, drained);
            ELSE
                PERFORM leaf.take_over($1, $2, tag, kind, replaces);
            END IF;
            PERFORM set_config('lock_timeout', own_timeout, true), set_config('leaf.wait_timeout', own_wait, true);
            RETURN result;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
        END;
        IF has_locks AND EXISTS (
                SELECT FROM pg_locks AS w JOIN pg_locks AS h ON h.pid = w.pid
                 WHERE NOT w.granted AND pg_backend_pid() = ANY (pg_blocking_pids(w.pid)) AND h.granted AND h.relation = missing
                   AND h.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())) THEN
            -- When: `leaf_column_adopt`, `leaf_column_release`, if the transaction has locked another table before
            PERFORM leaf.fail('40P01', format('table %s is locked by a session that waits for this transaction', missing),
                'Make the call at the beginning of a transaction that has locked no other table.');
        ELSIF clock_timestamp() >= began + patience THEN
            -- When: `leaf_column_adopt`, `leaf_column_release`; it is the table, one below it, its sequence, or a
            -- table of leaf
            PERFORM leaf.fail('55P03', format('%s %s could not be locked within lock_timeout',
                    CASE WHEN missing IN (SELECT seqrelid FROM pg_sequence) THEN 'sequence' ELSE 'table' END, missing),
                'Wait until long transactions that use it have ended, or raise lock_timeout.');
        END IF;
        IF tried >= may_wait THEN
            may_wait := clock_timestamp() + 10 * (clock_timestamp() - tried);
        END IF;
        first := CASE missing WHEN 'leaf.alloc'::regclass THEN $1 ELSE missing END;
        PERFORM pg_sleep(0.02);
    END LOOP;
END
$$;
COMMENT ON FUNCTION leaf.hand_over(regclass, name, text, text, boolean, regprocedure) IS 'adopts or releases a column as soon as its table can be locked';

CREATE FUNCTION leaf.take_over("table" regclass, "column" name, tag text, kind text, replaces regprocedure) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    home  text    := leaf.home();
    c     record  := leaf.column_of($1, $2, kind, replaces);
    s     record;
    role  text;
    start numeric := leaf.highest($1, $2)::numeric + 1;
    floor bigint;
BEGIN
    FOR s IN SELECT * FROM leaf.sequences($1, $2) LOOP
        -- The last value includes what other sessions have cached; nextval() asks a sequence that was never called.
        start := greatest(start, coalesce(pg_sequence_last_value(s.sequence)::numeric + s.step, nextval(s.sequence)));
        IF s.kind IN ('ALWAYS', 'BY DEFAULT') THEN
            EXECUTE format('ALTER TABLE %s ALTER COLUMN %s DROP IDENTITY', c.relation, c.attribute);
            CONTINUE WHEN NOT has_schema_privilege(c.owner, (SELECT r.relnamespace FROM pg_class AS r WHERE r.oid = $1), 'CREATE');
            EXECUTE format('CREATE SEQUENCE %1$s AS %2$s %3$s; ALTER SEQUENCE %1$s OWNER TO %4$I; ALTER SEQUENCE %1$s OWNED BY %5$s;
                            COMMENT ON SEQUENCE %1$s IS ''fenced by leaf_column_adopt, was GENERATED %6$s AS IDENTITY''',
                s.name, s.type, s.options, pg_get_userbyid(c.owner), c.full_name, s.kind);
        END IF;
        -- TRUNCATE ... RESTART IDENTITY gives it back its last value only.
        EXECUTE format('ALTER SEQUENCE %1$s START WITH %2$s RESTART WITH %2$s; SELECT setval(%3$L, %2$s)', s.name, s.last, s.name);
    END LOOP;
    IF kind = 'snowflake' THEN
        FOR try IN 1 .. 2 LOOP
            EXECUTE format('SELECT %s.leaf_snowflake_floor(clock_timestamp())', home) INTO floor;
            EXIT WHEN start <= floor;
            -- The function that is replaced may have made the last one in this millisecond.
            PERFORM pg_sleep(0.1);
        END LOOP;
        IF start > floor THEN
            -- When: `leaf_column_adopt` with `kind => 'snowflake'`
            PERFORM leaf.fail('55000', format('column %s has values above the current snowflake ids', c.full_name),
                'Use kind => ''segment'', or a layout whose ids are larger.',
                format('The largest value is %s; snowflake ids now begin at %s.', start - 1, floor));
        END IF;
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %s SET DEFAULT %s.leaf_snowflake_next()', c.relation, c.attribute, home);
        RETURN;
    END IF;
    IF start > least(c.largest, 9223372036854775806) THEN
        -- When: `leaf_column_adopt`
        PERFORM leaf.fail('2200H', format('no number is left for column %s: %s is the last one', c.full_name, c.largest),
            'Change a column of a smaller type to bigint first, or remove the values near the end of its type.');
    END IF;
    -- A tag whose step is larger than what is left is not moved.
    EXECUTE format('SELECT %1$s.leaf_tag_alter($1, advance_to => $2), %1$s.leaf_tag_alter($1, step => 1000)', home)
      USING tag, coalesce(start, 1)::bigint;
    FOR role IN SELECT i FROM leaf.inserters($1) AS i WHERE i <> pg_get_userbyid(c.owner) LOOP
        EXECUTE format('SELECT %s.leaf_tag_grant($1, $2)', home) USING tag, role::name;
    END LOOP;
    EXECUTE format('ALTER TABLE %s ALTER COLUMN %s SET DEFAULT %s.leaf_segment_next(%L::text)', c.relation, c.attribute, home, tag);
END
$$;
COMMENT ON FUNCTION leaf.take_over(regclass, name, text, text, regprocedure) IS 'adopts a column whose table and sequences are locked';

CREATE FUNCTION leaf.give_back("table" regclass, "column" name, tag text, drained boolean) RETURNS regclass
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    c      record := leaf.column_of($1, $2, NULL);
    s      record;
    why    text;
    role   text;
    named  text;
    number bigint;
    start  numeric;
BEGIN
    why := (SELECT 'Also drawn from by: ' || string_agg(d.used_in, ', ') FROM leaf.defaults() AS d
             WHERE d.tag = $3 AND leaf.privilege($3, d.owner) <> 'none' AND NOT (d."column" = $2 AND d."table" IN (SELECT leaf.tree($1))));
    why := coalesce(why, CASE WHEN leaf.privilege($3, c.owner) <> 'own' THEN 'It belongs to another role than the table' END);
    IF why IS NOT NULL THEN
        -- When: `leaf_column_release`, if other columns draw from the tag, or another role owns it; DETAIL says which
        PERFORM leaf.fail('55000', format('tag "%s" would go on handing out the numbers of the sequence', tag),
            'Take the default away with ALTER TABLE, and choose a range of numbers for the column that the tag does not reach. A superuser can give a tag to the owner of the table: UPDATE leaf.alloc SET owner = ...', why || '.');
    END IF;
    EXECUTE format('ALTER TABLE %s ALTER COLUMN %s DROP DEFAULT', c.relation, c.attribute);
    start := greatest(leaf.retire(tag, drained), leaf.highest($1, $2)::numeric + 1);
    FOR s IN SELECT * FROM leaf.sequences($1, $2) LOOP
        -- Somebody may have taken the fence away.
        number := coalesce(pg_sequence_last_value(s.sequence), nextval(s.sequence));
        start := greatest(start, CASE WHEN number <> s.last THEN number::numeric + s.step END);
    END LOOP;
    IF start > c.largest THEN
        PERFORM leaf.fail('2200H', format('no number is left for column %s: %s is the last one', c.full_name, c.largest),
            'Change a column of a smaller type to bigint first, or remove the values near the end of its type.');
    END IF;
    SELECT * INTO s FROM leaf.sequences($1, $2) LIMIT 1;
    IF s.is_bounded AND start > s.last THEN
        -- When: `leaf_column_release`
        PERFORM leaf.fail('55000', format('sequence %s ends below %s, where it would have to go on', s.name, start),
            'Use ALTER SEQUENCE ... NO MAXVALUE first.');
    ELSIF s.sequence IS NULL AND c.is_required OR s.was IS NOT NULL THEN
        EXECUTE CASE WHEN s.was IS NOT NULL THEN 'DROP SEQUENCE ' || s.name ELSE 'SELECT' END;
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %s ADD GENERATED %s AS IDENTITY (START WITH %s %s)', c.relation, c.attribute,
            coalesce(s.was, 'BY DEFAULT'), start, coalesce('SEQUENCE NAME ' || s.name || ' ' || s.options, 'MINVALUE ' || least(start, 1)));
    ELSE
        named := s.name;
        IF named IS NULL THEN
            named := (SELECT left(r.relname, 28) || '_' || left($2, 28) || '_seq' FROM pg_class AS r WHERE r.oid = $1);
            named := c.schema || '.' || quote_ident(named ||
                CASE WHEN to_regclass(c.schema || '.' || quote_ident(named)) IS NULL THEN '' ELSE $1::oid::text END);
            EXECUTE format('CREATE SEQUENCE %1$s MINVALUE %2$s START WITH %3$s; ALTER SEQUENCE %1$s OWNER TO %4$I;
                            ALTER SEQUENCE %1$s OWNED BY %5$s',
                named, least(start, 1), start, pg_get_userbyid(c.owner), c.full_name);
        ELSE
            EXECUTE format('ALTER SEQUENCE %s %s START WITH %s RESTART WITH %3$s', named,
                CASE WHEN start > s.last THEN 'AS bigint' END, start);
        END IF;
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %s SET DEFAULT nextval(%L::regclass)', c.relation, c.attribute, named);
        FOR role IN SELECT i FROM leaf.inserters($1) AS i LOOP
            EXECUTE format('GRANT USAGE ON SEQUENCE %s TO %s', named, CASE role WHEN 'public' THEN 'PUBLIC' ELSE quote_ident(role) END);
        END LOOP;
    END IF;
    RETURN (SELECT q.sequence FROM leaf.sequences($1, $2) AS q LIMIT 1);
END
$$;
COMMENT ON FUNCTION leaf.give_back(regclass, name, text, boolean) IS 'releases a column whose table and sequences are locked';

CREATE FUNCTION leaf_column_adopt(
        "table" regclass, "column" name, tag text DEFAULT NULL, kind text DEFAULT 'segment', replaces regprocedure DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
DECLARE
    c      record;
    narrow text;
BEGIN
    IF kind IS NULL OR kind NOT IN ('segment', 'snowflake') THEN
        -- When: `leaf_column_adopt`
        PERFORM leaf.fail('22023', format('kind must not be "%s"', kind), 'It is either ''segment'' or ''snowflake''.');
    ELSIF kind = 'snowflake' AND tag IS NOT NULL THEN
        -- When: `leaf_column_adopt`
        PERFORM leaf.fail('22023', 'snowflake ids have no tag', 'Leave the tag out, or use kind => ''segment''.');
    END IF;
    c := leaf.column_of($1, $2, kind, replaces);
    IF kind = 'segment' THEN
        tag := coalesce(tag, c.plain_name);
        -- While its table is locked, nothing of leaf is waited for. Where the tag begins is not known before.
        EXECUTE format('SELECT %s.leaf_tag_create($1, 1, -9223372036854775808, $2, owner => $3)', leaf.home())
          USING tag, c.largest, pg_get_userbyid(c.owner);
    END IF;
    PERFORM leaf.hand_over($1, $2, tag, kind, replaces => replaces);
    narrow := (SELECT string_agg(format('%s.%I', f.conrelid::regclass, a.attname), ', ' ORDER BY f.oid)
                 FROM pg_constraint AS f
                 JOIN pg_attribute AS o ON o.attrelid = f.confrelid AND o.attnum = ANY (f.confkey)
                 JOIN pg_attribute AS a ON a.attrelid = f.conrelid AND a.attnum = f.conkey[array_position(f.confkey, o.attnum)]
                WHERE f.confrelid = $1 AND f.conparentid = 0 AND o.attname = $2 AND a.atttypid IN ('smallint'::regtype, 'integer'::regtype));
    IF narrow IS NOT NULL THEN
        RAISE NOTICE USING MESSAGE = format('foreign keys to column %s are of a smaller type than bigint: %s', c.full_name, narrow),
            HINT = 'Make them bigint before the ids reach the end of their type.';
    END IF;
    RETURN tag;
END
$$;
COMMENT ON FUNCTION leaf_column_adopt(regclass, name, text, text, regprocedure)
    IS 'makes the default of a column draw ids of a new tag, whose name is returned, or snowflake ids, above its values and those of its sequence';

CREATE FUNCTION leaf_column_release("table" regclass, "column" name, drained boolean DEFAULT false) RETURNS regclass
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
DECLARE
    c record := leaf.column_of($1, $2, NULL);
    d record;
BEGIN
    SELECT * INTO d FROM leaf.defaults() AS o WHERE o."table" = $1 AND o."column" = $2 AND o.is_plain;
    IF NOT FOUND THEN
        -- When: `leaf_column_release`
        PERFORM leaf.fail('55000',
            format('the default of column %s is not a call of leaf_segment_next or leaf_snowflake_next', c.full_name),
            'Only a column with the default that leaf_column_adopt sets can be released.');
    END IF;
    RETURN leaf.hand_over($1, $2, d.tag, NULL, coalesce(drained, false));
END
$$;
COMMENT ON FUNCTION leaf_column_release(regclass, name, boolean)
    IS 'gives an adopted column its sequence or identity back, which starts above everything that was granted';

CREATE FUNCTION leaf.is_in_block() RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'leaf_is_in_block';
COMMENT ON FUNCTION leaf.is_in_block() IS 'whether the statement is part of a transaction with others';

CREATE FUNCTION leaf.releasable() RETURNS TABLE ("table" regclass, "column" name, used_in text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH found AS MATERIALIZED (SELECT * FROM leaf.defaults())
    SELECT f."table", f."column", f.used_in FROM found AS f
     WHERE f.is_plain AND pg_has_role(f.owner, 'USAGE')
       -- With a table, those below it are released.
       AND NOT EXISTS (SELECT FROM pg_inherits AS i JOIN found AS p ON p."table" = i.inhparent
                        WHERE i.inhrelid = f."table" AND p."column" = f."column")
     ORDER BY f.used_in
$$;
COMMENT ON FUNCTION leaf.releasable() IS 'the columns that leaf_column_release_all releases';

-- A procedure that commits has no search_path of its own.
CREATE PROCEDURE leaf_column_release_all(drained boolean DEFAULT false)
    LANGUAGE plpgsql AS $$
DECLARE
    home   pg_catalog.text := leaf.home();
    failed pg_catalog.int8 := 0;
    detail pg_catalog.text;
    why    pg_catalog.text;
    c      pg_catalog.record;
BEGIN
    IF leaf.is_in_block() THEN
        -- When: `leaf_column_release_all`
        PERFORM leaf.fail('2D000', 'columns cannot all be released within an open transaction',
            'Use CALL on a connection in autocommit mode, outside of BEGIN.');
    END IF;
    FOR c IN SELECT r."table", r."column", r.used_in FROM leaf.releasable() AS r LOOP
        BEGIN
            EXECUTE pg_catalog.format('SELECT %s.leaf_column_release($1, $2, $3)', home) USING c."table", c."column", drained;
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, why = PG_EXCEPTION_HINT;
            RAISE WARNING USING MESSAGE = pg_catalog.format('column %s was not released: %s', c.used_in, SQLERRM),
                DETAIL = detail, HINT = why;
            failed := failed OPERATOR(pg_catalog.+) 1;
        END;
        COMMIT;
    END LOOP;
    IF failed OPERATOR(pg_catalog.>) 0 THEN
        -- When: `leaf_column_release_all`, after it has released the others
        PERFORM leaf.fail('55000', pg_catalog.format('%s columns were not released', failed), 'Each has a warning that says why; remove the cause, and call it again.');
    END IF;
END
$$;
COMMENT ON PROCEDURE leaf_column_release_all(boolean)
    IS 'releases all columns of the database whose default leaf_column_adopt could have set, each in a transaction of its own';

CREATE FUNCTION leaf_tag_align(
        tag text DEFAULT NULL, create_missing boolean DEFAULT false,
        OUT biz_tag text, OUT used_in text, OUT highest bigint, OUT "position" bigint,
        OUT moved boolean, OUT ignored text) RETURNS SETOF record
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
    home     text := leaf.home();
    until    timestamptz := clock_timestamp() + current_setting('leaf.wait_timeout')::interval;
    d        record;
    s        record;
    may      text;
    last     text;
    reach    bigint;
    bound    bigint;
    frontier bigint;
    moved_to bigint;
BEGIN
    PERFORM leaf.require_transaction();
    IF $1 IS NOT NULL AND leaf.privilege($1, 0) IS NULL AND NOT create_missing THEN
        PERFORM leaf.fail('42704', format('tag "%s" does not exist', $1), 'Check the spelling, or use create_missing => true.');
    END IF;
    FOR d IN WITH found AS MATERIALIZED (
                SELECT * FROM leaf.defaults() AS f WHERE f.function = 'leaf_segment_next' AND (f.tag = $1 OR $1 IS NULL))
            SELECT f.*, (SELECT count(DISTINCT r.owner) FROM found AS r WHERE r.tag = f.tag) AS owners
              FROM found AS f JOIN pg_class AS c ON c.oid = f."table"
             WHERE NOT (c.relispartition AND EXISTS (
                SELECT FROM found AS r WHERE r."table" = pg_partition_root(c.oid) AND r."column" = f."column" AND r.tag = f.tag))
             ORDER BY f.tag COLLATE "C", f.used_in COLLATE "C" LOOP
        SELECT d.tag, d.used_in, NULL, NULL, false, NULL INTO biz_tag, used_in, highest, "position", moved, ignored;
        may := leaf.privilege(d.tag, d.owner);
        ignored := CASE WHEN d.tag IS NULL THEN 'all: its tag is no constant'
                        WHEN NOT pg_has_role(d.owner, 'USAGE') THEN 'tables of other roles'
                        WHEN may = 'none' THEN 'tables whose owner may not draw from the tag'
                        WHEN may IS NULL AND NOT create_missing THEN 'all: its tag does not exist'
                        WHEN may IS NULL AND d.owners > 1 THEN 'all: its tag does not exist, and tables of several owners draw from it' END;
        IF ignored IS NOT NULL THEN
            RETURN NEXT;
            CONTINUE;
        ELSIF may IS NULL THEN
            EXECUTE format('SELECT %s.leaf_tag_create($1, owner => $2)', home) USING d.tag, pg_get_userbyid(d.owner);
            may := 'own';
        END IF;
        -- For all tables together: whoever may draw can have a table, and lock it.
        PERFORM set_config('lock_timeout', greatest(1, extract(epoch FROM until - clock_timestamp()) * 1000)::bigint::text, true);
        BEGIN
            SELECT * INTO s FROM leaf.stat_segment AS t WHERE t.biz_tag = d.tag;
            IF last IS DISTINCT FROM d.tag THEN
                last := d.tag;
                moved_to := NULL;
                reach := s."position" + least((s.max_value::numeric - s."position") / 2, current_setting('leaf.max_reserve')::bigint);
            END IF;
            "position" := coalesce(moved_to, s."position");
            bound := CASE may WHEN 'draw' THEN reach ELSE least(s.max_value, 9223372036854775806) END;
            highest := leaf.highest(d."table", d."column");
            IF highest > bound THEN
                highest := leaf.highest(d."table", d."column", bound);
                ignored := CASE may WHEN 'draw' THEN 'values far ahead of the tag in tables whose owner does not own it'
                                    ELSE 'values that are not ids of the tag' END;
            END IF;
        EXCEPTION WHEN OTHERS THEN
            -- Functions of the table's owner can raise any error.
            ignored := format('all: %s', SQLERRM);
            RETURN NEXT;
            CONTINUE;
        END;
        PERFORM set_config('lock_timeout', '5s', true);
        BEGIN
            -- Read after the ids: those that are drawn meanwhile are below it.
            "position" := coalesce(moved_to, (SELECT t."position" FROM leaf.stat_segment AS t WHERE t.biz_tag = d.tag));
            IF s.upstream_tag IS NOT NULL THEN
                ignored := 'all for the position: its ids come from a centre';
            ELSIF highest IS NOT NULL THEN
                frontier := leaf.frontier(d.tag);
                IF highest >= "position" THEN
                    moved_to := greatest(frontier, highest + 1);
                    PERFORM leaf.advance(d.tag, moved_to);
                    moved := true;
                    "position" := moved_to;
                END IF;
            END IF;
        EXCEPTION WHEN lock_not_available THEN
            RAISE;
        WHEN insufficient_privilege OR object_not_in_prerequisite_state OR invalid_parameter_value THEN
            ignored := format('all for the position: %s', SQLERRM);
        END;
        RETURN NEXT;
    END LOOP;
END
$$;
COMMENT ON FUNCTION leaf_tag_align(text, boolean)
    IS 'moves tags past the largest ids in the columns whose default draws from them, for use after older tags were restored; with create_missing, makes the tags that are missing';

/*
 * Masks: ids that give nothing away. The permutation is frozen, so the functions are immutable:
 * another one gets another name.
 */
CREATE FUNCTION leaf_mask(id bigint, key bytea, bits integer DEFAULT 64) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'leaf_mask';
COMMENT ON FUNCTION leaf_mask(bigint, bytea, integer)
    IS 'an id as a number of 64, 63 or 53 bits that gives nothing away; turning it back takes the key';

CREATE FUNCTION leaf_unmask(masked bigint, key bytea, bits integer DEFAULT 64) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'leaf_unmask';
COMMENT ON FUNCTION leaf_unmask(bigint, bytea, integer)
    IS 'the id that leaf_mask has masked, with the same key and bits';

/*
 * Monitoring. The views show the columns of these functions as they are declared here:
 * a new column needs one line here and one in src/api/stats.rs.
 */
CREATE FUNCTION leaf.segment_stats(
        tag text, max_id bigint, row_step integer, max_value bigint, is_fed boolean,
        stripes integer DEFAULT 1, stripe integer DEFAULT 0, stripe_width bigint DEFAULT 1,
        OUT "position" bigint,
        OUT ids_left bigint,
        OUT used_percent double precision,
        OUT time_left interval,
        OUT current_left bigint,
        OUT next_left bigint,
        OUT next_ready boolean,
        OUT step bigint,
        OUT loads bigint,
        OUT ids_drawn bigint,
        OUT ids_per_second double precision,
        OUT waits bigint,
        OUT total_wait_ms double precision,
        OUT longest_wait_ms double precision,
        OUT timeouts bigint,
        OUT evictions bigint,
        OUT last_error text,
        OUT last_error_at timestamptz,
        OUT stats_reset timestamptz) RETURNS record
    LANGUAGE c VOLATILE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'leaf_segment_stats';
COMMENT ON FUNCTION leaf.segment_stats(text, bigint, integer, bigint, boolean, integer, integer, bigint)
    IS 'statistics of a tag in shared memory, for members of pg_monitor and owners of the tag';

CREATE FUNCTION leaf_segment_slots() RETURNS SETOF text
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE ROWS 1000
    AS 'MODULE_PATHNAME', 'leaf_segment_slots';
COMMENT ON FUNCTION leaf_segment_slots() IS 'the tags of this database that are in shared memory';
REVOKE EXECUTE ON FUNCTION leaf_segment_slots() FROM PUBLIC;

-- The rows of leaf.alloc that the role may see; if the table is locked, what memory has of them.
CREATE FUNCTION leaf.alloc_stats(
        OUT biz_tag varchar, OUT max_id bigint, OUT max_value bigint, OUT step integer, OUT upstream_tag varchar,
        OUT stripes integer, OUT stripe integer, OUT stripe_width bigint) RETURNS SETOF record
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1000
    AS 'MODULE_PATHNAME', 'leaf_alloc_stats';
COMMENT ON FUNCTION leaf.alloc_stats()
    IS 'the tags that a member of pg_monitor or an owner sees in leaf.stat_segment; it waits for no lock';

CREATE VIEW leaf.stat_segment WITH (security_barrier) AS
SELECT a.biz_tag::varchar(128) AS biz_tag, nullif(a.max_id, -9223372036854775808) - 1 AS granted_up_to, a.max_value,
       a.upstream_tag::varchar(128) AS upstream_tag, s.*
  FROM leaf.alloc_stats() AS a,
       leaf.segment_stats(a.biz_tag::text, a.max_id, a.step, a.max_value, a.upstream_tag IS NOT NULL,
                          a.stripes, a.stripe, a.stripe_width) AS s;
COMMENT ON VIEW leaf.stat_segment IS 'one row per tag: position, buffers, loads, waits and errors since it was last brought into memory';

CREATE FUNCTION leaf.snowflake_stats(
        OUT worker_id integer,
        OUT layout text,
        OUT worker_ids bigint,
        OUT epoch timestamptz,
        OUT ceiling timestamptz,
        OUT last_issued_at timestamptz,
        OUT clock_lead_ms double precision,
        OUT clock_offset_ms double precision,
        OUT rollbacks bigint,
        OUT waits bigint,
        OUT total_wait_ms double precision,
        OUT longest_wait_ms double precision,
        OUT timeouts bigint,
        OUT runs_out_at timestamptz,
        OUT used_percent double precision,
        OUT last_error text,
        OUT last_error_at timestamptz,
        OUT stats_reset timestamptz) RETURNS record
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'leaf_snowflake_stats';
COMMENT ON FUNCTION leaf.snowflake_stats() IS 'statistics of the snowflake ids of this database in shared memory';
REVOKE EXECUTE ON FUNCTION leaf.snowflake_stats() FROM PUBLIC;

CREATE VIEW leaf.stat_snowflake AS SELECT * FROM leaf.snowflake_stats();
COMMENT ON VIEW leaf.stat_snowflake IS 'this database''s snowflake ids: worker id, layout, ceiling, clock, waits and errors since the server started';

CREATE FUNCTION leaf.upstream_stats(
        OUT host text,
        OUT connected_since timestamptz,
        OUT last_answer_at timestamptz,
        OUT feeds bigint,
        OUT ids_fed bigint,
        OUT failures bigint,
        OUT last_error text,
        OUT last_error_at timestamptz) RETURNS record
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'leaf_upstream_stats';
COMMENT ON FUNCTION leaf.upstream_stats() IS 'how this database fares with the centre that feeds its tags';
REVOKE EXECUTE ON FUNCTION leaf.upstream_stats() FROM PUBLIC;

CREATE VIEW leaf.stat_upstream AS SELECT * FROM leaf.upstream_stats();
COMMENT ON VIEW leaf.stat_upstream IS 'how this database fares with the centre that feeds its tags: connection, numbers and errors since the server started';

CREATE FUNCTION leaf.failovers_left() RETURNS bigint
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN current_setting('leaf.lossless_failover')::boolean THEN NULL
                WHEN NOT EXISTS (SELECT FROM pg_stat_replication) AND NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_type = 'physical') THEN NULL
                WHEN current_setting('leaf.allow_unreplicated_centre')::boolean OR current_setting('leaf.worker_id')::integer >= 0 THEN 0
                ELSE greatest(0, s.worker_ids - (SELECT count(*) FROM leaf.worker AS w
                                                  WHERE w.leased_until + current_setting('leaf.worker_reuse_after')::interval > now())) END
      FROM leaf.stat_snowflake AS s
$$;
CREATE FUNCTION leaf.failovers_left(tag text) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'leaf_failovers_left';
COMMENT ON FUNCTION leaf.failovers_left(text)
    IS 'how often a tag can skip in another history before it has no number left; null if it does not skip, or belongs to another role';
COMMENT ON FUNCTION leaf.failovers_left()
    IS 'after how many failovers from now leaf goes on by itself, until worker ids are free again; null if no failover stops it, or if there is no standby';

-- What vacuum regards for a table: sessions of its database, prepared transactions, slots and standbys.
CREATE FUNCTION leaf.horizon(OUT dead_rows bigint, OUT holder text, OUT cure text) RETURNS SETOF record
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH held AS (
        SELECT greatest(age(backend_xmin), age(backend_xid)) AS age, xact_start AS since,
               format('process %s (%s), in a transaction since %s', pid, usename, date_trunc('second', xact_start)) AS holder,
               format('end its transaction: SELECT pg_terminate_backend(%s)', pid) AS cure
          FROM pg_stat_activity
         WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
         UNION ALL
        SELECT age(transaction), prepared, format('prepared transaction %L, since %s', gid, date_trunc('second', prepared)),
               format('COMMIT PREPARED %1$L, or ROLLBACK PREPARED %1$L', gid)
          FROM pg_prepared_xacts
         WHERE database = current_database()
         UNION ALL
        SELECT age(xmin), NULL, 'replication slot ' || slot_name,
               CASE WHEN active THEN 'end long queries on its standby, or set hot_standby_feedback to off there'
                    ELSE format('start what uses it, or SELECT pg_drop_replication_slot(%L)', slot_name) END
          FROM pg_replication_slots
         UNION ALL
        SELECT age(backend_xmin), NULL, 'standby ' || application_name,
               'end long queries on it, or set hot_standby_feedback to off there'
          FROM pg_stat_replication)
    -- The snapshot of a session is as old as the oldest transaction that ran when it was taken.
    SELECT t.n_dead_tup, h.holder, coalesce(h.cure, 'VACUUM leaf.alloc, and look why autovacuum does not come')
      FROM pg_stat_user_tables AS t LEFT JOIN LATERAL (SELECT * FROM held WHERE age > 100 ORDER BY age DESC, since NULLS FIRST LIMIT 1) AS h ON true
     WHERE t.relid = 'leaf.alloc'::regclass AND t.n_dead_tup > 100000
$$;
COMMENT ON FUNCTION leaf.horizon()
    IS 'who keeps dead versions of the rows of leaf.alloc from being removed, once there are 100,000, and what to do about it';

/*
 * The owner of the database can dump the tables and restore the dump.
 * What rows a role may add that has no other privileges, the triggers check.
 */
GRANT SELECT, INSERT ON leaf.alloc, leaf.worker TO pg_database_owner;

GRANT EXECUTE ON FUNCTION leaf_segment_slots(), leaf.snowflake_stats(), leaf.upstream_stats() TO pg_monitor;
GRANT SELECT ON leaf.stat_snowflake, leaf.stat_upstream TO pg_monitor;
-- The view shows each role the tags that it owns.
GRANT SELECT ON leaf.stat_segment TO PUBLIC;

CREATE FUNCTION leaf_stat_reset(tag text DEFAULT NULL) RETURNS void
    LANGUAGE c VOLATILE PARALLEL RESTRICTED
    AS 'MODULE_PATHNAME', 'leaf_stat_reset';
COMMENT ON FUNCTION leaf_stat_reset(text)
    IS 'resets the statistics of a tag, or of all tags and the snowflake ids of this database';
REVOKE EXECUTE ON FUNCTION leaf_stat_reset(text) FROM PUBLIC;

/*
 * Takes back what default privileges have given, beyond what leaf grants itself, on its functions in a
 * schema and its relations. They are set for whatever a role creates, and would give others triggers
 * that run as the loader.
 */
CREATE FUNCTION leaf.take_back(home oid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given pg_catalog.record;
BEGIN
    FOR given IN
        SELECT o.kind, o.name, a.privilege_type AS privilege, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS grantee
          FROM (SELECT tableoid AS class, oid, 'ROUTINE' AS kind, oid::regprocedure::text AS name, proname AS short, proacl AS acl, proowner AS owner FROM pg_proc
                 WHERE pronamespace = 'leaf'::regnamespace OR pronamespace = home AND proname ^@ 'leaf_'
                UNION ALL
                SELECT tableoid, oid, CASE relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, oid::regclass::text, relname, relacl, relowner FROM pg_class
                 WHERE relnamespace = 'leaf'::regnamespace AND relkind IN ('r', 'v', 'S')
                UNION ALL
                SELECT tableoid, oid, 'SCHEMA', 'leaf', nspname, nspacl, nspowner FROM pg_namespace WHERE nspname = 'leaf') AS o,
               LATERAL aclexplode(o.acl) AS a
         WHERE a.grantee <> o.owner AND pg_get_userbyid(o.owner) = current_user
           -- Something else may have such a name.
           AND EXISTS (SELECT FROM pg_depend AS d WHERE (d.classid, d.objid, d.deptype) = (o.class, o.oid, 'e'))
           AND NOT CASE o.kind
                   -- Those that are not for all are revoked from PUBLIC.
                   WHEN 'ROUTINE' THEN a.grantee = 0 OR a.grantee = 'pg_monitor'::regrole::oid
                       AND o.short IN ('leaf_segment_slots', 'snowflake_stats', 'upstream_stats')
                   WHEN 'SCHEMA' THEN a.grantee = 0 AND a.privilege_type = 'USAGE'
                   ELSE (o.short, a.grantee, a.privilege_type) IN (
                       ('stat_segment', 0, 'SELECT'), ('stat_snowflake', 'pg_monitor'::regrole::oid, 'SELECT'), ('stat_upstream', 'pg_monitor'::regrole::oid, 'SELECT'))
                       OR a.grantee = 'pg_database_owner'::regrole AND o.short IN ('alloc', 'worker') AND a.privilege_type IN ('SELECT', 'INSERT') END LOOP
        EXECUTE format('REVOKE %s ON %s %s FROM %s', given.privilege, given.kind, given.name, given.grantee);
    END LOOP;
END
$$;

-- With exactly its types, so that no function that others have made in the schema is taken for it.
SELECT leaf.take_back($target$@extschema@$target$::pg_catalog.regnamespace::pg_catalog.oid);
DROP FUNCTION leaf.take_back(pg_catalog.oid);
