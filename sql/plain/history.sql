/*
 * Which database this is: cluster, database, table and nonce make the registry of worker ids, and the
 * timeline makes its history. A restored dump is another registry; a promotion is another history of
 * the same one. Rows remember the history in which they were last granted.
 */

CREATE OR REPLACE FUNCTION leaf.fail(code text, message text, hint text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, HINT = hint;
END
$$;

CREATE OR REPLACE FUNCTION leaf.identity(OUT registry uuid, OUT history text)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place    text := (SELECT format('%s/%s/%s', d.oid, 'leaf.alloc'::regclass::oid, (SELECT nonce FROM leaf.plain))
                        FROM pg_database AS d WHERE d.datname = current_database());
    -- A restore with --disable-triggers, whose rows no trigger has seen, writes it anew.
    trigger  text := (SELECT xmin FROM pg_trigger WHERE tgrelid = 'leaf.alloc'::regclass AND tgname = 'leaf_check');
    timeline text := '?';
BEGIN
    -- A host may hide these two.
    BEGIN
        place := (SELECT system_identifier FROM pg_control_system()) || '/' || place;
    EXCEPTION WHEN insufficient_privilege OR feature_not_supported THEN
    END;
    BEGIN
        timeline := left(pg_walfile_name(pg_current_wal_lsn()), 8);
    EXCEPTION WHEN insufficient_privilege OR feature_not_supported THEN
    END;
    registry := left(encode(sha256(convert_to(place, 'UTF8')), 'hex'), 32)::uuid;
    history := format('plain/%s/%s/%s/%s', registry, timeline, trigger, place);
END
$$;

-- For a copy that was made of files, such as a branch or a snapshot.
CREATE OR REPLACE FUNCTION @extschema@.leaf_new_history() RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
    UPDATE leaf.plain SET nonce = gen_random_uuid();
$$;

CREATE OR REPLACE FUNCTION @extschema@.leaf_alloc_check() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        -- A row that brings a history along is a copy, whose original may have granted more since.
        NEW.is_copy := NEW.history IS NOT NULL;
        NEW.history := coalesce(NEW.history, (SELECT i.history FROM leaf.identity() AS i));
    ELSIF NEW.max_id < OLD.max_id AND current_setting('session_replication_role') = 'replica' THEN
        -- It was valid where it was made.
        NEW.max_id := OLD.max_id;
    ELSIF NEW.max_id < OLD.max_id THEN
        PERFORM leaf.fail('22023', format('tag "%s" cannot move backwards', OLD.biz_tag),
            format('Choose %s or more, or drop the tag and create it again.', OLD.max_id));
    END IF;
    NEW.update_time := clock_timestamp();
    RETURN NEW;
END
$$;
CREATE OR REPLACE TRIGGER leaf_check BEFORE INSERT OR UPDATE ON leaf.alloc
    FOR EACH ROW EXECUTE FUNCTION @extschema@.leaf_alloc_check();
-- Apply workers and restores run with session_replication_role = replica, in which ordinary triggers do not fire.
ALTER TABLE leaf.alloc ENABLE ALWAYS TRIGGER leaf_check;

/*
 * What each procedure begins with. It has a transaction to itself, so that what it answers is
 * committed: pools and drivers roll back as they like. In a block with EXCEPTION, COMMIT always fails,
 * but with another message where there is an open transaction, as there is in a function.
 */
CREATE OR REPLACE FUNCTION leaf.refusal_to_commit() RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    refusal text;
BEGIN
    COMMIT;
EXCEPTION WHEN invalid_transaction_termination THEN
    GET STACKED DIAGNOSTICS refusal = MESSAGE_TEXT;
    RETURN refusal;
END
$$;

-- Of procedures that commit, no settings can be fixed: all names are qualified.
CREATE OR REPLACE PROCEDURE leaf.begin_transaction()
    LANGUAGE plpgsql AS $$
DECLARE
    refusal pg_catalog.text;
BEGIN
    IF pg_catalog.pg_is_in_recovery() THEN
        PERFORM leaf.fail('25006', 'cannot draw ids while the server is in recovery',
            'Draw them on the primary, or promote this server.');
    END IF;
    BEGIN
        COMMIT;
    EXCEPTION WHEN invalid_transaction_termination THEN
        GET STACKED DIAGNOSTICS refusal = MESSAGE_TEXT;
    END;
    IF refusal OPERATOR(pg_catalog.=) leaf.refusal_to_commit() THEN
        PERFORM leaf.fail('2D000', 'ids cannot be drawn within an open transaction',
            'Use CALL on a connection in autocommit mode, outside of BEGIN and of blocks with EXCEPTION.');
    END IF;
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
    PERFORM pg_catalog.set_config('leaf_plain.is_called', 'on', true);
END
$$;

-- That a wait for the standby was cancelled is only a warning, which clients must see.
CREATE OR REPLACE FUNCTION leaf.insist_on_durable_commit() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM leaf.fail('2D000', 'only the procedures of leaf grant and lease', 'Use CALL leaf_segment_reserve(...).')
      WHERE current_setting('leaf_plain.is_called', true) IS DISTINCT FROM 'on';
    PERFORM set_config('synchronous_commit', 'on', true)
      WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write');
    PERFORM set_config('client_min_messages', 'warning', true) WHERE current_setting('client_min_messages') = 'error';
END
$$;
