/* What the views show: what the tables have. There are no statistics without shared memory. */

CREATE FUNCTION leaf_alloc_stats(...)
    LANGUAGE plpgsql ROWS 1000 SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    SET lock_timeout = '5s' AS $$
#variable_conflict use_column
DECLARE
    asker pg_catalog.oid := leaf.asker();
BEGIN
    RETURN QUERY
        -- Each sequence would be locked: rolled-back blocks do not show.
        SELECT a.biz_tag, a.max_id, a.max_value, a.step, a.upstream_tag,
               a.stripes, a.stripe, a.stripe_width, a.striped_from, a.earlier_stripes, a.earlier_stripe
          FROM leaf.alloc AS a, leaf.has_role(asker, 'pg_monitor', a.owner) AS is_shown WHERE is_shown;
END
$$;

CREATE FUNCTION leaf_segment_stats(...)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT $2, l.ids_left,
           CASE WHEN NOT $5 AND l.all_ids > 0 THEN (100 * (l.all_ids - least(l.ids_left, l.all_ids)) / l.all_ids)::float8 END,
           NULL::interval, 0::bigint, 0::bigint, false, $3::bigint, 0::bigint, 0::bigint, 0::float8,
           0::bigint, 0::float8, 0::float8, 0::bigint, NULL::text, NULL::timestamptz, NULL::timestamptz
      FROM (SELECT CASE WHEN $5 THEN 0 ELSE least(leaf.ids_left($2, $4), 9223372036854775807)::bigint END AS ids_left,
                   leaf.ids_left(1, $4) AS all_ids) AS l;
$$;

CREATE FUNCTION leaf_segment_slots(...)
    LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$ SELECT NULL::text WHERE false; $$;

CREATE FUNCTION leaf_snowflake_stats(...)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
    SELECT NULL::integer, s.layout, s.epoch, NULL::timestamptz, NULL::timestamptz, NULL::float8, NULL::float8,
           0::bigint, 0::bigint, 0::float8, 0::float8, 0::bigint, leaf.begin_of(s.ticks, s.epoch, s.tick_us),
           least(100, greatest(0, 100.0 * (leaf.unix_us(now()) - leaf.unix_us(s.epoch)) / (s.ticks * s.tick_us)))::float8,
           NULL::text, NULL::timestamptz, NULL::timestamptz
      FROM leaf.scheme() AS s;
$$;

CREATE FUNCTION leaf_upstream_stats(...)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT NULL::text, NULL::timestamptz, NULL::timestamptz, 0::bigint, 0::bigint, 0::bigint, NULL::text, NULL::timestamptz;
$$;

CREATE FUNCTION leaf_stat_reset(...)
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT; $$;
