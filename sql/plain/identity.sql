/*
 * Who asks, which database this is, and errors. Functions that only leaf's own call run with the
 * search_path of those; a draw calls so many that each SET counts. The types of variables are
 * qualified in all functions: PL/pgSQL looks them up once in a session, also for
 * plpgsql_validator(), which does not SET. Functions in SQL are planned at each call, except those
 * that become part of the statement that calls them: without SET, and with RETURN or, if they are
 * STABLE, with a set as result.
 */
-- What is parsed now, as the bodies with RETURN are, must not find what others have in the schema of
-- the functions.
SET LOCAL search_path = pg_catalog, pg_temp;

-- RAISE cannot leave an option out.
CREATE FUNCTION leaf.fail(code text, message text, hint text, detail text DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF detail IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, HINT = hint;
    END IF;
    RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, HINT = hint, DETAIL = detail;
END
$$;

-- The role of this name: none if it has got the name since the snapshot was taken, or since the session has
-- taken note of roles, which it need not do within a transaction.
CREATE FUNCTION leaf.role_of(name name) RETURNS SETOF oid
    LANGUAGE sql STABLE AS $$
    SELECT r.oid FROM pg_roles AS r WHERE r.rolname = name AND r.oid = to_regrole(quote_ident(name));
$$;

-- Nobody else may write to the system catalogs, whatever is granted.
CREATE FUNCTION leaf.is_superuser(asker oid) RETURNS boolean
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN has_table_privilege(asker, 'pg_catalog.pg_authid'::regclass, 'UPDATE')
       AND EXISTS (SELECT FROM pg_roles AS r WHERE r.oid = asker AND r.rolsuper);
END
$$;

-- Whom the session has authenticated as. It is the same as long as a session lasts, which is as long as plans are
-- kept. The name of the role may be another one's by now: within a transaction, the session need not take note
-- of that.
CREATE FUNCTION leaf.authenticated() RETURNS oid
    LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN (SELECT a.usesysid FROM pg_stat_get_activity(pg_backend_pid()) AS a);
END
$$;

/*
 * The role that asks: that of the session, because functions run as their owner. While the server
 * itself runs code of a table's owner, as ANALYZE, REINDEX and REFRESH MATERIALIZED VIEW do, the
 * session's role is not that of the code. UNLISTEN does nothing here, and is refused then.
 */
CREATE FUNCTION leaf.asker() RETURNS oid
    LANGUAGE plpgsql AS $$
DECLARE
    role  pg_catalog.name := current_setting('role');
    -- Empty where the server runs code without a login.
    login pg_catalog.name := nullif(current_setting('session_authorization'), '');
    asker pg_catalog.oid;
BEGIN
    UNLISTEN leaf_plain_asker;
    -- If the authenticated role is a superuser, there may have been SET SESSION AUTHORIZATION.
    IF to_regrole(quote_ident(login))::oid = leaf.authenticated() AND session_user = login THEN
        asker := leaf.authenticated();
    ELSE
        SELECT CASE WHEN r.rolsuper THEN (SELECT s.oid FROM leaf.role_of((SELECT session_user)) AS s(oid)) ELSE r.oid END
          INTO asker FROM pg_roles AS r WHERE r.oid = leaf.authenticated();
    END IF;
    IF role <> 'none' THEN
        -- The name is that of the role when it was set.
        asker := (SELECT r.oid FROM leaf.role_of(role) AS r(oid) WHERE pg_has_role(asker, r.oid,
                      CASE WHEN current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER' END));
    END IF;
    IF asker IS NULL THEN
        PERFORM leaf.fail('42501', format('the session has no role "%s"', coalesce(nullif(role, 'none'), pg_get_userbyid(leaf.authenticated()))),
            'Set the role again, in another transaction.',
            'It was renamed or dropped, or the membership has ended, since SET ROLE or since the transaction began.');
    END IF;
    RETURN asker;
END
$$;

-- Whether a role has the privileges of one of these, of which some may not exist.
CREATE FUNCTION leaf.has_role(asker oid, VARIADIC roles name[]) RETURNS SETOF boolean
    LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM pg_roles AS r
                    WHERE r.rolname = ANY (roles) AND r.oid = to_regrole(quote_ident(r.rolname))
                      AND pg_has_role(asker, r.oid, 'USAGE'))
        OR leaf.is_superuser(asker);
$$;

-- The database and its cluster, as far as the host shows it: the same as long as plans are kept. pg_upgrade makes another one.
CREATE FUNCTION leaf.database() RETURNS text
    LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    database pg_catalog.oid := (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database());
BEGIN
    RETURN format('%s/%s', (pg_control_system()).system_identifier, database);
EXCEPTION WHEN program_limit_exceeded OR insufficient_resources OR lock_not_available OR transaction_rollback
    OR operator_intervention OR system_error THEN
    RAISE;
WHEN OTHERS THEN
    RETURN format('? %s/%s', current_setting('server_version_num')::integer / 10000, database);
END
$$;

-- The timeline, as far as the host shows it.
CREATE FUNCTION leaf.shown_timeline() RETURNS text
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN left(pg_walfile_name(pg_current_wal_lsn()), 8);
EXCEPTION WHEN program_limit_exceeded OR insufficient_resources OR lock_not_available OR transaction_rollback
    OR operator_intervention OR system_error THEN
    -- It is not hidden: the stack may be at its end, or the catalogs locked.
    RAISE;
WHEN OTHERS THEN
    RETURN '?';
END
$$;

-- The same as long as sessions last, once the server is a primary; null if the host has hidden it from this one.
CREATE FUNCTION leaf.primary_timeline() RETURNS text
    LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN nullif(leaf.shown_timeline(), '?');
END
$$;

CREATE FUNCTION leaf.timeline() RETURNS text
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF pg_is_in_recovery() THEN
        RETURN '?';
    END IF;
    RETURN coalesce(leaf.primary_timeline(), leaf.shown_timeline());
END
$$;

-- Where the tables are: a restored dump is in another place, a promoted standby is not. The history
-- of this database, which a promotion and leaf_new_history() begin anew. Whether the rows may be a
-- copy of those of another place.
CREATE FUNCTION leaf.identity() RETURNS TABLE (place text, history text, is_copy boolean)
    LANGUAGE sql STABLE AS $$
    SELECT f.place, format('plain/%s/%s', leaf.timeline(), p.nonce),
           f.place IS DISTINCT FROM p.place
        -- A restore with --disable-triggers leaves them as ordinary ones; the owner of a schema can drop
        -- a function in it, and so its triggers.
        OR (SELECT count(*) FROM pg_trigger WHERE tgrelid IN ('leaf.alloc'::regclass, 'leaf.worker'::regclass)
                AND tgname IN ('leaf_check', 'leaf_changed', 'leaf_truncated') AND tgenabled = 'A') <> 5
      FROM (SELECT format('%s/%s', leaf.database(), 'leaf.alloc'::regclass::oid) AS place) AS f LEFT JOIN leaf.plain AS p ON true;
$$;

CREATE FUNCTION leaf.history() RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
    SELECT history FROM leaf.identity();
$$;

CREATE FUNCTION leaf.is_copy() RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
    SELECT is_copy FROM leaf.identity();
$$;

CREATE FUNCTION leaf.refuse_copy() RETURNS void
    LANGUAGE sql AS $$
    SELECT leaf.fail('55000', 'this database has been restored or copied',
        'Make sure that the original issues no ids any more, or that the copy is meant to have others, and call leaf_new_history() as the owner of leaf.alloc.',
        'What the original has granted since is not in its tables.');
$$;

-- What is answered must be durable once the transaction is committed; that a wait for the standby was
-- cancelled is only a warning, which clients must see.
CREATE FUNCTION leaf.insist_on_durable_commit() RETURNS text
    LANGUAGE sql RETURN concat(
        CASE WHEN current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')
             THEN set_config('synchronous_commit', 'on', true) END,
        CASE WHEN current_setting('client_min_messages') = 'error'
             THEN set_config('client_min_messages', 'warning', true) END);

CREATE FUNCTION leaf.refuse_in_recovery(what text) RETURNS boolean
    LANGUAGE plpgsql AS $$
BEGIN
    IF what = 'draw ids' THEN
        PERFORM leaf.fail('25006', 'cannot draw ids while the server is in recovery', 'Draw them on the primary, or promote this server.');
    END IF;
    PERFORM leaf.fail('25006', format('cannot %s while the server is in recovery', what), 'Change them on the primary.');
END
$$;

CREATE FUNCTION leaf.require_primary(what text) RETURNS boolean
    LANGUAGE sql RETURN CASE WHEN pg_is_in_recovery() THEN leaf.refuse_in_recovery(what) END;

-- Marks the statements of leaf's own functions for its triggers, until it is taken back.
CREATE FUNCTION leaf.mark_own(is_own boolean) RETURNS text
    LANGUAGE sql RETURN set_config('leaf_plain.own', CASE WHEN is_own THEN 'on' ELSE 'off' END, true);

-- Whether a trigger is fired by one of these: a session can have set the mark, but only leaf may execute what sets it.
CREATE FUNCTION leaf.is_own() RETURNS boolean
    LANGUAGE sql STABLE RETURN coalesce(current_setting('leaf_plain.own', true), '') = 'on'
        AND has_function_privilege('leaf.mark_own(boolean)'::regprocedure, 'EXECUTE');
