/*
 * Numbers of tags. A grant locks the row until the caller's transaction ends. The high-water
 * sequence is set under that lock, and keeps its value when the transaction is rolled back, so that
 * the next grant does not repeat the block.
 */

CREATE FUNCTION leaf.refuse_count(count bigint, most bigint) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF count < 1 THEN
        PERFORM leaf.fail('22023', format('count must be at least 1, not %s', count), 'Ask for one id or more.');
    END IF;
    PERFORM leaf.fail('22023', format('count must be at most %s, not %s', most, count),
        'Reserve several blocks; max_reserve in leaf.plain sets how many ids one block can have.');
END
$$;

-- The first number of a row that was never granted, whatever became of the transactions: by the
-- last value of its high-water sequence.
CREATE FUNCTION leaf.first_free(max_id bigint, last bigint) RETURNS bigint
    LANGUAGE sql RETURN CASE WHEN last < 9223372036854775807 THEN greatest(max_id, last + 1) ELSE coalesce(last, max_id) END;

-- Grants a block to the asker: of count numbers, or of fewer if that is not exact.
CREATE FUNCTION leaf.grant_block(tag text, count bigint, required uuid, is_exact boolean, feeds boolean,
        OUT first bigint, OUT last bigint, OUT incarnation uuid)
    LANGUAGE plpgsql AS $$
DECLARE
    locked   pg_catalog.record;
    a        leaf.alloc;
    asker    pg_catalog.oid := leaf.asker();
    may_draw boolean;
    is_other boolean;
    is_short boolean;
    present  pg_catalog.text;
    most     bigint;
    stored   bigint;
    water    pg_catalog.regclass;
    ignored  pg_catalog.text;
BEGIN
    ignored := leaf.insist_on_durable_commit();
    IF count < 1 AND NOT (feeds AND count = 0) THEN
        PERFORM leaf.refuse_count(count, NULL);
    END IF;
    -- Only who may draw locks the row: an error could wait for a client that does not read. As one value, the row costs
    -- less than as columns.
    SELECT of_tag AS it INTO locked FROM leaf.alloc AS of_tag
     WHERE of_tag.biz_tag = tag COLLATE "C" AND (SELECT may.draw FROM leaf.may_draw(of_tag.owner, of_tag.grantees, asker) AS may(draw))
       FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND THEN
        a := locked.it;
    ELSE
        -- In an older snapshot, there can be two of the name.
        SELECT (SELECT max_reserve FROM leaf.plain), (SELECT seen.may_draw FROM leaf.seen_to_draw(tag, asker) AS seen LIMIT 1)
          INTO most, may_draw;
        IF count > most THEN
            PERFORM leaf.refuse_count(count, most);
        ELSIF may_draw IS NOT TRUE THEN
            PERFORM leaf.refuse_draw(may_draw, tag, asker);
        END IF;
        a := leaf.lock_row(tag);
    END IF;
    -- While a call stands still, names of roles can become those of others, and the history another one.
    SELECT i.history, i.is_copy, may.draw, (SELECT max_reserve FROM leaf.plain) INTO present, is_other, may_draw, most
      FROM leaf.identity() AS i, leaf.may_draw(a.owner, a.grantees, asker) AS may(draw);
    IF may_draw IS NOT TRUE THEN
        PERFORM leaf.refuse_draw(may_draw, tag, asker);
    ELSIF count > most THEN
        PERFORM leaf.refuse_count(count, most);
    ELSIF is_other THEN
        PERFORM leaf.refuse_copy();
    END IF;
    incarnation := a.incarnation;
    IF required <> a.incarnation THEN
        PERFORM leaf.fail('55000', format('tag "%s" is another one: it was dropped and created again', tag),
            'Discard its unused ids, and get the new incarnation from leaf_tag_incarnation.');
    ELSIF a.upstream_tag IS NOT NULL OR a.stripes > 1 OR a.earlier_stripes > 1 THEN
        IF feeds AND a.upstream_tag IS NOT NULL THEN
            PERFORM leaf.fail('55000', format('tag "%s" is fed itself', tag), 'Attach the other tag to the tag of the centre.');
        END IF;
        PERFORM leaf.fail('0A000', format('tag "%s" is fed or has a stripe, which needs the extension leaf', tag),
            'Draw from the centre, or move the tag to a server with the extension.');
    END IF;
    water := leaf.high_water_of(a.incarnation);
    IF water IS NULL THEN
        -- It must not be made here: a rollback would take it away.
        PERFORM leaf.fail('55000', 'the tables of leaf were restored or replicated without their sequences',
            'Make sure that the original issues no ids any more, and call leaf_new_history() as the owner of leaf.alloc.');
    END IF;
    -- Of no numbers, it begins where the row stands: what a new history is to skip, or a rolled-back grant has, may be forgotten.
    IF count = 0 THEN
        first := a.max_id;
        last := greatest(first, -9223372036854775807) - 1;
        RETURN;
    END IF;
    most := least(a.max_value, 9223372036854775806);
    stored := pg_sequence_last_value(water);
    first := leaf.first_free(a.max_id, stored);
    -- The original of this copy, or the former primary, may have granted more than is known here.
    IF first <= most AND (a.history IS DISTINCT FROM present OR a.is_copy) THEN
        -- As it is now: it may have been raised for what this snapshot does not show.
        first := least(most + 1, first + (SELECT history_skip FROM leaf.plain FOR SHARE)
            * (CASE WHEN a.last_grant > 0 THEN a.last_grant ELSE a.step END::numeric + greatest(a.largest_reserve, 0)));
    END IF;
    is_short := CASE WHEN first > most THEN true WHEN first > 0 THEN count - 1 > most - first ELSE first + count - 1 > most END;
    IF feeds AND (a.may_lack_feeds OR a.fed_in IS DISTINCT FROM present AND (a.fed_unreplicated OR a.is_copy)) THEN
        PERFORM leaf.fail('55000', format('tag "%s" may have fed numbers that are not in its row', tag),
            'Find the highest number that any shard has got (max_id in leaf.alloc there), and move the tag past it with leaf_tag_alter(advance_to => ...).',
            'The row was restored from a backup or a dump, or numbers were fed without a synchronous standby before a failover.');
    ELSIF first > most OR is_exact AND is_short THEN
        PERFORM leaf.fail('2200H', format('tag "%s" has reached its maximum value', tag),
            'Raise max_value with leaf_tag_alter, or ask for fewer ids at once.');
    END IF;
    last := CASE WHEN is_short THEN most ELSE first + count - 1 END;
    ignored := setval(water, last);
    ignored := leaf.mark_own(true);
    UPDATE leaf.alloc SET
           max_id = last + 1,
           largest_reserve = greatest(largest_reserve, last - first + 1),
           history = present,
           is_copy = false,
           fed_in = CASE WHEN feeds THEN present ELSE fed_in END,
           fed_unreplicated = fed_unreplicated AND NOT feeds,
           -- What it no longer shows, it remembers.
           may_lack_feeds = may_lack_feeds OR NOT feeds AND fed_in IS DISTINCT FROM present AND (fed_unreplicated OR is_copy),
           update_time = clock_timestamp(),
           written_by = pg_current_xact_id()::xid
     WHERE biz_tag = a.biz_tag RETURNING max_id INTO stored;
    ignored := leaf.mark_own(false);
    IF stored IS DISTINCT FROM last + 1 THEN
        PERFORM leaf.fail('09000', 'a grant was not stored in leaf.alloc',
            'Make sure that your own triggers and rules on leaf.alloc neither suppress updates nor change max_id.');
    END IF;
END
$$;

-- One plan for all calls: to plan those again whose arguments the planner could fold cost a fifth of each.
CREATE FUNCTION leaf_segment_reserve(...)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    SET lock_timeout = '5s' AS $$
DECLARE
    granted pg_catalog.record;
    ignored pg_catalog.text;
BEGIN
    IF tag IS NULL OR count IS NULL THEN
        RETURN NULL;
    END IF;
    ignored := leaf.check_tag(tag);
    ignored := leaf.require_primary('draw ids');
    -- Variables there have the collation of the argument: by one of the caller's, all histories could be equal.
    granted := leaf.grant_block(tag COLLATE "C", count, incarnation, true, false);
    RETURN int8range(granted.first, granted.last + 1);
END
$$;

-- A block that was granted in an open transaction cannot be taken back, and others cannot be told
-- from it: nothing is.
CREATE FUNCTION leaf_segment_return(...)
    LANGUAGE plpgsql STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    SET lock_timeout = '5s' AS $$
DECLARE
    hint pg_catalog.text := 'Give the unused end of a block that leaf_segment_reserve has returned, such as ''[201,301)''.';
BEGIN
    PERFORM leaf.check_tag(tag);
    IF isempty(block) THEN
        PERFORM leaf.fail('22023', 'block must not be empty', hint);
    ELSIF lower_inf(block) OR upper_inf(block) THEN
        PERFORM leaf.fail('22023', 'block must have a lower and an upper bound', hint);
    END IF;
    PERFORM leaf.require_primary('draw ids');
    PERFORM leaf.row_to_draw(tag);
    RETURN false;
END
$$;

CREATE FUNCTION leaf_tag_incarnation(...)
    LANGUAGE plpgsql STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    SET lock_timeout = '5s' AS $$
BEGIN
    PERFORM leaf.check_tag(tag);
    PERFORM leaf.require_primary('draw ids');
    RETURN (leaf.row_to_draw(tag)).incarnation;
END
$$;

-- Numbers for a tag of a shard, or why there are none: that has no part in what becomes of others.
CREATE FUNCTION leaf.feed(tag text, count bigint, exact boolean, OUT first bigint, OUT last bigint, OUT incarnation uuid,
        OUT error_code text, OUT message text, OUT detail text, OUT hint text)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    granted pg_catalog.record;
BEGIN
    PERFORM leaf.check_tag(tag);
    IF count IS NULL OR exact IS NULL THEN
        PERFORM leaf.fail('22023', format('%s must not be null', CASE WHEN count IS NULL THEN 'count' ELSE 'exact' END), 'Give one for each tag.');
    END IF;
    SELECT * INTO granted FROM leaf.grant_block(tag, count, NULL, exact, true);
    first := granted.first;
    last := granted.last;
    incarnation := granted.incarnation;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS error_code = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
        detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    detail := nullif(detail, '');
    IF error_code = '55P03' THEN
        detail := format('The last attempt failed: %s.', message);
        message := format('tag "%s" cannot feed at the moment', tag);
        hint := 'Remove the cause and try again.';
        -- The rows that were granted from are locked meanwhile.
        PERFORM set_config('lock_timeout', '1ms', true);
    END IF;
END
$$;

-- A tag that is asked for twice is granted two blocks, whatever the planner would remember.
CREATE FUNCTION leaf_segment_feed(...)
    LANGUAGE plpgsql ROWS 100 SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    SET enable_memoize = off SET lock_timeout = '100ms' AS $$
DECLARE
    asked   integer := cardinality(tags);
    advice  pg_catalog.text := 'Give the arrays an element for each tag.';
BEGIN
    IF tags IS NULL THEN
        PERFORM leaf.fail('22023', 'tags must not be null', 'Specify tags, such as ''{orders,parcels}''.');
    ELSIF asked > 1000 THEN
        PERFORM leaf.fail('22023', format('there can be at most 1000 tags, not %s', asked), 'Ask for the others in another call.');
    ELSIF counts IS NULL THEN
        PERFORM leaf.fail('22023', 'counts must not be null', advice);
    ELSIF cardinality(counts) <> asked OR cardinality(exact) <> asked THEN
        PERFORM leaf.fail('22023', 'tags, counts and exact must have the same number of elements', advice);
    END IF;
    PERFORM leaf.require_primary('draw ids');
    IF NOT (SELECT is_replicated FROM leaf.plain) THEN
        PERFORM leaf.fail('55000', 'this server feeds no tags, because it has no synchronous standby',
            'Set is_replicated in leaf.plain if commits wait for a standby that a failover makes the primary, or if losing ids that shards have got is acceptable.');
    END IF;
    -- Also if all tags fail: what a subtransaction sets ends with it.
    PERFORM leaf.insist_on_durable_commit();
    RETURN QUERY
        SELECT o.tag, f.* FROM (
            SELECT u.tag, u.count, CASE WHEN leaf_segment_feed.exact IS NULL THEN false ELSE u.exact END AS exact, u.n
              FROM unnest(tags, counts, leaf_segment_feed.exact) WITH ORDINALITY AS u(tag, count, exact, n)
             -- Rows are locked in one order, so that calls do not wait for each other in a circle.
             ORDER BY u.tag COLLATE "C", u.n) AS o,
            LATERAL leaf.feed(o.tag COLLATE "C", o.count, o.exact) AS f ORDER BY o.n;
END
$$;
