/*
 * The registry of worker ids: the rules of the library, with its clock. A registration is part of
 * the caller's transaction, which must be committed before ids are issued.
 */

-- Layout and epoch of the rows, if there is one.
CREATE FUNCTION leaf.registered_scheme(OUT layout text, OUT epoch timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
    SELECT layout, epoch FROM leaf.worker ORDER BY worker_id LIMIT 1;
$$;

-- Layout and epoch of the rows, if there is one. Keeps leaf.plain as it is until the transaction ends, also if
-- all rows are deleted meanwhile. The first row settles layout and epoch for all others: whoever makes it waits for
-- any other who does, and fails if its snapshot is older.
CREATE FUNCTION leaf.settle_scheme(OUT layout text, OUT epoch timestamptz)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    SET lock_timeout = '5s' AS $$
BEGIN
    IF EXISTS (SELECT FROM leaf.worker) THEN
        PERFORM FROM leaf.plain FOR SHARE;
        SELECT * INTO layout, epoch FROM leaf.registered_scheme();
    END IF;
    IF layout IS NULL THEN
        UPDATE leaf.plain SET version = version;
        SELECT * INTO layout, epoch FROM leaf.registered_scheme();
    END IF;
END
$$;

-- Layout and epoch of this database, with the fields of the layout.
CREATE FUNCTION leaf.scheme(OUT layout text, OUT epoch timestamptz, OUT tick_us bigint, OUT ticks bigint,
        OUT worker_ids bigint, OUT sequences bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    l pg_catalog.record;
BEGIN
    SELECT * INTO layout, epoch FROM leaf.registered_scheme();
    IF layout IS NULL THEN
        SELECT snowflake_layout, snowflake_epoch INTO layout, epoch FROM leaf.plain;
    END IF;
    SELECT * INTO l FROM leaf.layout(layout);
    layout := l.name;
    epoch := coalesce(epoch, leaf.instant(l.epoch_us));
    tick_us := l.tick_us;
    ticks := l.ticks;
    worker_ids := l.worker_ids;
    sequences := l.sequences;
END
$$;

CREATE FUNCTION leaf.require_scheme(layout text, epoch timestamptz, registered text, registered_epoch timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (layout, epoch) IS DISTINCT FROM (registered, registered_epoch) THEN
        PERFORM leaf.fail('55000', 'layout or epoch of snowflake ids differs from the registered one',
            'Set snowflake_layout and snowflake_epoch in leaf.plain to the registered values; ids of another layout or epoch could repeat existing ones.',
            format('Registered: Layout %s, epoch %s. Requested: Layout %s, epoch %s.', registered, registered_epoch, layout, epoch));
    END IF;
END
$$;

-- Which registry this is.
CREATE FUNCTION leaf.registry() RETURNS uuid
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT lpad(to_hex(last_value), 32, '0')::uuid FROM leaf.registry_incarnation;
$$;

-- What a registration, a renewal and a release have in common.
CREATE FUNCTION leaf.begin_lease() RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    present pg_catalog.record;
BEGIN
    -- A session can have set the mark.
    PERFORM leaf.require_primary('draw ids'), leaf.mark_own(false), leaf.insist_on_durable_commit();
    -- What has waited for leaf_new_history() is of the new history.
    LOCK TABLE leaf.worker IN ROW EXCLUSIVE MODE;
    SELECT * INTO present FROM leaf.identity();
    IF present.is_copy THEN
        PERFORM leaf.refuse_copy();
    ELSIF EXISTS (SELECT FROM leaf.worker WHERE upstream_ceiling IS NOT NULL) THEN
        PERFORM leaf.fail('55000', 'this server leases no worker ids, because its own comes from a centre', 'Register the node at the centre.');
    END IF;
    RETURN present.history;
END
$$;

CREATE FUNCTION leaf.check_clock(clock timestamptz, now timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    us bigint := leaf.unix_us(clock) - leaf.unix_us(now);
BEGIN
    IF abs(us) > (SELECT extract(epoch FROM max_clock_offset) * 1000000 FROM leaf.plain) THEN
        PERFORM leaf.fail('58000', 'the clock is not credible',
            'Correct the clock, or that of the registry if it is the wrong one; max_clock_offset in leaf.plain sets how far off a clock can be.',
            format('It is %s s off the registry''s clock.', to_char(us / 1000000.0, 'SFM9999999990.000')));
    END IF;
END
$$;

CREATE FUNCTION leaf.check_instant(at timestamptz, name text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT isfinite(at) THEN
        PERFORM leaf.fail('22023', format('%s must not be infinite', name), 'Give an instant, such as clock_timestamp().');
    END IF;
END
$$;

-- How far ahead of the clock a ceiling should be.
CREATE FUNCTION leaf.check_ahead(ahead interval) RETURNS interval
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF ahead IS NULL THEN
        RETURN (SELECT ceiling_ahead FROM leaf.plain);
    ELSIF extract(year FROM ahead) <> 0 OR extract(month FROM ahead) <> 0 OR ahead NOT BETWEEN '100 ms' AND '24 h' THEN
        PERFORM leaf.fail('22023', 'ahead is out of range', 'A ceiling can be from 100 milliseconds to one day ahead.');
    END IF;
    RETURN ahead;
END
$$;

-- The instant to which the ceiling of a node is raised, if its ids may have the time "last".
CREATE FUNCTION leaf.next_ceiling(clock timestamptz, last timestamptz, ahead interval) RETURNS timestamptz
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT leaf.begin_of(least(s.ticks, greatest(
               leaf.tick_from(greatest(clock + ahead, last + ahead / 4), s.epoch, s.tick_us),
               leaf.tick_at(greatest(clock, last), s.epoch, s.tick_us) + 2)), s.epoch, s.tick_us)
      FROM leaf.scheme() AS s;
$$;

-- A lease before "max_clock_lead" ahead of the clock could not begin.
CREATE FUNCTION leaf.may_begin(at timestamptz, clock timestamptz) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT at <= clock + max_clock_lead FROM leaf.plain;
$$;

-- The lowest worker id without a row, from one on.
CREATE FUNCTION leaf.unused_worker_id(first bigint, worker_ids bigint) RETURNS bigint
    LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM leaf.worker WHERE worker_id = first) THEN
        RETURN first;
    END IF;
    RETURN (SELECT w.worker_id + 1 FROM leaf.worker AS w
             WHERE w.worker_id >= first AND w.worker_id < worker_ids - 1
               AND NOT EXISTS (SELECT FROM leaf.worker AS l WHERE l.worker_id = w.worker_id + 1)
             ORDER BY w.worker_id LIMIT 1);
END
$$;

-- A worker id without a row: not one that another registration is about to take, if that is
-- possible. Only the last way reads many rows.
CREATE FUNCTION leaf.new_worker_id(present text, worker_ids bigint) RETURNS bigint
    LANGUAGE plpgsql AS $$
DECLARE
    chosen  bigint := floor(random() * worker_ids);
    highest integer;
BEGIN
    -- Copies of the registry may be choosing at the same time.
    IF NOT (SELECT coalesce(min(history) <> present OR max(history) <> present, false) FROM leaf.worker) THEN
        chosen := nextval('leaf.next_worker_id') % worker_ids;
        highest := (SELECT max(worker_id) FROM leaf.worker);
        IF EXISTS (SELECT FROM leaf.worker WHERE worker_id = chosen) AND highest < worker_ids - 1 THEN
            PERFORM setval('leaf.next_worker_id', highest);
            chosen := nextval('leaf.next_worker_id') % worker_ids;
        END IF;
    END IF;
    FOR attempt IN 1..10 LOOP
        IF NOT EXISTS (SELECT FROM leaf.worker WHERE worker_id = chosen) THEN
            RETURN chosen;
        END IF;
        chosen := floor(random() * worker_ids);
    END LOOP;
    RETURN coalesce(leaf.unused_worker_id(chosen, worker_ids), leaf.unused_worker_id(0, worker_ids));
END
$$;

-- The row of the worker id that a node gets, or a new worker id.
CREATE FUNCTION leaf.choose_worker_id(wanted integer, present text, now timestamptz, OUT worker_id integer, OUT is_new boolean)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    s     pg_catalog.record;
    p     leaf.plain;
    w     leaf.worker;
    until pg_catalog.timestamptz;
BEGIN
    SELECT * INTO s FROM leaf.scheme();
    SELECT * INTO p FROM leaf.plain;
    IF wanted >= s.worker_ids THEN
        PERFORM leaf.fail('22023', format('worker id %s is out of range', wanted), 'Choose a worker id within the range; or leave it out, which is -1 in leaf.worker_id, to lease any.',
            format('Layout %s has the worker ids 0 to %s.', s.layout, s.worker_ids - 1));
    ELSIF wanted IS NOT NULL THEN
        SELECT * INTO w FROM leaf.worker WHERE worker_id = wanted;
        until := CASE WHEN leaf.may_begin(w.ceiling, now) THEN w.leased_until ELSE greatest(w.leased_until, w.ceiling) END;
        IF w.history <> present AND until + p.worker_reuse_after >= now THEN
            PERFORM leaf.fail('55006', format('worker id %s was leased in another history of this database', wanted),
                'Choose another worker id; or, if its holder does not run any more, call leaf_worker_take_over with the worker id.',
                format('Its holder, "%s", may still be running there.', w.node));
        ELSIF w.history = present AND until >= now THEN
            PERFORM leaf.fail('55006', format('worker id %s is held by another node', wanted),
                'Choose another worker id, or try again after that time.',
                format('Its holder is "%s", whose lease lasts until %s unless it is renewed.', w.node, until));
        END IF;
        is_new := w.worker_id IS NULL;
        worker_id := wanted;
        -- As it was seen. Not by token and nonce, which a plan that the host logs would tell the asker.
        PERFORM FROM leaf.worker AS l
          WHERE l.worker_id = wanted AND (l.history, l.ceiling, l.leased_until) = (w.history, w.ceiling, w.leased_until)
            FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT (FOUND OR is_new) THEN
            PERFORM leaf.contended();
        END IF;
        RETURN;
    END IF;
    is_new := false;
    SELECT l.worker_id INTO worker_id FROM leaf.worker AS l
     WHERE l.history = present AND l.leased_until < now AND l.worker_id < s.worker_ids AND l.ceiling <= now + p.max_clock_lead
     ORDER BY l.leased_until, l.worker_id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND THEN
        RETURN;
    END IF;
    worker_id := leaf.new_worker_id(present, s.worker_ids);
    is_new := worker_id IS NOT NULL;
    IF is_new THEN
        RETURN;
    END IF;
    SELECT l.worker_id INTO worker_id FROM leaf.worker AS l
     WHERE l.history <> present AND l.worker_id < s.worker_ids
       AND CASE WHEN l.ceiling <= now + p.max_clock_lead THEN l.leased_until
                ELSE greatest(l.leased_until, l.ceiling) END + p.worker_reuse_after < now
     ORDER BY l.leased_until, l.worker_id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        PERFORM leaf.fail('53400', 'no worker id is left for snowflake ids',
            'Delete rows of leaf.worker whose nodes are gone, or wait until their leases expire. After promotions, leaf_worker_take_over vouches that the former primaries are gone.',
            format('All worker ids of layout %s are leased; their number is %s.', s.layout, s.worker_ids));
    END IF;
END
$$;

CREATE FUNCTION leaf.contended() RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT leaf.fail('40001', 'could not lease a worker id due to concurrent leases', 'Try again.');
$$;

-- A role can hold only so many worker ids. Those that it gave back since its transaction began are not
-- free for others yet.
CREATE FUNCTION leaf.check_count(holder name, now timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    most integer := (SELECT max_leases FROM leaf.plain);
BEGIN
    IF holder IS NOT NULL
       AND (SELECT count(*) FROM (SELECT FROM leaf.worker AS l WHERE l.leased_by = holder
                                     AND l.leased_until >= least(now, transaction_timestamp()) LIMIT most) AS held) >= most THEN
        PERFORM leaf.fail('53400', format('the role holds %s worker ids already', most),
            'Leases of nodes that have ended run out by themselves, which leaf.worker shows. To allow more, raise max_leases in leaf.plain.');
    END IF;
END
$$;

CREATE FUNCTION leaf.require_stored(ceiling timestamptz, stored timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF stored IS DISTINCT FROM ceiling THEN
        PERFORM leaf.fail('09000', 'a lease was not stored in leaf.worker',
            'Make sure that your own triggers and rules on leaf.worker neither suppress updates nor change ceiling.');
    END IF;
END
$$;

CREATE FUNCTION leaf.register(node text, wanted integer, clock timestamptz, ahead interval, given uuid,
        OUT worker_id integer, OUT nonce uuid, OUT token bigint, OUT start_at timestamptz, OUT ceiling timestamptz,
        OUT layout text, OUT epoch timestamptz, OUT registry uuid, OUT history text)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    now     pg_catalog.timestamptz := clock_timestamp();
    later   pg_catalog.timestamptz;
    asker   pg_catalog.oid := leaf.asker();
    -- Superusers may hold any number.
    holder  pg_catalog.name := CASE WHEN NOT leaf.is_superuser(asker) THEN pg_get_userbyid(asker) END;
    call    pg_catalog.text := concat_ws(' ', statement_timestamp(), node);
    is_new  boolean;
    w       leaf.worker;
    s       pg_catalog.record;
    p       leaf.plain;
BEGIN
    IF node IS NULL OR char_length(node) NOT BETWEEN 1 AND 256 THEN
        PERFORM leaf.fail('22023', 'the name of a node must have 1 to 256 characters', 'Choose a name that identifies the node to a reader of leaf.worker.');
    ELSIF node ^@ 'server ' THEN
        PERFORM leaf.fail('22023', 'names of nodes that begin with "server " are reserved', 'Choose another name; these are used for servers.');
    ELSIF wanted < 0 THEN
        PERFORM leaf.fail('22023', format('worker id %s is negative', wanted), 'Leave it out to lease any worker id, or specify one of the layout.');
    END IF;
    PERFORM leaf.check_instant(clock, 'clock');
    ahead := leaf.check_ahead(ahead);
    clock := coalesce(clock, now);
    history := leaf.begin_lease();
    -- What is read here stays as it is, whatever this waits for.
    PERFORM leaf.settle_scheme();
    SELECT * INTO p FROM leaf.plain;
    SELECT * INTO s FROM leaf.scheme();
    -- Locked: what an older snapshot shows may have been released since.
    SELECT * INTO w FROM leaf.worker AS l WHERE l.nonce = given LIMIT 1 FOR NO KEY UPDATE;
    IF FOUND AND (w.token >= 0 OR w.node <> node OR w.start_at IS NULL OR w.worker_id <> wanted) THEN
        PERFORM leaf.fail('55000', 'the nonce has been used for another lease',
            'Make a new nonce for each registration, such as gen_random_uuid() returns; give the same nonce only to repeat the same registration.');
    ELSIF NOT FOUND THEN
        IF current_setting('leaf_plain.call', true) = call THEN
            -- Columns of several leases would be the answer.
            PERFORM leaf.fail('0A000', 'leaf_worker_register must be called in FROM', 'Use SELECT * FROM leaf_worker_register(...).',
                'In a select list, (function(...)).* would call it once for each column of the result. A statement registers a node once.');
        END IF;
        PERFORM set_config('leaf_plain.call', call, true);
        PERFORM leaf.require_scheme((leaf.layout(p.snowflake_layout)).name,
            coalesce(p.snowflake_epoch, leaf.instant((leaf.layout(p.snowflake_layout)).epoch_us)), s.layout, s.epoch);
        IF s.epoch > now THEN
            PERFORM leaf.fail('22023', 'the epoch of snowflake ids lies in the future',
                'Set snowflake_epoch in leaf.plain to a time that has passed, or correct the clock.', format('Layout %s, epoch %s.', s.layout, s.epoch));
        END IF;
        PERFORM leaf.check_count(holder, now), leaf.check_clock(clock, now);
        SELECT c.worker_id, c.is_new INTO worker_id, is_new FROM leaf.choose_worker_id(wanted, history, now) AS c;
        IF is_new THEN
            -- Not DO UPDATE: that would lock the row of another lease, and the error could wait for a
            -- client that does not read.
            INSERT INTO leaf.worker (worker_id, node, nonce, token, history, layout, epoch, ceiling, leased_until)
            VALUES (worker_id, node, gen_random_uuid(), 1, history, s.layout, s.epoch, s.epoch, now)
                ON CONFLICT ON CONSTRAINT worker_pkey DO NOTHING;
            IF NOT FOUND THEN
                PERFORM leaf.contended();
            END IF;
        END IF;
        SELECT * INTO w FROM leaf.worker AS l WHERE l.worker_id = worker_id;
        -- While it waited for locks, all clocks have gone on. Until a new row was there, another lease of
        -- the worker id may also have come and gone, which no snapshot has shown: what a credible clock
        -- shows from now on is above its ceiling.
        later := clock_timestamp();
        clock := clock + (later - now);
        now := later;
        -- Above the ceiling of the last lease, and not before the clock.
        start_at := leaf.begin_of(least(s.ticks, greatest(
            leaf.tick_from(w.ceiling, s.epoch, s.tick_us), leaf.tick_at(clock, s.epoch, s.tick_us))), s.epoch, s.tick_us);
        IF NOT leaf.may_begin(start_at, clock) THEN
            PERFORM leaf.fail('58000', 'the clock is behind the time up to which snowflake ids may have been issued',
                'Correct the clock, wait until it has passed that time, or register with a worker id that was never used.',
                format('That time is %s for worker id %s.', start_at, worker_id));
        END IF;
        ceiling := leaf.next_ceiling(clock, start_at, ahead);
        UPDATE leaf.worker AS l SET
               node = register.node, nonce = coalesce(given, gen_random_uuid()),
               -- That of a lease that was never renewed. If this registration arrives once more after the lease has
               -- ended, the token is another one.
               token = - greatest(leaf.unix_us(now), 1), history = register.history,
               layout = s.layout, epoch = s.epoch, ceiling = register.ceiling,
               leased_until = greatest(now, ceiling) + p.worker_lease,
               clock_offset_ms = (leaf.unix_us(clock) - leaf.unix_us(now)) / 1000.0,
               registered_at = now, renewed_at = now, start_at = register.start_at, leased_by = holder,
               upstream_nonce = NULL, upstream_token = NULL
         WHERE l.worker_id = w.worker_id RETURNING * INTO w;
        PERFORM leaf.require_stored(ceiling, w.ceiling);
    END IF;
    worker_id := w.worker_id;
    nonce := w.nonce;
    token := w.token;
    start_at := w.start_at;
    ceiling := w.ceiling;
    layout := w.layout;
    epoch := w.epoch;
    registry := leaf.registry();
END
$$;

-- Indexes answer what a lease asks, also if the planner does not know yet that the registry is large. A
-- day has 24 hours in UTC. What the planner is kept from would be costly enough to compile (15 to 17).
CREATE FUNCTION leaf_worker_register(...)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    SET timezone = 'UTC' SET lock_timeout = '5s'
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
    SELECT * FROM leaf.register($1 COLLATE "C", $2, $3, $4, $5);
$$;

-- The row of a lease, locked until the transaction ends.
CREATE FUNCTION leaf.lease_row(lease_of integer, nonce uuid, token bigint, next_token bigint) RETURNS leaf.worker
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    w leaf.worker;
BEGIN
    IF lease_of IS NULL OR nonce IS NULL OR token IS NULL THEN
        PERFORM leaf.fail('22023', 'worker id, nonce and token must not be null',
            'Give what leaf_worker_register and the last leaf_worker_renew returned.');
    END IF;
    -- Nobody else locks it: the error could wait for a client that does not read.
    SELECT * INTO w FROM leaf.worker AS l WHERE l.worker_id = lease_of AND l.nonce = lease_row.nonce FOR NO KEY UPDATE;
    IF NOT FOUND OR w.token NOT IN (token, coalesce(next_token, token)) THEN
        PERFORM leaf.fail('55000', format('the lease of worker id %s is lost', lease_of),
            'Stop issuing ids with it, and register again with leaf_worker_register.',
            'It was renewed with another token, given to another node, or removed.');
    END IF;
    RETURN w;
END
$$;

CREATE FUNCTION leaf.renew(lease_of integer, given uuid, present bigint, clock timestamptz, ahead interval, next_token bigint,
        OUT token bigint, OUT ceiling timestamptz, OUT registry uuid, OUT history text)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    now   pg_catalog.timestamptz := clock_timestamp();
    later pg_catalog.timestamptz;
    w     leaf.worker;
BEGIN
    PERFORM leaf.asker();
    PERFORM leaf.check_instant(clock, 'clock');
    ahead := leaf.check_ahead(ahead);
    clock := coalesce(clock, now);
    IF next_token = present OR next_token NOT BETWEEN 2 AND 9223372036854775806 THEN
        PERFORM leaf.fail('22023', 'next_token must be from 2 to 9223372036854775806 and differ from token', 'Propose a random number that was not used for this lease before.');
    END IF;
    history := leaf.begin_lease();
    w := leaf.lease_row(lease_of, given, present, next_token);
    token := coalesce(next_token, 2 + ('x' || right(replace(gen_random_uuid()::text, '-', ''), 13))::bit(52)::bigint);
    IF w.token = next_token THEN
        -- It was renewed so before.
        ceiling := w.ceiling;
    ELSE
        later := clock_timestamp();
        IF w.leased_until < later THEN
            -- It does not count any more.
            PERFORM leaf.check_count(w.leased_by, later);
        END IF;
        PERFORM leaf.check_clock(clock, now);
        -- While it waited for the row, all clocks have gone on.
        clock := clock + (later - now);
        now := later;
        ceiling := greatest(w.ceiling, leaf.next_ceiling(clock, '-infinity', ahead));
        UPDATE leaf.worker AS l SET
               token = renew.token, ceiling = renew.ceiling,
               leased_until = greatest(now, ceiling) + (SELECT worker_lease FROM leaf.plain),
               renewed_at = now, history = renew.history,
               clock_offset_ms = (leaf.unix_us(clock) - leaf.unix_us(now)) / 1000.0
         WHERE l.worker_id = lease_of RETURNING * INTO w;
        PERFORM leaf.require_stored(ceiling, w.ceiling);
    END IF;
    registry := leaf.registry();
END
$$;

CREATE FUNCTION leaf_worker_renew(...)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    SET timezone = 'UTC' SET lock_timeout = '5s'
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
    SELECT * FROM leaf.renew($1, $2, $3, $4, $5, $6);
$$;

CREATE FUNCTION leaf_worker_release(...)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    SET timezone = 'UTC' SET lock_timeout = '5s' AS $$
#variable_conflict use_variable
DECLARE
    now     pg_catalog.timestamptz := clock_timestamp();
    w       leaf.worker;
    tick_us bigint;
    ceiling pg_catalog.timestamptz;
BEGIN
    PERFORM leaf.asker();
    PERFORM leaf.check_instant(used_until, 'used_until');
    PERFORM leaf.begin_lease();
    w := leaf.lease_row(worker_id, nonce, token, NULL);
    tick_us := (leaf.layout(w.layout)).tick_us;
    -- Not below the beginning of the lease: its predecessors may have issued ids until then.
    ceiling := CASE WHEN used_until IS NULL OR w.start_at IS NULL THEN w.ceiling ELSE least(w.ceiling,
        leaf.begin_of(leaf.tick_from(greatest(least(used_until, w.ceiling), w.start_at), w.epoch, tick_us), w.epoch, tick_us)) END;
    PERFORM leaf.mark_own(true);
    UPDATE leaf.worker AS l SET
           ceiling = ceiling,
           -- Until the clock comes near the ceiling, no other lease could begin. A lease that has ended is not prolonged.
           leased_until = least(l.leased_until, CASE WHEN leaf.may_begin(ceiling, now) THEN now ELSE ceiling END),
           token = abs(l.token) + 1
     WHERE l.worker_id = w.worker_id;
    PERFORM leaf.mark_own(false);
END
$$;

CREATE FUNCTION leaf_worker_take_over(...)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    SET timezone = 'UTC' SET lock_timeout = '5s' AS $$
DECLARE
    present pg_catalog.text;
    taken   integer;
BEGIN
    PERFORM leaf.asker();
    IF worker_id < 0 THEN
        PERFORM leaf.fail('22023', format('worker id %s is negative', worker_id), 'Leave it out to lease any worker id, or specify one of the layout.');
    END IF;
    present := leaf.begin_lease();
    UPDATE leaf.worker AS l
       SET history = present, leased_until = least(l.leased_until, clock_timestamp()),
           token = 1, nonce = gen_random_uuid()
     WHERE l.history <> present
       AND CASE WHEN leaf_worker_take_over.worker_id IS NULL THEN l.node ^@ 'server ' ELSE l.worker_id = leaf_worker_take_over.worker_id END;
    GET DIAGNOSTICS taken = ROW_COUNT;
    RETURN taken;
END
$$;
