/* Reading snowflake ids: arithmetic. */

-- Microseconds since 1970.
CREATE OR REPLACE FUNCTION leaf.unix_us(at timestamptz) RETURNS numeric
    LANGUAGE sql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN isfinite(at) THEN extract(epoch FROM at) * 1000000
                WHEN at > 'epoch' THEN 2::numeric ^ 63 ELSE 0 END;
$$;

-- The tick of an instant, and when a tick begins. Arithmetic on days in UTC is exact, that on seconds is not.
CREATE OR REPLACE FUNCTION leaf.tick_at(at timestamptz, epoch timestamptz, tick_us bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT least(9223372036854775807, div(greatest(leaf.unix_us(at) - leaf.unix_us(epoch), 0), tick_us))::bigint;
$$;

CREATE OR REPLACE FUNCTION leaf.begin_of(tick bigint, epoch timestamptz, tick_us bigint) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT (timestamp 'epoch' + us / 86400000000 * interval '1 day' + us % 86400000000 * interval '1 microsecond')
           AT TIME ZONE interval '0'
      FROM (SELECT leaf.unix_us(epoch)::bigint + tick * tick_us AS us) AS f;
$$;

-- A layout by its name, or custom:TIME,WORKER,SEQUENCE[,TICK] in bits.
CREATE OR REPLACE FUNCTION leaf.layout(INOUT name text, OUT tick_us bigint, OUT ticks bigint, OUT worker_ids bigint,
        OUT sequences bigint, OUT epoch timestamptz)
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given text   := name;
    parts text[] := regexp_match(replace(name, ' ', ''),
        '^custom:([0-9]{1,2}),([0-9]{1,2}),([0-9]{1,2})(?:,([0-9]{1,9})(us|ms|s))?$');
    bits  integer[];
BEGIN
    SELECT l.* INTO name, tick_us, ticks, worker_ids, sequences, epoch FROM (VALUES
        ('leaf',      1000,    1::bigint << 41, 1 << 10, 1 << 12,  timestamptz '2010-11-04 01:42:54.657+00'),
        ('uid',       1000000, 1::bigint << 28, 1 << 22, 1 << 13,  '2024-01-01 00:00+00'),
        ('sonyflake', 10000,   1::bigint << 39, 1 << 16, 1 << 8,   '2014-09-01 00:00+00'),
        ('js53',      1000,    1::bigint << 41, 1 << 5,  1 << 7,   '2024-01-01 00:00+00'),
        ('decimal',   1000000, 9223372036,      100,     10000000, '1970-01-01 00:00+00')) AS l(name)
     WHERE l.name = given;
    IF FOUND THEN
        RETURN;
    END IF;
    bits := parts[1:3]::integer[];
    tick_us := coalesce(parts[4]::bigint * CASE parts[5] WHEN 'us' THEN 1 WHEN 'ms' THEN 1000 ELSE 1000000 END, 1000);
    IF parts IS NULL OR bits[1] = 0 OR bits[3] = 0 OR bits[2] > 31 OR bits[3] > 31 OR bits[1] + bits[2] + bits[3] > 63
       OR tick_us NOT BETWEEN 1 AND 3600000000 OR tick_us * 2::numeric ^ bits[1] > 2::numeric ^ 62 THEN
        PERFORM leaf.fail('22023', format('unknown layout: "%s"', given),
            'Use leaf, uid, sonyflake, js53, decimal, or custom:TIME,WORKER,SEQUENCE[,TICK] with up to 63 bits.');
    END IF;
    ticks := 1::bigint << bits[1];
    worker_ids := 1::bigint << bits[2];
    sequences := 1::bigint << bits[3];
    epoch := '2010-11-04 01:42:54.657+00';
    name := format('custom:%s,%s,%s,%s', bits[1], bits[2], bits[3], CASE WHEN tick_us % 1000000 = 0
        THEN tick_us / 1000000 || 's' WHEN tick_us % 1000 = 0 THEN tick_us / 1000 || 'ms' ELSE tick_us || 'us' END);
END
$$;

-- Layout and epoch of this database: those of its leases, or else, or if that is asked, those that are set.
CREATE OR REPLACE FUNCTION leaf.scheme(is_set boolean, OUT layout text, OUT epoch timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT w.layout, w.epoch FROM leaf.worker AS w WHERE NOT is_set
     UNION ALL
    SELECT l.name, coalesce(p.snowflake_epoch, l.epoch)
      FROM leaf.plain AS p, leaf.layout(p.snowflake_layout) AS l LIMIT 1;
$$;

-- By default with layout and epoch of this database.
CREATE OR REPLACE FUNCTION @extschema@.leaf_snowflake_decode(
        id bigint, layout text DEFAULT NULL, epoch timestamptz DEFAULT NULL,
        OUT created_at timestamptz, OUT worker_id integer, OUT sequence integer)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    here record := leaf.scheme(false);
    l    record := leaf.layout(coalesce(layout, here.layout));
BEGIN
    IF id < 0 OR id / l.sequences / l.worker_ids >= l.ticks THEN
        PERFORM leaf.fail('22023', format('%s is not an id of layout %s', id, l.name),
            'Give the layout and epoch that the id was made with.');
    END IF;
    sequence := id % l.sequences;
    worker_id := id / l.sequences % l.worker_ids;
    created_at := leaf.begin_of(id / l.sequences / l.worker_ids, coalesce(epoch, here.epoch), l.tick_us);
END
$$;

CREATE OR REPLACE FUNCTION @extschema@.leaf_snowflake_time(
        id bigint, layout text DEFAULT NULL, epoch timestamptz DEFAULT NULL) RETURNS timestamptz
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT d.created_at FROM @extschema@.leaf_snowflake_decode($1, $2, $3) AS d;
$$;

CREATE OR REPLACE FUNCTION @extschema@.leaf_snowflake_floor(
        ts timestamptz, layout text DEFAULT NULL, epoch timestamptz DEFAULT NULL) RETURNS bigint
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT least(9223372036854775807, least(l.ticks, leaf.tick_at(ts, coalesce($3, here.epoch), l.tick_us))::numeric
               * l.worker_ids * l.sequences)::bigint
      FROM leaf.scheme(false) AS here, leaf.layout(coalesce($2, here.layout)) AS l;
$$;
