/* Tags: what may be done with them, and managing them. */

CREATE FUNCTION leaf.bad_tag(tag text) RETURNS text
    LANGUAGE plpgsql AS $$
BEGIN
    IF tag IS NULL OR tag = '' THEN
        PERFORM leaf.fail('22023', format('tag must not be %s', CASE WHEN tag IS NULL THEN 'null' ELSE 'empty' END),
            'Specify a tag, such as ''orders''.');
    END IF;
    PERFORM leaf.fail('22023', 'tag is too long', 'A tag has at most 128 characters.');
END
$$;

CREATE FUNCTION leaf.check_tag(tag text) RETURNS text
    LANGUAGE sql RETURN CASE WHEN tag <> '' AND char_length(tag) <= 128 THEN tag ELSE leaf.bad_tag(tag) END;

CREATE FUNCTION leaf.no_such_tag(tag text) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT leaf.fail('42704', format('tag "%s" does not exist', tag),
        'Check the spelling. If the tag is missing, create it with leaf_tag_create, with a start above the ids of rows that exist.');
$$;

CREATE FUNCTION leaf.may_draw(owner name, grantees name[], asker oid) RETURNS SETOF boolean
    LANGUAGE sql STABLE AS $$
    SELECT ('public' = ANY (grantees)) IS TRUE OR has_role FROM leaf.has_role(asker, VARIADIC owner || grantees) AS has_role;
$$;

-- The row of a tag, and whether the asker may draw from it. That is asked in the statement that reads the row: in a later one,
-- the names there can be those of other roles, and a client that does not read puts it off as long as it likes.
CREATE FUNCTION leaf.seen_to_draw(tag text, asker oid) RETURNS TABLE (it leaf.alloc, may_draw boolean)
    LANGUAGE sql STABLE AS $$
    -- Not by a collation of the caller's.
    SELECT a, may_draw FROM leaf.alloc AS a, leaf.may_draw(a.owner, a.grantees, asker) AS may_draw WHERE a.biz_tag = tag COLLATE "C";
$$;

-- Why the asker may not draw: there is no such tag if that is null.
CREATE FUNCTION leaf.refuse_draw(may_draw boolean, tag text, asker oid) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF may_draw IS NULL THEN
        PERFORM leaf.no_such_tag(tag);
    END IF;
    PERFORM leaf.fail('42501', format('permission denied for tag "%s"', tag),
        'The owner of the tag can allow it with leaf_tag_grant.',
        format('Role "%s" is neither the owner nor a grantee of the tag.', pg_get_userbyid(asker)));
END
$$;

-- The row of a tag, which the asker may draw from.
CREATE FUNCTION leaf.row_to_draw(tag text) RETURNS leaf.alloc
    LANGUAGE plpgsql AS $$
DECLARE
    asker pg_catalog.oid := leaf.asker();
    seen  pg_catalog.record;
    a     leaf.alloc;
BEGIN
    LOOP
        SELECT * INTO seen FROM leaf.seen_to_draw(tag, asker);
        IF seen.may_draw IS NOT TRUE THEN
            PERFORM leaf.refuse_draw(seen.may_draw, tag, asker);
        END IF;
        a := seen.it;
        -- Memberships are those of now: one may have begun after its role had lost the tag.
        IF EXISTS (SELECT FROM leaf.alloc AS present WHERE present.biz_tag = a.biz_tag
                      AND (present.incarnation, present.owner, present.grantees) = (a.incarnation, a.owner, a.grantees)) THEN
            RETURN a;
        END IF;
    END LOOP;
END
$$;

-- The row of a tag, locked until the transaction ends.
CREATE FUNCTION leaf.lock_row(tag text) RETURNS leaf.alloc
    LANGUAGE plpgsql AS $$
DECLARE
    a leaf.alloc;
BEGIN
    -- A transaction for which this has waited may have dropped the tag and created it again: the
    -- new row is seen only by another statement.
    FOR attempt IN 1..2 LOOP
        SELECT * INTO a FROM leaf.alloc WHERE biz_tag = tag COLLATE "C" FOR NO KEY UPDATE;
        IF FOUND THEN
            RETURN a;
        END IF;
    END LOOP;
    PERFORM leaf.no_such_tag(tag);
END
$$;

-- The same, for the asker as its owner.
CREATE FUNCTION leaf.row_to_change(tag text) RETURNS leaf.alloc
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    a        leaf.alloc;
    asker    pg_catalog.oid := leaf.asker();
    is_owner boolean;
BEGIN
    PERFORM leaf.check_tag(tag);
    -- A session can have set the mark.
    PERFORM leaf.require_primary('change tags'), leaf.mark_own(false);
    SELECT has_role INTO is_owner FROM leaf.alloc AS of_tag, leaf.has_role(asker, of_tag.owner) AS has_role WHERE biz_tag = tag COLLATE "C";
    IF NOT FOUND THEN
        PERFORM leaf.no_such_tag(tag);
    END IF;
    -- Nobody else locks it: the error could wait for a client that does not read.
    IF is_owner THEN
        a := leaf.lock_row(tag);
        is_owner := (SELECT has_role FROM leaf.has_role(asker, a.owner) AS has_role);
    END IF;
    IF is_owner THEN
        RETURN a;
    END IF;
    PERFORM leaf.fail('42501', format('must be owner of tag "%s"', tag),
        'Use the role of the owner, a member of it, or a superuser.',
        format('Role "%s" does not have the privileges of the owner.', pg_get_userbyid(asker)));
END
$$;

-- How many ids a tag has left.
CREATE FUNCTION leaf.ids_left(max_id bigint, max_value bigint) RETURNS numeric
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT greatest(least(max_value, 9223372036854775806)::numeric - max_id + 1, 0);
$$;

CREATE FUNCTION leaf.check_numbers(step integer, max_step integer, description text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF step < 1 THEN
        PERFORM leaf.fail('22023', format('step must be at least 1, not %s', step),
            'A step is the number of ids fetched at once; 1000 is a good value to start with.');
    ELSIF max_step < 0 THEN
        PERFORM leaf.fail('22023', format('max_step must not be negative: %s', max_step),
            'Specify the largest number of ids to fetch at once, or 0 for leaf.max_step.');
    ELSIF char_length(description) > 256 THEN
        PERFORM leaf.fail('22023', 'description is too long', 'A description has at most 256 characters.');
    END IF;
END
$$;

CREATE FUNCTION leaf.require_given(argument text, name text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF argument IS NULL THEN
        PERFORM leaf.fail('22023', format('%s must not be null', name), 'Leave the argument out to get its default.');
    END IF;
END
$$;

CREATE FUNCTION leaf_tag_create(...)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    SET lock_timeout = '5s' AS $$
DECLARE
    asker pg_catalog.oid := leaf.asker();
BEGIN
    PERFORM leaf.require_primary('change tags');
    PERFORM leaf.check_tag(tag);
    PERFORM leaf.require_given(step::text, 'step');
    PERFORM leaf.check_numbers(step, NULL, NULL);
    PERFORM leaf.require_given(start::text, 'start');
    PERFORM leaf.require_given(max_value::text, 'max_value');
    IF max_value < start THEN
        PERFORM leaf.fail('22023', format('max_value %s is less than start %s', max_value, start),
            'A tag grants the ids from start to max_value.');
    ELSIF start > 9223372036854775806 THEN
        PERFORM leaf.fail('22023', format('start %s is greater than any id that can be granted', start),
            'The largest id is 9223372036854775806.');
    ELSIF num_nonnulls(stripes, stripe, stripe_width) > 0 THEN
        PERFORM leaf.fail('0A000', 'stripes need the extension leaf',
            'Give the tag of each database a range of numbers of its own with start and max_value.');
    END IF;
    PERFORM leaf.check_numbers(step, max_step, description);
    PERFORM leaf.require_given(if_not_exists::text, 'if_not_exists');
    INSERT INTO leaf.alloc (biz_tag, step, max_id, max_value, description, owner, max_step)
    VALUES (tag, step, start, max_value, description, pg_get_userbyid(asker), nullif(max_step, 0))
        ON CONFLICT (biz_tag) DO NOTHING;
    IF FOUND THEN
        -- In a snapshot older than leaf.close(), nothing else would fail.
        PERFORM FROM leaf.plain FOR SHARE;
        RETURN;
    ELSIF if_not_exists THEN
        RAISE NOTICE 'tag "%" already exists, skipping', tag;
    ELSE
        PERFORM leaf.fail('42710', format('tag "%s" already exists', tag),
            'Choose another name, use if_not_exists => true in leaf_tag_create, or drop the tag with leaf_tag_drop.');
    END IF;
END
$$;

CREATE FUNCTION leaf_tag_alter(...)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    SET lock_timeout = '5s' AS $$
#variable_conflict use_column
DECLARE
    a leaf.alloc;
BEGIN
    PERFORM leaf.check_tag(tag);
    PERFORM leaf.check_numbers(step, max_step, description);
    a := leaf.row_to_change(tag);
    IF advance_to > a.max_id
       AND leaf.ids_left(advance_to, coalesce(leaf_tag_alter.max_value, a.max_value)) < coalesce(leaf_tag_alter.step, a.step)
       AND leaf.ids_left(a.max_id, a.max_value) >= coalesce(leaf_tag_alter.step, a.step) THEN
        PERFORM leaf.fail('22023', format('advance_to %s leaves %s ids, less than step %s', advance_to,
                leaf.ids_left(advance_to, coalesce(leaf_tag_alter.max_value, a.max_value)), coalesce(leaf_tag_alter.step, a.step)),
            'Check the number: a tag never moves backwards. Raise max_value first, or lower step, if it is right.');
    END IF;
    UPDATE leaf.alloc SET
           step = coalesce(leaf_tag_alter.step, step),
           max_id = coalesce(advance_to, max_id),
           floor = greatest(floor, advance_to),
           fed_in = CASE WHEN advance_to IS NULL THEN fed_in ELSE leaf.history() END,
           fed_unreplicated = fed_unreplicated AND advance_to IS NULL,
           may_lack_feeds = may_lack_feeds AND advance_to IS NULL,
           max_value = coalesce(leaf_tag_alter.max_value, max_value),
           description = coalesce(leaf_tag_alter.description, description),
           max_step = nullif(coalesce(leaf_tag_alter.max_step, max_step), 0)
     WHERE biz_tag = a.biz_tag;
END
$$;

CREATE FUNCTION leaf_tag_drop(...)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    SET lock_timeout = '5s' AS $$
DECLARE
    a leaf.alloc;
BEGIN
    PERFORM leaf.check_tag(tag), leaf.require_given(force::text, 'force'), leaf.require_given(if_exists::text, 'if_exists');
    IF if_exists AND NOT EXISTS (SELECT FROM leaf.alloc WHERE biz_tag = tag COLLATE "C") THEN
        PERFORM leaf.require_primary('change tags');
        RAISE NOTICE 'tag "%" does not exist, skipping', tag;
        RETURN;
    END IF;
    a := leaf.row_to_change(tag);
    DELETE FROM leaf.alloc WHERE biz_tag = a.biz_tag;
END
$$;

-- The name to store for a grantee: that of a role, or public.
CREATE FUNCTION leaf.grantee(role name) RETURNS name
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF role IS NULL THEN
        PERFORM leaf.fail('22023', 'role must not be null', 'Specify a role, or use PUBLIC for all roles.');
    ELSIF EXISTS (SELECT FROM leaf.role_of(role)) THEN
        RETURN role;
    ELSIF lower(role) <> 'public' OR to_regrole(quote_ident(role)) IS NOT NULL THEN
        -- A role that this snapshot does not show is not all roles.
        PERFORM leaf.fail('42704', format('role "%s" does not exist', role), 'Create the role first, or use PUBLIC for all roles.');
    END IF;
    RETURN 'public';
END
$$;

CREATE FUNCTION leaf_tag_grant(...)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    SET lock_timeout = '5s' AS $$
DECLARE
    a       leaf.alloc;
    grantee pg_catalog.name COLLATE pg_catalog."C";
BEGIN
    PERFORM leaf.check_tag(tag);
    grantee := leaf.grantee(role COLLATE "C");
    a := leaf.row_to_change(tag);
    UPDATE leaf.alloc SET grantees = array_append(grantees, grantee)
     WHERE biz_tag = a.biz_tag AND grantee <> ALL (grantees);
END
$$;

CREATE FUNCTION leaf_tag_revoke(...)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    SET lock_timeout = '5s' AS $$
DECLARE
    a      leaf.alloc;
    stored pg_catalog.name COLLATE pg_catalog."C" := role;
BEGIN
    a := leaf.row_to_change(tag);
    -- By the name that is stored, whether or not a role still has it, or has it by now.
    IF (stored = ANY (a.grantees)) IS NOT TRUE THEN
        stored := CASE WHEN lower(stored) = 'public' THEN 'public' ELSE leaf.grantee(stored) END;
    END IF;
    UPDATE leaf.alloc SET grantees = array_remove(grantees, stored) WHERE biz_tag = a.biz_tag;
END
$$;
