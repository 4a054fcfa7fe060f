/* Reading snowflake ids, and ids as texts: arithmetic, which needs no right. */

-- Microseconds since 1970, and back. Arithmetic on days in UTC is exact, that on seconds is not. A
-- session can have another meaning of the name UTC.
CREATE FUNCTION leaf.unix_us(at timestamptz) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN isfinite(at) THEN least(extract(epoch FROM at) * 1000000, 9223372036854775807)::bigint
                WHEN at > 'epoch' THEN 9223372036854775807 ELSE -9223372036854775808 END;
$$;

CREATE FUNCTION leaf.instant(us bigint) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT (timestamp 'epoch' + us / 86400000000 * interval '1 day' + us % 86400000000 * interval '1 microsecond') AT TIME ZONE interval '0';
$$;

-- The tick of an instant, the first tick that does not begin before it, and when a tick begins.
CREATE FUNCTION leaf.tick_at(at timestamptz, epoch timestamptz, tick_us bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT least(9223372036854775807, div(greatest(leaf.unix_us(at)::numeric - leaf.unix_us(epoch), 0), tick_us))::bigint;
$$;

CREATE FUNCTION leaf.tick_from(at timestamptz, epoch timestamptz, tick_us bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    -- A quotient of numeric is rounded.
    SELECT least(9223372036854775807, div(greatest(leaf.unix_us(at)::numeric - leaf.unix_us(epoch), 0) + tick_us - 1, tick_us))::bigint;
$$;

CREATE FUNCTION leaf.begin_of(tick bigint, epoch timestamptz, tick_us bigint) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT leaf.instant(leaf.unix_us(epoch) + tick * tick_us);
$$;

-- A layout by its name, or custom:TIME,WORKER,SEQUENCE[,TICK] in bits.
CREATE FUNCTION leaf.layout(INOUT name text, OUT tick_us bigint, OUT ticks bigint, OUT worker_ids bigint,
        OUT sequences bigint, OUT epoch_us bigint)
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given pg_catalog.text   := btrim(name, E' \t\n\r\f\v');
    parts pg_catalog.text[] := ARRAY(SELECT btrim(part, E' \t\n\r\f\v') FROM string_to_table(substr(given, 8), ',') AS part);
    bits  bigint[];
    tick  pg_catalog.text[];
    wrong pg_catalog.text;
BEGIN
    IF name IS NULL THEN
        PERFORM leaf.fail('22023', 'layout must not be null', 'Leave the argument out to get its default.');
    END IF;
    SELECT l.* INTO name, tick_us, ticks, worker_ids, sequences, epoch_us FROM (VALUES
        ('leaf',      1000,    1::bigint << 41, 1 << 10, 1 << 12,  1288834974657000),
        ('uid',       1000000, 1::bigint << 28, 1 << 22, 1 << 13,  1704067200000000),
        ('sonyflake', 10000,   1::bigint << 39, 1 << 16, 1 << 8,   1409529600000000),
        ('js53',      1000,    1::bigint << 41, 1 << 5,  1 << 7,   1704067200000000),
        ('decimal',   1000000, 9223372036,      100,     10000000, 0)) AS l(name) WHERE l.name = given;
    IF FOUND THEN
        RETURN;
    ELSIF NOT given ^@ 'custom:' THEN
        wrong := format('"%s" is not leaf, uid, sonyflake, js53, decimal, or custom:TIME,WORKER,SEQUENCE[,TICK]', given);
    ELSIF cardinality(parts) NOT IN (3, 4) THEN
        wrong := format('"%s" is not three numbers of bits', substr(given, 8));
    ELSE
        SELECT format('"%s" is not a number of bits', part) INTO wrong FROM unnest(parts[1:3]) WITH ORDINALITY AS p(part, n)
         WHERE part !~ '^[+]?[0-9]{1,9}$' ORDER BY n LIMIT 1;
        tick := regexp_match(coalesce(parts[4], '1ms'), '^([0-9]{1,9})[[:space:]]*(us|ms|s)$');
        IF wrong IS NULL AND tick IS NULL THEN
            wrong := format('"%s" is not the length of a tick, such as 1ms', parts[4]);
        ELSIF wrong IS NULL THEN
            bits := parts[1:3]::bigint[];
            tick_us := tick[1]::bigint * CASE tick[2] WHEN 'us' THEN 1 WHEN 'ms' THEN 1000 ELSE 1000000 END;
            wrong := CASE
                WHEN bits[1] = 0 OR bits[3] = 0 THEN 'time and sequence need at least 1 bit each'
                WHEN bits[2] > 31 OR bits[3] > 31 THEN 'worker id and sequence have at most 31 bits each'
                WHEN bits[1] + bits[2] + bits[3] > 63 THEN 'an id has 63 bits for all three fields together'
                WHEN tick_us NOT BETWEEN 1 AND 3600000000 THEN 'a tick is at least 1us and at most 1h long'
                WHEN tick_us * 2::numeric ^ bits[1] > 2::numeric ^ 62 THEN 'the time field reaches further than 140,000 years' END;
        END IF;
    END IF;
    IF wrong IS NOT NULL THEN
        PERFORM leaf.fail('22023', format('unknown layout: %s', wrong), 'Use one of the layouts that snowflake_layout in leaf.plain accepts.');
    END IF;
    ticks := 1::bigint << bits[1]::integer;
    worker_ids := 1::bigint << bits[2]::integer;
    sequences := 1::bigint << bits[3]::integer;
    epoch_us := 1288834974657000;
    name := format('custom:%s,%s,%s,%s', bits[1], bits[2], bits[3], CASE
        WHEN tick_us % 1000000 = 0 THEN tick_us / 1000000 || 's' WHEN tick_us % 1000 = 0 THEN tick_us / 1000 || 'ms' ELSE tick_us || 'us' END);
END
$$;

CREATE FUNCTION leaf_snowflake_decode(id bigint, layout text, ...)
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    l pg_catalog.record;
BEGIN
    SELECT * INTO l FROM leaf.layout(layout);
    IF id < 0 OR id / l.sequences / l.worker_ids >= l.ticks THEN
        PERFORM leaf.fail('22023', format('%s is not an id of layout %s', id, l.name), 'Give the layout and epoch that the id was made with.');
    END IF;
    sequence := id % l.sequences;
    worker_id := id / l.sequences % l.worker_ids;
    created_at := leaf.begin_of(id / l.sequences / l.worker_ids, epoch, l.tick_us);
END
$$;

CREATE FUNCTION leaf_snowflake_decode(id bigint, OUT ...)
    LANGUAGE sql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT d.* FROM leaf.scheme() AS s, @extschema@.leaf_snowflake_decode($1, s.layout, s.epoch) AS d;
$$;

CREATE FUNCTION leaf_snowflake_time(id bigint, layout text, ...)
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT d.created_at FROM @extschema@.leaf_snowflake_decode($1, $2, $3) AS d;
$$;

CREATE FUNCTION leaf_snowflake_time(id bigint)...
    LANGUAGE sql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT d.created_at FROM @extschema@.leaf_snowflake_decode($1) AS d;
$$;

CREATE FUNCTION leaf_snowflake_floor(ts timestamptz, layout text, ...)
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT least(9223372036854775807,
               least(l.ticks, leaf.tick_at(ts, epoch, l.tick_us))::numeric * l.worker_ids * l.sequences)::bigint
      FROM leaf.layout(layout) AS l;
$$;

CREATE FUNCTION leaf_snowflake_floor(ts timestamptz)...
    LANGUAGE sql STABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT @extschema@.leaf_snowflake_floor($1, s.layout, s.epoch) FROM leaf.scheme() AS s;
$$;

CREATE FUNCTION leaf_partman_encoder(...)
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT @extschema@.leaf_id_text(@extschema@.leaf_snowflake_floor($1, 'leaf', leaf.instant(l.epoch_us))) FROM leaf.layout('leaf') AS l;
$$;

CREATE FUNCTION leaf_partman_decoder(...)
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT @extschema@.leaf_snowflake_time(@extschema@.leaf_id_parse($1), 'leaf', leaf.instant(l.epoch_us)) FROM leaf.layout('leaf') AS l;
$$;

CREATE FUNCTION leaf_id_text(...)
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    symbols pg_catalog.text := '0123456789ABCDEFGHJKMNPQRSTVWXYZ*~$=U';
BEGIN
    IF id < 0 THEN
        PERFORM leaf.fail('22003', format('%s has no text, because it is negative', id),
            'Only ids from 0 on have texts. Let the tag start at 0 or above.');
    END IF;
    RETURN (SELECT string_agg(substr(symbols, (id >> 5 * place & 31)::integer + 1, 1), '' ORDER BY place DESC)
              FROM generate_series(0, 12) AS place) || substr(symbols, (id % 37)::integer + 1, 1);
END
$$;

CREATE FUNCTION leaf_id_parse(...)
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- By bytes, as places are counted.
    bytes   pg_catalog.bytea := convert_to($1, getdatabaseencoding());
    number  numeric := 0;
    symbols integer := 0;
    value   integer;
    checked integer;
    wrong   pg_catalog.text;
BEGIN
    FOR place IN 1..octet_length(bytes) LOOP
        CONTINUE WHEN get_byte(bytes, place - 1) = ascii('-');
        value := CASE WHEN get_byte(bytes, place - 1) BETWEEN 33 AND 126 THEN
            strpos('0123456789ABCDEFGHJKMNPQRSTVWXYZ*~$=U', translate(upper(chr(get_byte(bytes, place - 1)) COLLATE "C"), 'ILO', '110')) - 1 ELSE -1 END;
        symbols := symbols + 1;
        IF value < 0 OR symbols <= 13 AND value >= 32 THEN
            wrong := format('its byte %s is not a symbol', place);
        ELSIF symbols <= 13 AND number >= 2::numeric ^ 59 THEN
            wrong := 'its number is larger than any id';
        ELSIF symbols <= 13 THEN
            number := number * 32 + value;
        ELSIF symbols = 14 THEN
            checked := value;
        END IF;
        EXIT WHEN wrong IS NOT NULL;
    END LOOP;
    wrong := CASE WHEN wrong IS NOT NULL THEN wrong
                  WHEN symbols <> 14 THEN format('it has %s symbols instead of 14', symbols)
                  WHEN number > 9223372036854775807 THEN 'its number is larger than any id'
                  WHEN checked <> number % 37 THEN 'its check symbol is wrong' END;
    IF wrong IS NOT NULL THEN
        PERFORM leaf.fail('22P02', format('%s is not the text of an id', CASE
                WHEN octet_length(bytes) <= 64 THEN format('"%s"', $1) ELSE format('a text of %s bytes', octet_length(bytes)) END),
            'Give what leaf_id_text has returned: 13 symbols and a check symbol, with or without hyphens.',
            format('As the text of an id, %s.', wrong));
    END IF;
    RETURN number;
END
$$;
