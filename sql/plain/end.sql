/*
 * Nobody else may execute anything. Default privileges, which some hosts set, give more: the install
 * takes all that back, an upgrade what PUBLIC has, because routines can be new.
 */
DO $$
DECLARE
    home  oid := (SELECT p.pronamespace FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid
                   WHERE t.tgrelid = 'leaf.alloc'::regclass AND t.tgname = 'leaf_check');
    given record;
BEGIN
    FOR given IN
        SELECT format('%s ON %s %s FROM %s', a.privilege_type, o.kind, o.name,
                      CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END) AS what
          FROM (SELECT 'ROUTINE' AS kind, oid::regprocedure::text AS name, proowner AS owner,
                       coalesce(proacl, acldefault('f', proowner)) AS acl
                  FROM pg_proc WHERE pronamespace = 'leaf'::regnamespace
                     OR pronamespace = home AND proname = ANY ('{@routines@}')
                 UNION ALL
                SELECT 'TABLE', oid::regclass::text, relowner, relacl
                  FROM pg_class WHERE relnamespace = 'leaf'::regnamespace AND relkind = 'r') AS o,
               aclexplode(o.acl) AS a
         WHERE a.grantee = 0 OR @is_new@ AND a.grantee <> o.owner LOOP
        EXECUTE 'REVOKE ' || given.what;
    END LOOP;
END
$$;
UPDATE leaf.plain SET version = '@version@';
