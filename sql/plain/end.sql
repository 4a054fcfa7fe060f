/* Before rows leave the database, and after they have come from elsewhere. */

CREATE FUNCTION leaf.fold() RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    SET lock_timeout = '5s' AS $$
DECLARE
    a leaf.alloc;
BEGIN
    PERFORM leaf.asker(), leaf.insist_on_durable_commit();
    FOR a IN SELECT * FROM leaf.alloc ORDER BY biz_tag COLLATE "C" FOR NO KEY UPDATE LOOP
        CONTINUE WHEN a.upstream_tag IS NOT NULL;
        PERFORM leaf.mark_own(true);
        UPDATE leaf.alloc SET
               max_id = leaf.first_free(max_id, pg_sequence_last_value(leaf.high_water_of(incarnation))),
               update_time = clock_timestamp(),
               written_by = pg_current_xact_id()::xid
         WHERE biz_tag = a.biz_tag AND max_id <= pg_sequence_last_value(leaf.high_water_of(incarnation));
        PERFORM leaf.mark_own(false);
    END LOOP;
END
$$;
COMMENT ON FUNCTION leaf.fold() IS 'raises max_id past the blocks of transactions that were rolled back: for use before the rows of leaf.alloc leave the database';

-- For its owner, locks all that grants and leases read or write, until the transaction ends.
CREATE FUNCTION leaf.hold_all(caller text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- While a dump is restored, all may execute what calls this.
    IF NOT pg_has_role(leaf.asker(), (SELECT relowner FROM pg_class WHERE oid = 'leaf.alloc'::regclass), 'USAGE') THEN
        PERFORM leaf.fail('42501', format('permission denied for function %s', caller), 'Call it as the owner of leaf.alloc.');
    END IF;
    -- What is committed while this waits for the locks has to be seen.
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        PERFORM leaf.fail('25001', format('%s cannot run at isolation level %s', caller, upper(current_setting('transaction_isolation'))),
            'Call it in a transaction at READ COMMITTED.');
    END IF;
    -- In the order in which others lock them; what waits for a lease holds up no grant.
    LOCK TABLE leaf.worker, leaf.alloc, leaf.plain IN EXCLUSIVE MODE;
    PERFORM leaf.insist_on_durable_commit();
END
$$;

CREATE FUNCTION leaf.close() RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    SET lock_timeout = '5s' AS $$
BEGIN
    PERFORM leaf.hold_all('leaf.close');
    UPDATE leaf.plain SET place = 'moved';
    -- Older snapshots do not show that: what they grant or renew fails at its row.
    UPDATE leaf.alloc SET step = step;
    UPDATE leaf.worker SET node = node;
    PERFORM leaf.fold();
END
$$;
COMMENT ON FUNCTION leaf.close() IS 'before the rows leave for another database: no ids are granted and no worker ids leased here until leaf_new_history() is called, and max_id is raised as leaf.fold() does';

CREATE FUNCTION @extschema@.leaf_new_history() RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    SET client_min_messages = warning SET lock_timeout = '5s' AS $$
DECLARE
    incarnation pg_catalog.uuid;
BEGIN
    PERFORM leaf.hold_all('leaf_new_history');
    -- A restore may have left them as ordinary ones.
    ALTER TABLE leaf.alloc ENABLE ALWAYS TRIGGER leaf_check;
    ALTER TABLE leaf.alloc ENABLE ALWAYS TRIGGER leaf_changed;
    ALTER TABLE leaf.alloc ENABLE ALWAYS TRIGGER leaf_truncated;
    ALTER TABLE leaf.worker ENABLE ALWAYS TRIGGER leaf_check;
    ALTER TABLE leaf.worker ENABLE ALWAYS TRIGGER leaf_truncated;
    FOR incarnation IN SELECT a.incarnation FROM leaf.alloc AS a LOOP
        PERFORM leaf.make_high_water(incarnation);
    END LOOP;
    PERFORM leaf.fold();
    -- From now on, all rows are of another history: grants skip, and other worker ids are leased. A
    -- restored schema has no rows.
    INSERT INTO leaf.plain (version, place) SELECT '@version@', place FROM leaf.identity()
        ON CONFLICT ((true)) DO UPDATE SET nonce = gen_random_uuid(), place = excluded.place;
    INSERT INTO leaf.mask_secret SELECT WHERE NOT EXISTS (SELECT FROM leaf.mask_secret);
    UPDATE leaf.alloc SET may_lack_feeds = true WHERE upstream_tag IS NULL;
    -- Nodes of the original renew and release nothing here.
    UPDATE leaf.worker SET nonce = gen_random_uuid();
    PERFORM leaf.begin_registry();
END
$$;
COMMENT ON FUNCTION @extschema@.leaf_new_history() IS 'for a restored, branched or cloned database: its tags skip numbers, its nodes get other worker ids, and no lease of the original is renewed here';

-- Another registry: leases of the original are none of this one.
CREATE FUNCTION leaf.begin_registry() RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT setval('leaf.registry_incarnation', greatest(1, uuid_hash_extended(gen_random_uuid(), 0) & 9223372036854775807));
$$;

-- Others may create operators in the schema of the functions.
SET LOCAL search_path = pg_catalog, pg_temp;
DO $$
DECLARE
    -- Where they are, whatever its name means now.
    home  oid := (SELECT p.pronamespace FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid
                   WHERE t.tgrelid = 'leaf.alloc'::regclass AND t.tgname = 'leaf_check');
    other text;
    is_administrator boolean := @is_administrator@;
BEGIN
    IF NOT EXISTS (
            SELECT FROM pg_namespace AS n JOIN pg_database AS d ON d.datname = current_database()
              JOIN pg_roles AS r ON r.oid = CASE n.nspowner::regrole::text WHEN 'pg_database_owner' THEN d.datdba ELSE n.nspowner END
             -- A role that may create others can be the host's, whose schema it is.
             WHERE n.oid = home
               AND (r.rolsuper OR r.rolname = session_user
                    OR NOT is_administrator AND (r.rolcreaterole OR r.rolname = current_user))) THEN
        -- Who owns a schema can drop the functions in it, and put others in their place.
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = $message$schema @extschema@ belongs to another role$message$,
            HINT = 'Connect as its owner, or set that role (PGOPTIONS=-crole=...); or name a schema of your own with --schema.';
    END IF;
    SELECT oid::regprocedure INTO other FROM pg_proc
     WHERE pronamespace = home AND proname = ANY ('{@functions@}')
       AND proowner <> (SELECT oid FROM pg_roles WHERE rolname = current_user) LIMIT 1;
    IF other IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'duplicate_function', MESSAGE = format('function %s already exists', other),
            HINT = 'Drop it, or name another schema with --schema.';
    ELSIF current_setting('leaf_plain.is_new')::boolean THEN
        PERFORM leaf.take_back(home);
    END IF;
END
$$;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA leaf FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION @extschema@.leaf_new_history() FROM PUBLIC;
-- What triggers and readers of ids call as the role that runs them. None of them tells a secret or writes.
GRANT EXECUTE ON FUNCTION leaf.fail(text, text, text, text), leaf.history(), leaf.is_copy(),
    leaf.any_mask_secret(), leaf.registered_scheme(), leaf.scheme(), leaf.require_scheme(text, timestamptz, text, timestamptz),
    leaf.layout(text), leaf.unix_us(timestamptz), leaf.instant(bigint), leaf.tick_at(timestamptz, timestamptz, bigint),
    leaf.begin_of(bigint, timestamptz, bigint), leaf.ids_left(bigint, bigint),
    leaf.high_water(uuid), leaf.high_water_of(uuid), leaf.is_own() TO PUBLIC;

INSERT INTO leaf.plain (version, place) SELECT '@version@', place FROM leaf.identity();
UPDATE leaf.plain SET version = '@version@';
