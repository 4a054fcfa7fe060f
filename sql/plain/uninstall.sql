/* Removes the plain edition. What the tables say of ids that are in use goes with them. */
DO $$
DECLARE
    is_used text;
    routine text;
BEGIN
    LOCK TABLE leaf.alloc, leaf.worker IN ACCESS EXCLUSIVE MODE;
    SELECT used INTO is_used FROM (
        SELECT format('there are tags, such as "%s"', biz_tag) AS used FROM leaf.alloc
         UNION ALL
        SELECT format('node "%s" may issue ids until %s', node, ceiling) FROM leaf.worker
         WHERE ceiling > clock_timestamp()) AS u LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'dependent_objects_still_exist', MESSAGE = is_used,
            HINT = 'To move them, dump the database. Then drop tags with leaf_tag_drop, and stop the services.';
    END IF;
    DROP TRIGGER leaf_check ON leaf.alloc;
    FOR routine IN SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = 'leaf'::regnamespace
                       OR proname = ANY ('{@routines@}') AND pronamespace = $home$@extschema@$home$::regnamespace LOOP
        EXECUTE 'DROP ROUTINE ' || routine;
    END LOOP;
    DROP TABLE leaf.alloc, leaf.worker, leaf.plain;
    DROP SCHEMA leaf;
END
$$;
