/*
 * Removes the plain edition. What the tables say of ids that are in use goes with them. The empty schema leaf
 * stays: transactions that are open, also on standbys, can still execute functions that are no more, as their
 * owner, with what they find in a schema of that name.
 */
-- What is committed while this waits for the locks has to be seen.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL timezone = 'UTC';
-- While this waits for a lock, draws wait for it.
SET LOCAL lock_timeout = '5s';
DO $$
DECLARE
    name text;
    left_over text;
    is_any boolean := false;
    is_there boolean := to_regclass('leaf.plain') IS NOT NULL;
BEGIN
    IF is_there THEN
        IF (SELECT count(*) FROM pg_class WHERE oid IN (to_regclass('leaf.plain'), to_regclass('leaf.alloc'), to_regclass('leaf.worker'))
                  AND relkind = 'r' AND relowner = (SELECT oid FROM pg_roles WHERE rolname = current_user)) <> 3
           -- The present role may be one that the owner of the database has set.
           OR current_user <> session_user AND @is_administrator@
          AND NOT EXISTS (SELECT FROM pg_roles WHERE rolname = current_user AND rolsuper) THEN
            -- Others' views, and policies of tables, would run their code.
            RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = 'must be owner of table leaf.plain',
                HINT = 'Connect as the role that has installed it.';
        END IF;
        FOR is_locked IN 0..1 LOOP
            IF is_locked = 1 THEN
                LOCK TABLE leaf.alloc, leaf.worker IN ACCESS EXCLUSIVE MODE;
            END IF;
            SELECT format('there are tags, such as "%s"', biz_tag) INTO left_over FROM leaf.alloc LIMIT 1;
            IF FOUND THEN
                RAISE EXCEPTION USING ERRCODE = 'dependent_objects_still_exist', MESSAGE = left_over,
                    HINT = 'To move them, dump the database first. Then drop them with leaf_tag_drop.';
            END IF;
            -- What is installed next begins with the default.
            SELECT format('node "%s" may issue ids with worker id %s until %s', w.node, w.worker_id, f.free_at) INTO left_over
              FROM leaf.worker AS w LEFT JOIN leaf.plain AS p ON true,
                   LATERAL (SELECT w.ceiling + greatest(p.max_clock_offset, '5 s') AS free_at) AS f
             WHERE f.free_at > now() ORDER BY f.free_at DESC LIMIT 1;
            IF FOUND THEN
                RAISE EXCEPTION USING ERRCODE = 'dependent_objects_still_exist', MESSAGE = left_over,
                    HINT = 'Stop the services, and try again after that time.';
            END IF;
        END LOOP;
        -- The owner of the schema of the functions can drop views with them.
        DROP VIEW IF EXISTS leaf.stat_segment, leaf.stat_snowflake, leaf.stat_upstream;
        -- At once, because some are part of others.
        EXECUTE (SELECT 'DROP FUNCTION ' || string_agg(oid::regprocedure::text, ', ') FROM pg_proc AS p
                  WHERE pronamespace = 'leaf'::regnamespace AND prokind = 'f' AND pg_get_userbyid(proowner) = current_user
                    -- An extension may have been created there.
                    AND NOT EXISTS (SELECT FROM pg_depend AS d WHERE (d.classid, d.objid, d.deptype) = (p.tableoid, p.oid, 'e')));
        DROP TABLE leaf.alloc, leaf.worker, leaf.mask_secret, leaf.plain;
    END IF;
    -- Wherever they are, also without their tables, and until there are none: the owner of the schema may have
    -- dropped one that tells of the others, and can give its name to another schema meanwhile.
    FOR attempt IN 1..100 LOOP
        FOR name IN SELECT oid::regprocedure FROM pg_proc
                     WHERE pg_get_userbyid(proowner) = current_user AND prokind = 'f' AND proname = ANY ('{@functions@}')
                       -- The role can have others of such a name. A restore can have quoted all identifiers.
                       AND EXISTS (SELECT FROM unnest(proconfig) AS it WHERE replace(it, '"', '') = 'search_path=pg_catalog, pg_temp') LOOP
            EXECUTE format('DROP FUNCTION %s', name);
            is_any := true;
        END LOOP;
        -- There was none.
        EXIT WHEN name IS NULL;
    END LOOP;
    IF name IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'serialization_failure', MESSAGE = 'could not remove all functions due to concurrent changes of schemas',
            HINT = 'Try again.';
    END IF;
    IF is_there THEN
        FOR name IN SELECT oid::regclass FROM pg_class WHERE relnamespace = 'leaf'::regnamespace AND relkind = 'S' LOOP
            -- Any role can have named it in a view.
            EXECUTE format('DROP SEQUENCE %s CASCADE', name);
        END LOOP;
        COMMENT ON SCHEMA leaf IS '@left@';
    ELSIF NOT is_any THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_table', MESSAGE = 'the plain edition of leaf is not installed in this database',
            HINT = 'Name another database with -d.';
    END IF;
END
$$;
