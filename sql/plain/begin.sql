/*
 * leaf without its library: functions in SQL and PL/pgSQL over the tables of the extension, for
 * servers on which no library can be installed. Services draw ids; defaults of columns do not.
 *
 * `leafctl plain install` composes the whole script from sql/leaf--*.sql, which has all tables,
 * signatures, comments and grants, and from this folder, which has the bodies: in
 * CREATE FUNCTION name(...), "..." stands for the signature there, or for the rest of it. With HINT
 * instead of a body, and without either, a function answers that it needs the library.
 *
 * This file comes first, the others after the script of the extension. An upgrade executes the
 * whole script again, but of it only functions, views, comments, REVOKE and DO, and the GRANT of this
 * folder: whatever else a version changes stands in a DO that looks at leaf.plain.version.
 */
-- What is committed while this waits for locks has to be seen.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL quote_all_identifiers = off;
-- While an upgrade waits for a lock, draws wait for it.
SET LOCAL lock_timeout = '5s';
DO $$
DECLARE
    home    oid  := to_regnamespace($schema$@extschema@$schema$);
    -- A view would run its author's code.
    owner   oid  := (SELECT relowner FROM pg_class WHERE oid = to_regclass('leaf.plain') AND relkind = 'r');
    version text;
    other   text;
    -- Where the functions are already.
    present oid := (SELECT p.pronamespace FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid
                     WHERE t.tgrelid = to_regclass('leaf.alloc') AND t.tgname = 'leaf_check');
    is_administrator boolean := @is_administrator@;
BEGIN
    IF owner IS NULL AND EXISTS (SELECT FROM pg_namespace WHERE nspname = 'leaf' AND pg_get_userbyid(nspowner) = current_user
                                    AND obj_description(oid, 'pg_namespace') = '@left@') THEN
        -- It is made anew, and nobody else's meanwhile.
        DROP SCHEMA leaf;
    END IF;
    IF EXISTS (SELECT FROM pg_extension WHERE extname = 'leaf') THEN
        RAISE EXCEPTION USING ERRCODE = 'duplicate_object', MESSAGE = 'the extension leaf is installed in this database',
            HINT = 'Use it as it is: it can do all that the plain edition can.';
    ELSIF owner IS NULL AND to_regnamespace('leaf') IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'duplicate_schema', MESSAGE = 'schema "leaf" already exists',
            HINT = CASE WHEN obj_description(to_regnamespace('leaf'), 'pg_namespace') = '@left@'
                        THEN 'Connect as the role that has removed leaf, or install the plain edition in another database.'
                        ELSE 'Rename it, or install the plain edition in another database.' END;
    ELSIF current_setting('server_version_num')::integer < 150000 THEN
        RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = 'leaf needs PostgreSQL 15 or later',
            HINT = 'Upgrade the server.';
    ELSIF owner <> (SELECT oid FROM pg_roles WHERE rolname = current_user)
       OR EXISTS (SELECT FROM pg_roles WHERE oid = owner AND NOT rolsuper AND rolname <> session_user)
      AND is_administrator THEN
        -- A trigger on a table of another role would run its code.
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = 'must be owner of table leaf.plain',
            HINT = format('Connect as %s, who has installed it.', owner::regrole);
    ELSIF owner IS NOT NULL AND present IS NOT NULL AND present IS DISTINCT FROM home THEN
        RAISE EXCEPTION USING ERRCODE = 'duplicate_object', MESSAGE = format('the functions of leaf are in schema %s', present::regnamespace),
            HINT = format('Use --schema %s.', present::regnamespace);
    ELSIF owner IS NULL AND NOT has_database_privilege(current_database(), 'CREATE') THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('permission denied for database %s', current_database()),
            HINT = 'Connect as the owner of the database.';
    ELSIF home IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_schema_name', MESSAGE = $message$schema @extschema@ does not exist$message$,
            HINT = 'Create it first.';
    ELSIF NOT has_schema_privilege(home, 'CREATE') THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = $message$permission denied for schema @extschema@$message$,
            HINT = 'Name a schema of your own with --schema.';
    END IF;
    -- Whoever owns a function can make it another one, also after it was replaced.
    SELECT oid::regprocedure INTO other FROM pg_proc
     WHERE pronamespace = home AND proname = ANY ('{@functions@}') AND proowner IS DISTINCT FROM owner LIMIT 1;
    IF other IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'duplicate_function', MESSAGE = format('function %s already exists', other),
            HINT = 'Drop it, or name another schema with --schema.';
    END IF;
    IF owner IS NOT NULL THEN
        SELECT p.version INTO version FROM leaf.plain AS p;
        IF string_to_array(version, '.')::integer[] > string_to_array('@version@', '.')::integer[] THEN
            RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
                MESSAGE = format('this database has version %s of leaf, which is newer than @version@', version),
                HINT = 'Use the leafctl of that version.';
        END IF;
    END IF;
    -- Their results were others before the first release.
    IF EXISTS (SELECT FROM pg_proc WHERE oid = to_regprocedure('leaf.has_role(oid, name[])') AND NOT proretset) THEN
        DROP FUNCTION leaf.may_draw(name, name[], oid), leaf.has_role(oid, name[]), leaf.role_of(name), leaf.identity();
    END IF;
    -- Until the transaction ends, all that follows knows by this whether it has to be done.
    PERFORM set_config('leaf_plain.is_new', (owner IS NULL)::text, true);
END
$$;
SET LOCAL search_path = @extschema@, pg_temp;
SET LOCAL check_function_bodies = off;
SET LOCAL client_min_messages = warning;

CREATE SCHEMA leaf;

/* That there is the plain edition, and its settings, which have the names and ranges of the library's. */
CREATE TABLE leaf.plain (
    version             text     NOT NULL,
    place               text     NOT NULL,
    nonce               uuid     NOT NULL DEFAULT gen_random_uuid(),
    is_replicated       boolean  NOT NULL DEFAULT false,
    snowflake_layout    text     NOT NULL DEFAULT 'leaf',
    snowflake_epoch     timestamptz,
    max_reserve         bigint   NOT NULL DEFAULT 1000000000 CHECK (max_reserve BETWEEN 1 AND 2147483647),
    history_skip        integer  NOT NULL DEFAULT 10 CHECK (history_skip BETWEEN 0 AND 1000000),
    max_leases          integer  NOT NULL DEFAULT 1000 CHECK (max_leases >= 0),
    worker_lease        interval NOT NULL DEFAULT '600 s' CHECK (worker_lease BETWEEN '1 s' AND '365 d'),
    worker_reuse_after  interval NOT NULL DEFAULT '720 h' CHECK (worker_reuse_after BETWEEN '0' AND '2147483647 s'),
    ceiling_ahead       interval NOT NULL DEFAULT '5 s' CHECK (ceiling_ahead BETWEEN '100 ms' AND '10 min'),
    max_clock_offset    interval NOT NULL DEFAULT '5 s' CHECK (max_clock_offset BETWEEN '0' AND '2147483647 ms'),
    max_clock_lead      interval NOT NULL DEFAULT '60 s' CHECK (max_clock_lead BETWEEN '0' AND '1 d')
);
CREATE UNIQUE INDEX plain_one_row_idx ON leaf.plain ((true));
-- A publication of all tables must not stop leaf_new_history() and the first lease.
ALTER TABLE leaf.plain REPLICA IDENTITY FULL;
COMMENT ON TABLE leaf.plain IS 'version and settings of leaf where there is no library: one row';
COMMENT ON COLUMN leaf.plain.place IS 'cluster, database and tables in which the row was made: a restored copy is in another place';
COMMENT ON COLUMN leaf.plain.nonce IS 'changes with leaf_new_history(): part of the history in leaf.alloc and leaf.worker';
COMMENT ON COLUMN leaf.plain.is_replicated IS 'whether commits wait for a standby that a failover makes the primary: without that, tags feed no shards';
GRANT SELECT ON leaf.plain TO PUBLIC;

/* New worker ids: two registrations that are open at the same time get different ones. */
CREATE SEQUENCE leaf.next_worker_id MINVALUE 0 START 0;
