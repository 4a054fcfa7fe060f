/* Masks: the keys, with which clients mask ids themselves. */

-- The secret that masks of new rows are made of.
CREATE FUNCTION leaf.any_mask_secret() RETURNS uuid
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
    SELECT id FROM leaf.mask_secret ORDER BY id LIMIT 1;
$$;

CREATE FUNCTION leaf.hmac_sha256(key bytea, message bytea) RETURNS bytea
    LANGUAGE plpgsql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    inner_key pg_catalog.bytea := substr(key || decode(repeat('00', 64), 'hex'), 1, 64);
    outer_key pg_catalog.bytea := inner_key;
BEGIN
    FOR n IN 0..63 LOOP
        inner_key := set_byte(inner_key, n, get_byte(inner_key, n) # 54);
        outer_key := set_byte(outer_key, n, get_byte(outer_key, n) # 92);
    END LOOP;
    RETURN sha256(outer_key || sha256(inner_key || message));
END
$$;

CREATE FUNCTION leaf.mask_key(tag text, bits integer, wanted integer, OUT version integer, OUT key bytea)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    a         leaf.alloc;
    zeros_and pg_catalog.bytea;
BEGIN
    PERFORM leaf.check_tag(tag), leaf.require_given(bits::text, 'bits');
    IF bits NOT IN (53, 63) THEN
        PERFORM leaf.fail('22023', format('bits must be 63 or 53, not %s', bits),
            'Use 63 for all ids, or 53 for ids that JavaScript represents exactly.');
    END IF;
    a := leaf.row_to_draw(tag);
    version := coalesce(wanted, a.mask_version);
    IF version NOT BETWEEN 1 AND a.mask_version THEN
        PERFORM leaf.fail('22023', format('the mask key of tag "%s" has no version %s', tag, version),
            'Omit version to use the current one, or specify the one with which the id was masked.',
            format('There are versions 1 to %s.', a.mask_version));
    END IF;
    SELECT secret INTO zeros_and FROM leaf.mask_secret WHERE id = a.mask_secret_id;
    IF NOT FOUND THEN
        PERFORM leaf.fail('55000', format('the secret of the masks of tag "%s" is not in this database', tag),
            'Copy the row of leaf.mask_secret from where the tag comes from, or begin other masks with UPDATE leaf.alloc SET mask_secret_id = NULL.',
            'The tag was restored or replicated without leaf.mask_secret.');
    END IF;
    -- HKDF-SHA256, of which the first block is enough.
    key := leaf.hmac_sha256(leaf.hmac_sha256(uuid_send(a.mask_salt), substr(zeros_and, 33)),
        convert_to('leaf mask FF1 AES-256', 'UTF8') || int4send(version) || int4send(bits) || '\x01');
END
$$;

CREATE FUNCTION leaf_mask_key(...)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    SET lock_timeout = '5s' AS $$
    SELECT * FROM leaf.mask_key($1, $2, $3);
$$;

CREATE FUNCTION leaf_mask_rotate(...)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    SET lock_timeout = '5s' AS $$
DECLARE
    a leaf.alloc := leaf.row_to_change(tag);
BEGIN
    IF a.mask_version = 2147483647 THEN
        PERFORM leaf.fail('22003', 'there are no more versions of the key', 'Drop the tag and create it again to get another secret.');
    END IF;
    UPDATE leaf.alloc SET mask_version = a.mask_version + 1 WHERE biz_tag = a.biz_tag;
    RETURN a.mask_version + 1;
END
$$;

CREATE FUNCTION leaf_mask(...)
    HINT 'Mask ids in the client, with the key that leaf_mask_key returns: the client library does.';
CREATE FUNCTION leaf_unmask(...)
    HINT 'Turn masked ids back in the client, with the key that leaf_mask_key returns: the client library does.';
