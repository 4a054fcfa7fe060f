/* Triggers: changes made with plain SQL keep what the functions rely on. */

CREATE FUNCTION leaf_alloc_check(...)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_replica boolean;
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.max_id >= OLD.max_id AND leaf.is_own() THEN
        -- A grant: what all rows need is set there.
        RETURN NEW;
    END IF;
    is_replica := current_setting('session_replication_role') = 'replica';
    IF TG_RELID <> 'leaf.alloc'::regclass THEN
        PERFORM leaf.fail('39P01', 'leaf_alloc_check can only be called by the triggers of leaf.alloc', 'Use only the triggers that the extension has created.');
    END IF;
    IF TG_OP = 'DELETE' THEN
        RETURN CASE WHEN OLD.stripes > 1 AND is_replica THEN NULL ELSE OLD END;
    ELSIF TG_OP = 'INSERT' THEN
        -- The stripe of another node.
        IF NEW.stripes > 1 AND is_replica THEN
            RETURN NULL;
        END IF;
        IF NOT has_table_privilege('leaf.mask_secret', 'INSERT') THEN
            IF NEW.upstream_tag IS NOT NULL AND NOT has_function_privilege('@extschema@.leaf_tag_attach(text, text)', 'EXECUTE') THEN
                PERFORM leaf.fail('42501', format('permission denied to add fed tag "%s"', NEW.biz_tag),
                    'Grant EXECUTE on leaf_tag_attach to the role.', format('Role "%s" may not make tags fed.', current_user));
            END IF;
            NEW.mask_salt := gen_random_uuid();
            NEW.mask_secret_id := NULL;
        END IF;
        -- Two rows with one identity, such as a row that was copied within the table, would share a
        -- high water. A row that is not seen here is found by the index.
        IF leaf.high_water_of(NEW.incarnation) IS NOT NULL
           AND EXISTS (SELECT FROM leaf.alloc WHERE incarnation = NEW.incarnation AND biz_tag <> NEW.biz_tag) THEN
            NEW.incarnation := gen_random_uuid();
        END IF;
        -- A row that brings a history along is a copy: the original may have granted more since.
        NEW.is_copy := NEW.history IS NOT NULL;
        NEW.history := coalesce(NEW.history, leaf.history());
        NEW.may_lack_feeds := NEW.may_lack_feeds OR NEW.fed_in IS NOT NULL;
    ELSE
        IF (OLD.stripes, OLD.stripe, OLD.stripe_width, OLD.striped_from, OLD.earlier_stripes, OLD.earlier_stripe)
           IS DISTINCT FROM (NEW.stripes, NEW.stripe, NEW.stripe_width, NEW.striped_from, NEW.earlier_stripes, NEW.earlier_stripe)
        THEN
            IF NOT is_replica THEN
                PERFORM leaf.fail('55000', format('the stripe of tag "%s" cannot be changed', OLD.biz_tag),
                    'Divide the stripe with leaf_tag_restripe. To get another one, drop the tag and create it above all ids in use.');
            ELSIF OLD.incarnation <> NEW.incarnation THEN
                RETURN NULL;
            END IF;
            NEW.stripes := OLD.stripes;
            NEW.stripe := OLD.stripe;
            NEW.stripe_width := OLD.stripe_width;
            NEW.striped_from := OLD.striped_from;
            NEW.earlier_stripes := OLD.earlier_stripes;
            NEW.earlier_stripe := OLD.earlier_stripe;
        END IF;
        IF is_replica AND (OLD.upstream_tag IS NOT NULL OR NEW.upstream_tag IS NOT NULL) THEN
            -- Another cluster's grants say nothing about this one's.
            NEW.max_id := OLD.max_id;
            NEW.incarnation := OLD.incarnation;
            NEW.history := OLD.history;
            NEW.is_copy := OLD.is_copy;
            NEW.last_grant := OLD.last_grant;
            NEW.upstream_tag := OLD.upstream_tag;
            NEW.upstream_incarnation := OLD.upstream_incarnation;
            NEW.fed_in := OLD.fed_in;
            NEW.fed_unreplicated := OLD.fed_unreplicated;
            NEW.may_lack_feeds := OLD.may_lack_feeds;
        ELSIF (OLD.upstream_tag, OLD.upstream_incarnation) IS DISTINCT FROM (NEW.upstream_tag, NEW.upstream_incarnation) THEN
            PERFORM leaf.fail('55000', format('cannot change where the ids of tag "%s" come from', OLD.biz_tag),
                'Use leaf_tag_attach. To make a fed tag local again, drop it and create another one.');
        ELSIF NEW.max_value < OLD.max_value AND NEW.max_value + 1 < NEW.max_id AND NOT is_replica THEN
            PERFORM leaf.fail('22023', format('max_value %s is less than what tag "%s" has granted', NEW.max_value, OLD.biz_tag),
                format('To grant no more ids, use %s.', NEW.max_id - 1), format('Numbers up to %s have been granted.', NEW.max_id - 1));
        ELSIF NEW.max_id <> OLD.max_id AND NEW.upstream_tag IS NOT NULL THEN
            PERFORM leaf.fail('55000', format('cannot move fed tag "%s"', OLD.biz_tag),
                'Move the centre''s tag with leaf_tag_alter there.', 'Its ids are granted by the centre.');
        ELSIF NEW.max_id > OLD.max_id THEN
            -- Moved, not granted: what shards have got lies below.
            NEW.floor := greatest(NEW.floor, NEW.max_id);
            NEW.fed_in := leaf.history();
            NEW.fed_unreplicated := false;
            NEW.may_lack_feeds := false;
        ELSIF NEW.max_id < OLD.max_id AND is_replica THEN
            -- It was valid where it was made.
            NEW.max_id := OLD.max_id;
        ELSIF NEW.max_id < OLD.max_id THEN
            PERFORM leaf.fail('22023', format('tag "%s" cannot move backwards', OLD.biz_tag),
                format('Choose %s or more, or drop the tag and create it again.', OLD.max_id),
                format('Numbers up to %s have been granted.', OLD.max_id - 1));
        END IF;
    END IF;
    NEW.mask_secret_id := coalesce(NEW.mask_secret_id, leaf.any_mask_secret());
    NEW.update_time := clock_timestamp();
    NEW.written_by := pg_current_xact_id()::xid;
    RETURN NEW;
END
$$;

-- The sequence of a row is its high water: how far numbers were granted, whatever became of the
-- transactions. It goes with the row's identity, so that a rename changes nothing.
CREATE UNIQUE INDEX alloc_incarnation_idx ON leaf.alloc (incarnation);

CREATE FUNCTION leaf.high_water(incarnation uuid) RETURNS name
    LANGUAGE sql IMMUTABLE STRICT RETURN ('g_' || replace(incarnation::text, '-', ''))::name;

CREATE FUNCTION leaf.high_water_of(incarnation uuid) RETURNS regclass
    LANGUAGE sql STABLE STRICT RETURN to_regclass('leaf.' || leaf.high_water(incarnation)::text);

CREATE FUNCTION leaf.make_high_water(incarnation uuid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET client_min_messages = warning SET lock_timeout = '5s' AS $$
BEGIN
    EXECUTE format('CREATE SEQUENCE IF NOT EXISTS leaf.%I MINVALUE -9223372036854775808 START -9223372036854775808',
                   leaf.high_water(incarnation));
    -- Whoever could set it could have blocks granted again.
    PERFORM leaf.take_back(NULL, leaf.high_water_of(incarnation));
    -- Default privileges can take them from the owner: without USAGE, no value would be seen.
    EXECUTE format('GRANT ALL ON SEQUENCE leaf.%I TO CURRENT_USER', leaf.high_water(incarnation));
END
$$;

CREATE FUNCTION leaf.drop_high_water(high_water name) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET client_min_messages = warning SET lock_timeout = '100ms' AS $$
BEGIN
    EXECUTE format('DROP SEQUENCE IF EXISTS leaf.%I', high_water);
EXCEPTION WHEN lock_not_available OR dependent_objects_still_exist THEN
    -- Any role can lock a sequence by its OID, and name it in a view: it remains, and does no harm.
END
$$;

CREATE FUNCTION leaf_alloc_changed(...)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    unused pg_catalog.name;
BEGIN
    IF TG_RELID <> 'leaf.alloc'::regclass THEN
        PERFORM leaf.fail('39P01', 'leaf_alloc_changed can only be called by the triggers of leaf.alloc', 'Use only the triggers that the extension has created.');
    ELSIF TG_OP = 'UPDATE' AND NEW.max_id >= OLD.max_id AND OLD.incarnation = NEW.incarnation THEN
        -- A grant, and most other changes.
        RETURN NULL;
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.max_id < OLD.max_id THEN
        -- Another trigger, which fired after leaf's, has changed the row.
        PERFORM leaf.fail('22023', format('tag "%s" cannot move backwards', OLD.biz_tag),
            format('Choose %s or more, or drop the tag and create it again.', OLD.max_id),
            format('Numbers up to %s have been granted.', OLD.max_id - 1));
    END IF;
    IF TG_OP = 'INSERT' OR TG_OP = 'UPDATE' AND OLD.incarnation <> NEW.incarnation THEN
        PERFORM leaf.make_high_water(NEW.incarnation);
    END IF;
    IF TG_OP = 'TRUNCATE' THEN
        FOR unused IN SELECT relname FROM pg_class
                       WHERE relnamespace = 'leaf'::regnamespace AND relkind = 'S' AND relname ^@ 'g_' LOOP
            PERFORM leaf.drop_high_water(unused);
        END LOOP;
    ELSIF TG_OP = 'DELETE' OR TG_OP = 'UPDATE' AND OLD.incarnation <> NEW.incarnation THEN
        IF NOT EXISTS (SELECT FROM leaf.alloc WHERE incarnation = OLD.incarnation) THEN
            PERFORM leaf.drop_high_water(leaf.high_water(OLD.incarnation));
        END IF;
    END IF;
    RETURN NULL;
END
$$;

CREATE FUNCTION leaf_worker_check(...)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    is_replica boolean := current_setting('session_replication_role') = 'replica';
    registered pg_catalog.record;
BEGIN
    IF TG_RELID <> 'leaf.worker'::regclass THEN
        PERFORM leaf.fail('39P01', 'leaf_worker_check can only be called by the triggers of leaf.worker', 'Use only the triggers that the extension has created.');
    ELSIF TG_OP = 'TRUNCATE' THEN
        PERFORM leaf.fail('0A000', 'cannot truncate leaf.worker', 'Delete the rows of nodes that are gone.',
            'Truncating it would lose the record of the worker ids in use.');
    ELSIF TG_OP = 'DELETE' THEN
        -- The next lease of the worker id may begin at the clock of a node, which may be behind.
        IF OLD.ceiling + (SELECT max_clock_offset FROM leaf.plain) <= clock_timestamp() THEN
            RETURN OLD;
        ELSIF is_replica THEN
            RETURN NULL;
        END IF;
        PERFORM leaf.fail('55006', format('worker id %s is in use', OLD.worker_id),
            'Release the lease with leaf_worker_release, or try again after that time.',
            format('Node "%s" may issue ids with it until %s.', OLD.node, OLD.ceiling));
    END IF;
    IF TG_OP = 'INSERT' THEN
        SELECT * INTO registered FROM leaf.settle_scheme();
    ELSE
        SELECT * INTO registered FROM leaf.registered_scheme();
    END IF;
    PERFORM leaf.layout(NEW.layout);
    PERFORM leaf.require_scheme(NEW.layout, NEW.epoch,
        coalesce(registered.layout, NEW.layout), coalesce(registered.epoch, NEW.epoch));
    IF TG_OP = 'INSERT' THEN
        RETURN NEW;
    ELSIF NEW.worker_id <> OLD.worker_id THEN
        PERFORM leaf.fail('22023', format('worker id %s cannot be changed to %s', OLD.worker_id, NEW.worker_id),
            'Register the node again with leaf_worker_register.');
    ELSIF NEW.ceiling < OLD.ceiling AND NOT leaf.is_own() THEN
        IF NOT is_replica THEN
            PERFORM leaf.fail('22023', format('the ceiling of worker id %s cannot be lowered', OLD.worker_id),
                'Ids up to the ceiling may have been issued; the next lease starts there.');
        END IF;
        NEW.ceiling := OLD.ceiling;
    END IF;
    -- A release lowers the ceiling as far as that.
    IF NEW.start_at < OLD.ceiling AND NEW.start_at IS DISTINCT FROM OLD.start_at AND NOT is_replica THEN
        PERFORM leaf.fail('22023', format('start_at of worker id %s cannot be moved below its ceiling', OLD.worker_id),
            'Ids up to the ceiling may have been issued; the next lease starts there.');
    END IF;
    RETURN NEW;
END
$$;
