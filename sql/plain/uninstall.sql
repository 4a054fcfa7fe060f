/* Removes the plain edition. What the tables say of ids that are in use goes with them. */
SET LOCAL search_path = pg_catalog, pg_temp;
DO $$
DECLARE
    name text;
    home oid := (SELECT p.pronamespace FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid
                  WHERE t.tgrelid = to_regclass('leaf.alloc') AND t.tgname = 'leaf_check');
BEGIN
    IF to_regclass('leaf.plain') IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_table', MESSAGE = 'the plain edition of leaf is not installed in this database',
            HINT = 'Name another database with -d.';
    ELSIF (SELECT count(*) FROM pg_class WHERE oid IN (to_regclass('leaf.plain'), to_regclass('leaf.alloc'), to_regclass('leaf.worker'))
              AND relkind = 'r' AND relowner = (SELECT oid FROM pg_roles WHERE rolname = current_user)) <> 3 THEN
        -- Others' views would run their code.
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = 'must be owner of table leaf.plain',
            HINT = 'Connect as the role that has installed it.';
    END IF;
    LOCK TABLE leaf.alloc, leaf.worker IN ACCESS EXCLUSIVE MODE;
    IF EXISTS (SELECT FROM leaf.alloc) OR EXISTS (SELECT FROM leaf.worker WHERE ceiling + (SELECT max_clock_offset FROM leaf.plain) > now()) THEN
        RAISE EXCEPTION USING ERRCODE = 'dependent_objects_still_exist', MESSAGE = 'there are tags or leases of worker ids',
            HINT = 'To move them, dump the database first. Then drop the tags with leaf_tag_drop, and release the worker ids.';
    END IF;
    DROP VIEW leaf.stat_segment, leaf.stat_snowflake, leaf.stat_upstream;
    -- At once, because some are part of others.
    EXECUTE (SELECT 'DROP FUNCTION ' || string_agg(oid::regprocedure::text, ', ') FROM pg_proc WHERE pronamespace = 'leaf'::regnamespace);
    DROP TABLE leaf.alloc, leaf.worker, leaf.mask_secret, leaf.plain;
    FOR name IN SELECT oid::regprocedure FROM pg_proc
                 WHERE pronamespace = home AND proname = ANY ('{leaf_new_history,@functions@}') LOOP
        EXECUTE format('DROP FUNCTION %s', name);
    END LOOP;
    FOR name IN SELECT oid::regclass FROM pg_class WHERE relnamespace = 'leaf'::regnamespace AND relkind = 'S' LOOP
        EXECUTE format('DROP SEQUENCE %s', name);
    END LOOP;
    DROP SCHEMA leaf;
END
$$;
