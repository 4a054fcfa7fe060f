/* leaf 0.2.0: what is new since 0.1.0. Never edited once released. */
\echo Use "ALTER EXTENSION leaf UPDATE TO '0.2.0'" to load this file. \quit

CREATE FUNCTION leaf_tag_align(
        tag text DEFAULT NULL,
        OUT biz_tag text, OUT used_in text, OUT highest bigint, OUT "position" bigint,
        OUT moved boolean) RETURNS SETOF record
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    used record;
    known record;
    is_moved boolean NOT NULL := false;
BEGIN
    IF leaf_tag_align.tag IS NOT NULL
       AND NOT EXISTS (SELECT FROM leaf.alloc AS a WHERE a.biz_tag = leaf_tag_align.tag) THEN
        RAISE EXCEPTION 'tag "%" does not exist', leaf_tag_align.tag
            USING ERRCODE = 'undefined_object',
                  HINT = 'Create it with leaf_tag_create, or leave the argument out to align all tags.';
    END IF;
    FOR used IN
        WITH found AS (
            -- Columns with a default that calls leaf_segment_next, ...
            SELECT f.attrelid, f.attname, f.atttypid, pg_get_expr(d.adbin, d.adrelid) AS expression
              FROM pg_depend AS p
              JOIN pg_attrdef AS d ON p.classid = 'pg_attrdef'::regclass AND d.oid = p.objid
              JOIN pg_attribute AS f ON f.attrelid = d.adrelid AND f.attnum = d.adnum
             WHERE p.refclassid = 'pg_proc'::regclass
               AND p.refobjid = '@extschema@.leaf_segment_next(text)'::regprocedure
            UNION
            -- ... and those whose domain has one.
            SELECT f.attrelid, f.attname, f.atttypid, pg_get_expr(t.typdefaultbin, 0)
              FROM pg_depend AS p
              JOIN pg_type AS t ON p.classid = 'pg_type'::regclass AND t.oid = p.objid
              JOIN pg_attribute AS f ON f.atttypid = t.oid AND NOT f.attisdropped AND NOT f.atthasdef
             WHERE p.refclassid = 'pg_proc'::regclass
               AND p.refobjid = '@extschema@.leaf_segment_next(text)'::regprocedure
        ), called AS (
            SELECT f.attrelid, f.attname, f.atttypid,
                   CASE WHEN starts_with(m.literal[1], 'E')
                        THEN replace(replace(substr(m.literal[1], 3, length(m.literal[1]) - 3),
                                             '''''', ''''), '\\', '\')
                        ELSE replace(substr(m.literal[1], 2, length(m.literal[1]) - 2),
                                     '''''', '''')
                   END AS tag
              FROM found AS f
              LEFT JOIN LATERAL regexp_matches(
                   f.expression, 'leaf_segment_next\(\(?(E?''(?:[^'']|'''')*'')::', 'g')
                   AS m(literal) ON true
        )
        SELECT f.tag, c.oid::regclass AS relation, f.attname,
               -- A domain has the output function of the type below it.
               t.typoutput IN ('int2out'::regproc, 'int4out'::regproc, 'int8out'::regproc,
                               'numeric_out'::regproc) AS is_number
          FROM called AS f
          JOIN pg_class AS c ON c.oid = f.attrelid AND c.relkind IN ('r', 'p', 'f')
          JOIN pg_type AS t ON t.oid = f.atttypid
         WHERE (leaf_tag_align.tag IS NULL OR f.tag = leaf_tag_align.tag)
           -- A partitioned table is read with its partitions.
           AND NOT (c.relispartition AND EXISTS (
                   SELECT FROM called AS o
                    WHERE o.attrelid = pg_partition_root(c.oid)
                      AND o.attname = f.attname AND o.tag = f.tag))
         ORDER BY f.tag, c.oid::regclass::text, f.attname
    LOOP
        leaf_tag_align.highest := NULL;
        leaf_tag_align.moved := false;
        IF used.is_number THEN
            -- What is no id, such as NaN, moves nothing.
            EXECUTE format('SELECT CASE WHEN m <= 9223372036854775806 THEN m::bigint END
                              FROM (SELECT max(%I) FROM %s) AS t(m)',
                           used.attname, used.relation)
               INTO leaf_tag_align.highest;
        END IF;
        -- After the maximum: what was drawn meanwhile is no sign of being behind.
        -- A tag that was moved stands where this transaction has put it.
        IF leaf_tag_align.biz_tag IS DISTINCT FROM used.tag OR NOT is_moved THEN
            leaf_tag_align.biz_tag := used.tag;
            is_moved := false;
            SELECT a.max_id, s."position" INTO known
              FROM leaf.alloc AS a JOIN leaf.stat_segment AS s USING (biz_tag)
             WHERE a.biz_tag = used.tag;
            leaf_tag_align."position" := known."position";
        END IF;
        IF leaf_tag_align.highest >= leaf_tag_align."position" THEN
            -- Above what is granted, too: buffers may hold ids that are in use.
            known.max_id := least(greatest(leaf_tag_align.highest, known.max_id),
                                  9223372036854775806) + 1;
            PERFORM @extschema@.leaf_tag_alter(used.tag, advance_to => known.max_id);
            leaf_tag_align."position" := known.max_id;
            leaf_tag_align.moved := true;
            is_moved := true;
        END IF;
        leaf_tag_align.used_in := format('%s.%I', used.relation, used.attname);
        RETURN NEXT;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION leaf_tag_align(text)
    IS 'moves tags past the largest ids in the columns whose default draws from them, as after a restore of older tags';
-- It reads other people's tables.
REVOKE EXECUTE ON FUNCTION leaf_tag_align(text) FROM PUBLIC;
