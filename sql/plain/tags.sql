/* Managing tags, for administrators: in the caller's transaction. */

CREATE OR REPLACE FUNCTION leaf.check_numbers(step integer, start bigint, max_value bigint, description text)
    RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wrong text := CASE
        WHEN step < 1 THEN format('step must be at least 1, not %s', step)
        WHEN start > least(max_value, 9223372036854775806) THEN format('%s is greater than the last id, %s', start,
            least(max_value, 9223372036854775806))
        WHEN char_length(description) > 256 THEN 'description is too long' END;
BEGIN
    IF wrong IS NOT NULL THEN
        PERFORM leaf.fail('22023', wrong,
            'A tag grants ids from start to max_value; a step is at least 1, a description has up to 256 characters.');
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION @extschema@.leaf_tag_create(
        tag text, step integer DEFAULT 1000, start bigint DEFAULT 1, max_value bigint DEFAULT 9223372036854775807,
        description text DEFAULT NULL, if_not_exists boolean DEFAULT false) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
BEGIN
    IF char_length(tag) BETWEEN 1 AND 128 IS NOT TRUE OR num_nulls(step, start, max_value, if_not_exists) > 0 THEN
        PERFORM leaf.fail('22023', 'a tag must have 1 to 128 characters, and its numbers must not be null',
            'Specify a tag, such as ''orders'', and leave arguments out to get their defaults.');
    END IF;
    PERFORM leaf.check_numbers(step, start, max_value, description);
    INSERT INTO leaf.alloc (biz_tag, step, max_id, max_value, description, owner)
    VALUES (tag, step, start, max_value, description, session_user) ON CONFLICT (biz_tag) DO NOTHING;
    IF NOT FOUND AND if_not_exists THEN
        RAISE NOTICE 'tag "%" already exists, skipping', tag;
    ELSIF NOT FOUND THEN
        PERFORM leaf.fail('42710', format('tag "%s" already exists', tag),
            'Choose another name, use if_not_exists => true, or drop the tag with leaf_tag_drop.');
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION @extschema@.leaf_tag_alter(
        tag text, step integer DEFAULT NULL, advance_to bigint DEFAULT NULL, max_value bigint DEFAULT NULL,
        description text DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
    a leaf.alloc;
BEGIN
    SELECT * INTO a FROM leaf.alloc AS r WHERE r.biz_tag = tag COLLATE "C" FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        PERFORM leaf.no_such_tag(tag);
    END IF;
    PERFORM leaf.check_numbers(step, advance_to, coalesce(max_value, a.max_value), description);
    IF max_value < a.max_id - 1 THEN
        PERFORM leaf.fail('22023', format('max_value %s is less than what tag "%s" has granted', max_value, tag),
            format('To grant no more ids, use %s.', a.max_id - 1));
    END IF;
    UPDATE leaf.alloc AS r SET
           step = coalesce(leaf_tag_alter.step, r.step),
           max_id = coalesce(advance_to, r.max_id),
           max_value = coalesce(leaf_tag_alter.max_value, r.max_value),
           description = coalesce(leaf_tag_alter.description, r.description)
     WHERE r.biz_tag = a.biz_tag;
END
$$;

-- The library looks for columns that draw, unless by force.
CREATE OR REPLACE FUNCTION @extschema@.leaf_tag_drop(
        tag text, force boolean DEFAULT false, if_exists boolean DEFAULT false) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
BEGIN
    DELETE FROM leaf.alloc AS a WHERE a.biz_tag = tag COLLATE "C";
    IF NOT FOUND AND if_exists THEN
        RAISE NOTICE 'tag "%" does not exist, skipping', tag;
    ELSIF NOT FOUND THEN
        PERFORM leaf.no_such_tag(tag);
    END IF;
END
$$;
