-- Nobody else may execute anything, whatever default privileges have given: the install takes all that back, an
-- upgrade what PUBLIC has, because routines can be new.
DO $$
DECLARE
    given record;
BEGIN
    FOR given IN
        SELECT format('%s ON %s %s FROM %s', a.privilege_type, o.kind, o.name,
                      CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END) AS what
          FROM (SELECT 'ROUTINE' AS kind, oid::regprocedure::text AS name, proowner AS owner,
                       coalesce(proacl, acldefault('f', proowner)) AS acl
                  FROM pg_proc WHERE pronamespace = 'leaf'::regnamespace
                     OR proname = ANY ('{@routines@}') AND pronamespace = $home$@extschema@$home$::regnamespace
                 UNION ALL
                SELECT 'TABLE', oid::regclass::text, relowner, relacl
                  FROM pg_class WHERE relnamespace = 'leaf'::regnamespace AND relkind = 'r'
                 UNION ALL
                SELECT 'SCHEMA', 'leaf', nspowner, nspacl FROM pg_namespace WHERE nspname = 'leaf') AS o,
               aclexplode(o.acl) AS a
         WHERE a.grantee = 0 OR @is_new@ AND a.grantee <> o.owner LOOP
        EXECUTE 'REVOKE ' || given.what;
    END LOOP;
END
$$;
GRANT USAGE ON SCHEMA leaf TO PUBLIC;
UPDATE leaf.plain SET version = '@version@';
