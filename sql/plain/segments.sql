/* Numbers of tags. */

CREATE OR REPLACE FUNCTION leaf.no_such_tag(tag text) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT leaf.fail('42704', format('tag "%s" does not exist', tag),
        'Check the spelling, or create the tag with leaf_tag_create, with a start above the ids in use.');
$$;

-- The first number that a row may grant. In another history than its own, it may lack the last grants.
CREATE OR REPLACE FUNCTION leaf.first_free(a leaf.alloc, history text, history_skip integer) RETURNS numeric
    LANGUAGE sql IMMUTABLE AS $$
    SELECT a.max_id + CASE WHEN NOT a.is_copy AND a.history = $2 THEN 0
                           ELSE $3 * greatest(a.step, a.last_grant, a.largest_reserve)::numeric END;
$$;

-- For the procedures below: what this returns is granted only once it is committed.
CREATE OR REPLACE FUNCTION leaf.grant_block(
        tag text, count bigint, wanted uuid, OUT block int8range, OUT incarnation uuid)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
    present text    := (SELECT i.history FROM leaf.identity() AS i);
    skip    integer := (SELECT p.history_skip FROM leaf.plain AS p);
    a       leaf.alloc;
BEGIN
    IF count BETWEEN 1 AND 1000000000 IS NOT TRUE THEN
        PERFORM leaf.fail('22023', format('count must be from 1 to 1000000000, not %s', coalesce(count::text, 'null')),
            'Ask for one id or more; for more than one block has, reserve several.');
    END IF;
    PERFORM leaf.insist_on_durable_commit();
    UPDATE leaf.alloc AS r SET
           max_id = leaf.first_free(r, present, skip) + count,
           largest_reserve = greatest(r.largest_reserve, count),
           history = present,
           is_copy = false
     WHERE r.biz_tag = tag COLLATE "C" AND r.incarnation = coalesce(wanted, r.incarnation)
       AND r.upstream_tag IS NULL AND r.stripes = 1
       AND leaf.first_free(r, present, skip) + count - 1 <= least(r.max_value, 9223372036854775806)
 RETURNING int8range(r.max_id - count, r.max_id), r.incarnation INTO block, incarnation;
    IF FOUND THEN
        RETURN;
    END IF;
    SELECT * INTO a FROM leaf.alloc AS r WHERE r.biz_tag = tag COLLATE "C";
    IF NOT FOUND THEN
        PERFORM leaf.no_such_tag(tag);
    ELSIF a.incarnation <> wanted THEN
        PERFORM leaf.fail('55000', format('tag "%s" was dropped and re-created', tag),
            'Discard its unused ids, and get the new incarnation from leaf_tag_incarnation.');
    ELSIF a.upstream_tag IS NOT NULL OR a.stripes > 1 THEN
        PERFORM leaf.fail('55000', format('tag "%s" is fed or has a stripe, which needs the extension leaf', tag),
            'Draw where the extension is, or create another tag above all ids in use.');
    END IF;
    PERFORM leaf.fail('2200H', format('tag "%s" has reached its maximum value', tag),
        'Raise max_value with leaf_tag_alter, or ask for fewer ids at once.');
END
$$;

CREATE OR REPLACE PROCEDURE @extschema@.leaf_segment_reserve(
        tag text, count bigint, INOUT block int8range DEFAULT NULL, incarnation uuid DEFAULT NULL)
    LANGUAGE plpgsql AS $$
BEGIN
    CALL leaf.begin_transaction();
    SELECT g.block INTO block FROM leaf.grant_block(tag, count, incarnation) AS g;
    COMMIT;
END
$$;

-- The same for clients that know the tag by its incarnation.
CREATE OR REPLACE PROCEDURE leaf.fetch_block(
        tag text, count bigint, INOUT incarnation uuid DEFAULT NULL, INOUT block int8range DEFAULT NULL)
    LANGUAGE plpgsql AS $$
BEGIN
    CALL leaf.begin_transaction();
    SELECT g.block, g.incarnation INTO block, incarnation FROM leaf.grant_block(tag, count, incarnation) AS g;
    COMMIT;
END
$$;

CREATE OR REPLACE FUNCTION @extschema@.leaf_tag_incarnation(tag text) RETURNS uuid
    LANGUAGE plpgsql STABLE STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_in uuid := (SELECT a.incarnation FROM leaf.alloc AS a WHERE a.biz_tag = tag COLLATE "C");
BEGIN
    IF found_in IS NULL THEN
        PERFORM leaf.no_such_tag(tag);
    END IF;
    RETURN found_in;
END
$$;
