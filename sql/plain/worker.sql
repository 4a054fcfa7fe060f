/*
 * The registry of worker ids, in five checks: the lowest worker id that is free or whose lease has
 * expired; a lease begins above the ceiling of the one before; nonce and token show whose lease it is;
 * a node's clock must be near this server's; and what another history has leased is not free soon.
 */

-- Raises an error for a clock that is too far off; how far a ceiling is to be ahead.
CREATE OR REPLACE FUNCTION leaf.check_clock(clock timestamptz, now timestamptz, ahead interval) RETURNS interval
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    most interval := (SELECT max_clock_offset FROM leaf.plain);
BEGIN
    IF coalesce(ahead, '5 s') NOT BETWEEN '100 ms' AND '1 d' THEN
        PERFORM leaf.fail('22023', 'ahead is out of range', 'A ceiling can be from 100 ms to one day ahead.');
    ELSIF clock NOT BETWEEN now - most AND now + most THEN
        PERFORM leaf.fail('58000', format('the clock is not credible: it shows %s instead of %s', clock, now),
            'Correct the clock, or the registry''s; max_clock_offset in leaf.plain sets how far off a clock can be.');
    END IF;
    RETURN coalesce(ahead, '5 s');
END
$$;

-- From when on a worker id can be leased again. A failover may have lost that its lease was prolonged; where the rows
-- were copied, the original may go on to prolong it.
CREATE OR REPLACE FUNCTION leaf.free_from(w leaf.worker, history text) RETURNS timestamptz
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT greatest(w.leased_until, w.ceiling)
         + CASE WHEN w.history <> $2 THEN (SELECT worker_reuse_after FROM leaf.plain) ELSE interval '0' END;
$$;

-- The lowest worker id that can be leased. If rows are of another history, any one: the original, or the former
-- primary, may have leased the lowest.
CREATE OR REPLACE FUNCTION leaf.choose_worker_id(wanted integer, worker_ids bigint, history text) RETURNS integer
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_copy boolean := EXISTS (SELECT FROM leaf.worker AS w WHERE w.history <> choose_worker_id.history);
    chosen  integer;
BEGIN
    IF wanted NOT BETWEEN 0 AND worker_ids - 1 THEN
        PERFORM leaf.fail('22023', format('worker id %s is out of range', wanted),
            format('Choose one from 0 to %s, or leave it out to lease any.', worker_ids - 1));
    END IF;
    SELECT g.id INTO chosen
      FROM (SELECT coalesce(wanted, CASE WHEN is_copy THEN floor(random() * worker_ids)::bigint ELSE n END) AS id
              FROM generate_series(0, least(worker_ids - 1, 4096, CASE WHEN NOT is_copy THEN (SELECT count(*) FROM leaf.worker) END)) AS n) AS g
      LEFT JOIN leaf.worker AS w ON w.worker_id = g.id
     WHERE w.worker_id IS NULL OR leaf.free_from(w, choose_worker_id.history) < clock_timestamp()
     ORDER BY CASE WHEN is_copy THEN random() END, g.id LIMIT 1;
    IF chosen IS NULL AND wanted IS NOT NULL THEN
        PERFORM leaf.fail('55006', format('worker id %s is held by another node', wanted),
            'Choose another one, or wait: see leased_until in leaf.worker, and worker_reuse_after in leaf.plain.');
    ELSIF chosen IS NULL THEN
        PERFORM leaf.fail('53400', 'no worker id is left for snowflake ids',
            'Wait until leases expire, or delete rows of leaf.worker whose ceilings have passed.');
    END IF;
    RETURN chosen;
END
$$;

CREATE OR REPLACE FUNCTION leaf.register(
        node text, wanted integer, clock timestamptz, ahead interval, given uuid,
        OUT w leaf.worker, OUT registry uuid)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
    called  timestamptz := clock_timestamp();
    now     timestamptz;
    present record;
    s       record;
BEGIN
    IF char_length(node) BETWEEN 1 AND 256 IS NOT TRUE THEN
        PERFORM leaf.fail('22023', 'the name of a node must have 1 to 256 characters',
            'Choose a name that identifies the node to a reader of leaf.worker.');
    END IF;
    clock := coalesce(clock, called);
    ahead := leaf.check_clock(clock, called, ahead);
    PERFORM leaf.insist_on_durable_commit();
    -- Nothing is leased, renewed or released at the same time. While this waits, all clocks go on.
    LOCK TABLE leaf.worker IN SHARE ROW EXCLUSIVE MODE;
    now := clock_timestamp();
    clock := clock + (now - called);
    SELECT * INTO present FROM leaf.identity();
    registry := present.registry;
    -- Locked, so that there is something to commit: the commit before may not have been confirmed.
    SELECT * INTO w FROM leaf.worker AS r WHERE r.nonce = given FOR NO KEY UPDATE;
    IF FOUND AND w.token < 0 AND w.history ^@ ('plain/' || registry)
       AND w.node = node AND w.worker_id = coalesce(wanted, w.worker_id) THEN
        -- The same registration once more, because its answer was lost.
        RETURN;
    ELSIF FOUND THEN
        PERFORM leaf.fail('55000', 'the nonce has been used for another lease',
            'Make a new nonce for each registration, such as gen_random_uuid() returns.');
    ELSIF leaf.scheme(false) IS DISTINCT FROM leaf.scheme(true) OR (leaf.scheme(true)).epoch > now THEN
        PERFORM leaf.fail('55000', format('layout and epoch %s are not the registered %s, or the epoch has not begun',
                leaf.scheme(true), leaf.scheme(false)),
            'Set snowflake_layout and snowflake_epoch in leaf.plain back: other ids could repeat existing ones.');
    END IF;
    SELECT p.max_clock_offset, c.layout, c.epoch, l.tick_us, l.worker_ids INTO s
      FROM leaf.plain AS p, leaf.scheme(true) AS c, leaf.layout(c.layout) AS l;
    w.worker_id := leaf.choose_worker_id(wanted, s.worker_ids, present.history);
    -- Above the ceiling of the last lease, and not before the clock.
    w.ceiling := (SELECT r.ceiling FROM leaf.worker AS r WHERE r.worker_id = w.worker_id);
    w.start_at := greatest(clock, w.ceiling + (s.tick_us - 1) * interval '1 microsecond');
    w.start_at := leaf.begin_of(leaf.tick_at(w.start_at, s.epoch, s.tick_us), s.epoch, s.tick_us);
    w.ceiling := w.start_at + greatest(least(ahead, '30 s'), s.tick_us * interval '2 microseconds');
    DELETE FROM leaf.worker AS r WHERE r.worker_id = w.worker_id;
    -- The token is negative until the lease is renewed for the first time.
    INSERT INTO leaf.worker AS r (worker_id, node, nonce, token, history,
        layout, epoch, start_at, ceiling, leased_until, leased_by, clock_offset_ms)
    VALUES (w.worker_id, node, coalesce(given, gen_random_uuid()), -leaf.unix_us(now)::bigint, present.history,
        s.layout, s.epoch, w.start_at, w.ceiling, greatest(now, w.ceiling) + s.max_clock_offset,
        session_user, extract(epoch FROM clock - now) * 1000) RETURNING r.* INTO w;
END
$$;

CREATE OR REPLACE PROCEDURE @extschema@.leaf_worker_register(
        node text, INOUT worker_id integer DEFAULT NULL, clock timestamptz DEFAULT NULL, ahead interval DEFAULT NULL,
        INOUT nonce uuid DEFAULT NULL, INOUT token bigint DEFAULT NULL, INOUT start_at timestamptz DEFAULT NULL,
        INOUT ceiling timestamptz DEFAULT NULL, INOUT layout text DEFAULT NULL, INOUT epoch timestamptz DEFAULT NULL,
        INOUT registry uuid DEFAULT NULL, INOUT history text DEFAULT NULL)
    LANGUAGE plpgsql AS $$
BEGIN
    CALL leaf.begin_transaction();
    SELECT (r.w).worker_id, (r.w).nonce, (r.w).token, (r.w).start_at, (r.w).ceiling, (r.w).layout, (r.w).epoch,
           r.registry, (r.w).history
      INTO worker_id, nonce, token, start_at, ceiling, layout, epoch, registry, history
      FROM leaf.register(node, worker_id, clock, ahead, nonce) AS r;
    COMMIT;
END
$$;

-- The row of a lease, locked; an error if it is not the caller's.
CREATE OR REPLACE FUNCTION leaf.lease(lease_of integer, given uuid, present_token bigint, next_token bigint,
        OUT w leaf.worker, OUT registry uuid, OUT history text)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM leaf.insist_on_durable_commit();
    LOCK TABLE leaf.worker IN ROW EXCLUSIVE MODE;
    SELECT * INTO registry, history FROM leaf.identity();
    SELECT * INTO w FROM leaf.worker AS r
     WHERE r.worker_id = lease_of AND r.nonce = given AND r.token IN (present_token, next_token)
       AND r.history ^@ ('plain/' || lease.registry) FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        PERFORM leaf.fail('55000', format('the lease of worker id %s is lost', lease_of),
            'Stop issuing ids with it, and call leaf_worker_register: it was renewed or granted elsewhere, or removed.');
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION leaf.renew(
        lease_of integer, given uuid, present_token bigint, clock timestamptz, ahead interval, next_token bigint,
        OUT w leaf.worker, OUT registry uuid, OUT history text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
    called timestamptz := clock_timestamp();
    now    timestamptz;
    held   record;
BEGIN
    clock := coalesce(clock, called);
    ahead := leaf.check_clock(clock, called, ahead);
    IF next_token = present_token OR next_token < 2 THEN
        PERFORM leaf.fail('22023', 'next_token must be at least 2 and differ from token',
            'Propose a random number that was not used for this lease before.');
    END IF;
    SELECT * INTO held FROM leaf.lease(lease_of, given, present_token, next_token);
    w := held.w;
    registry := held.registry;
    history := held.history;
    IF w.token = next_token THEN
        -- The same renewal once more, because its answer was lost.
        RETURN;
    END IF;
    now := clock_timestamp();
    clock := clock + (now - called);
    ahead := greatest(ahead, (leaf.layout(w.layout)).tick_us * interval '2 microseconds');
    UPDATE leaf.worker AS r SET
           token = coalesce(next_token, abs(r.token) + 1),
           ceiling = greatest(r.ceiling, clock + ahead),
           leased_until = greatest(now, r.ceiling, clock + ahead) + (SELECT worker_lease FROM leaf.plain),
           renewed_at = now, history = renew.history, clock_offset_ms = extract(epoch FROM clock - now) * 1000
     WHERE r.worker_id = lease_of RETURNING r.* INTO w;
END
$$;

CREATE OR REPLACE PROCEDURE @extschema@.leaf_worker_renew(
        worker_id integer, nonce uuid, INOUT token bigint, clock timestamptz DEFAULT NULL,
        ahead interval DEFAULT NULL, next_token bigint DEFAULT NULL, INOUT ceiling timestamptz DEFAULT NULL,
        INOUT registry uuid DEFAULT NULL, INOUT history text DEFAULT NULL)
    LANGUAGE plpgsql AS $$
BEGIN
    CALL leaf.begin_transaction();
    SELECT (r.w).token, (r.w).ceiling, r.registry, r.history INTO token, ceiling, registry, history
      FROM leaf.renew(worker_id, nonce, token, clock, ahead, next_token) AS r;
    COMMIT;
END
$$;

CREATE OR REPLACE FUNCTION leaf.release(lease_of integer, given uuid, present_token bigint, used_until timestamptz)
    RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
    w leaf.worker := (SELECT l.w FROM leaf.lease(lease_of, given, present_token, NULL) AS l);
BEGIN
    UPDATE leaf.worker AS r SET
           -- Not below the beginning of the lease: its predecessors may have issued ids until then.
           ceiling = least(r.ceiling, greatest(least(used_until, r.ceiling), r.start_at)),
           leased_until = least(r.leased_until, clock_timestamp()),
           token = abs(r.token) + 1
     WHERE r.worker_id = w.worker_id;
END
$$;

CREATE OR REPLACE PROCEDURE @extschema@.leaf_worker_release(
        worker_id integer, nonce uuid, token bigint, used_until timestamptz DEFAULT NULL)
    LANGUAGE plpgsql AS $$
BEGIN
    CALL leaf.begin_transaction();
    PERFORM leaf.release(worker_id, nonce, token, used_until);
    COMMIT;
END
$$;
