-- What leafctl doctor asks the database: each statement returns level, subject, finding and cure. It changes
-- nothing, and psql can run it too: psql -f doctor.sql
--
-- A statement is a check, whose subject the line before it names. In brackets: `extension`, if it needs the
-- library; `monitor`, if it needs pg_monitor; `primary`, if it means nothing on a standby.

SET search_path = pg_catalog, pg_temp;

-- check: server
SELECT 'notice', 'server', 'it is in recovery: ids are drawn at the primary, and nothing is refilled here',
       'run doctor at the primary, too'
 WHERE pg_is_in_recovery()
 UNION ALL
SELECT 'error', 'server', 'fsync is off: after a crash, ids can be handed out again', 'set fsync to on'
 WHERE NOT current_setting('fsync')::boolean;

-- check: failover [extension]
SELECT 'notice', 'failover',
       'with leaf.lossless_failover off, this standby takes another worker id when it is promoted, and feeds nothing until somebody vouches',
       'set it on all servers, if only standbys that lack nothing are promoted'
 WHERE pg_is_in_recovery() AND NOT current_setting('leaf.lossless_failover')::boolean;

-- check: rights [extension]
SELECT 'notice', 'rights', 'this role sees only its own tags, and no snowflake ids', 'GRANT pg_monitor TO the role'
 WHERE NOT pg_has_role('pg_monitor', 'USAGE');

-- Every background worker takes a slot; processes of the server itself do not.
-- check: worker slots [extension]
WITH s AS (
    SELECT current_setting('max_worker_processes')::bigint AS slots,
           count(*) FILTER (WHERE backend_type NOT IN (
               'client backend', 'walsender', 'walreceiver', 'checkpointer', 'background writer', 'walwriter', 'startup',
               'archiver', 'logger', 'autovacuum launcher', 'autovacuum worker', 'slotsync worker', 'io worker',
               'walsummarizer', 'standalone backend')) AS used,
           count(*) FILTER (WHERE backend_type = 'leaf loader' AND datname = current_database()) > 0 AS has_loader,
           (SELECT count(*) FROM pg_database WHERE datallowconn AND NOT datistemplate) AS databases
      FROM pg_stat_activity), f AS (
    SELECT *, used >= slots AND NOT has_loader AND NOT pg_is_in_recovery() AS is_full FROM s)
SELECT CASE WHEN is_full THEN 'error' ELSE 'notice' END, 'worker slots',
       CASE WHEN is_full
            THEN format('all %s background workers of max_worker_processes are in use, so no loader can start in this database', slots)
            ELSE format('%s databases, but max_worker_processes is %s: each database in which ids are drawn needs one for its loader',
                        databases, slots) END,
       'raise max_worker_processes, and restart the server'
  FROM f
 WHERE is_full OR slots < databases;

-- Whether grants wait for another session, or for a standby.
-- check: waits
SELECT 'error', 'table ' || l.relation::regclass,
       format('process %s (%s) has locked it%s: nothing is granted, and new sessions do not draw', l.pid,
              coalesce(a.usename::text, 'a process of the server'), ' since ' || date_trunc('second', a.xact_start)),
       format('end its transaction: SELECT pg_terminate_backend(%s)', l.pid)
  FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
 WHERE l.relation IN (to_regclass('leaf.alloc'), to_regclass('leaf.worker'))
   AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND a.xact_start < clock_timestamp() - interval '1 s'
   AND l.granted AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
 UNION ALL
SELECT 'error', 'loader', 'it waits for a synchronous standby: nothing is granted',
       'bring back a standby that synchronous_standby_names names, or change that setting, unless another server was promoted'
  FROM pg_stat_activity
 WHERE backend_type = 'leaf loader' AND datname = current_database()
   AND wait_event = 'SyncRep' AND xact_start < clock_timestamp() - interval '1 s';

-- Old versions of rows, which slow grants once they are many.
-- check: table leaf.alloc [extension monitor primary]
SELECT 'warning', 'table leaf.alloc',
       format('it has %s dead versions of its rows', dead_rows) || coalesce(', which cannot be removed because of ' || holder, ''),
       cure
  FROM leaf.horizon();

-- Whether ids are left, and whether they come in time.
-- check: tags
WITH s AS (
    SELECT *, 'tag "' || biz_tag || '"' AS subject, upstream_tag IS NULL AS is_own,
           CASE WHEN biz_tag ~ '^[A-Za-z0-9_./:@%+,-]+$' THEN biz_tag::text
                ELSE '''' || replace(biz_tag::text, '''', '''\''''') || '''' END AS word,
           coalesce(upstream_tag IS NULL AND granted_up_to >= max_value, false) AS is_last,
           next_left > 0 OR step > 0 AND current_left > step - step / 10
               OR last_error = 'the tag has reached its max_value' AS is_past,
           CASE WHEN upstream_tag IS NULL THEN extract(epoch FROM time_left) / 86400 END AS days_left
      FROM leaf.stat_segment AS s), t AS (
    SELECT *, CASE WHEN max_value < 9223372036854775806 AND granted_up_to < 9223372036854775806
                   THEN format('leafctl tags alter %s --max-value=9223372036854775807', word) END AS raise
      FROM s)
SELECT 'error', subject,
       CASE WHEN ids_left > 0 THEN format('its last numbers are granted: %s left', CASE ids_left WHEN 1 THEN '1 id is' ELSE ids_left || ' ids are' END)
            ELSE 'it has reached its max_value: no ids are left' END,
       coalesce(raise || ', if the columns have room for larger ids',
                'there are no larger ids: let the columns draw from another tag')
  FROM t
 WHERE is_last
 UNION ALL
SELECT CASE WHEN used_percent >= 95 THEN 'error' ELSE 'warning' END, subject,
       format('%s %% of its numbers are used', round(used_percent::numeric, 1))
           || coalesce(', and the rest lasts ' || CASE WHEN days_left < 3 THEN round(24 * days_left, 1) || ' hours'
                                                       ELSE round(days_left) || ' days' END, ''),
       coalesce(raise || '; look before whether columns of type integer have room',
                'let the columns draw from another tag before')
  FROM t
 WHERE NOT is_last AND (used_percent >= 80 OR used_percent >= 50 AND days_left < 30)
 UNION ALL
-- That the table is locked is an error of this moment.
SELECT CASE WHEN is_past OR last_error_at < now() - interval '10 min' THEN 'notice' ELSE 'error' END, subject,
       format(CASE WHEN is_past THEN 'a load failed at %s, and its cause is gone: %s' ELSE 'its last load failed at %s: %s' END,
              date_trunc('second', last_error_at), last_error),
       CASE WHEN is_past THEN 'none is needed; leaf_stat_reset forgets it'
            ELSE 'remove the cause; leaf tries again by itself' END
  FROM t
 WHERE NOT is_last AND last_error IS NOT NULL
   AND NOT (last_error_at >= now() AND last_error ~ 'leaf.alloc" is locked')
 UNION ALL
SELECT 'warning', subject, format('%s gave up after leaf.wait_timeout', CASE timeouts WHEN 1 THEN '1 call' ELSE timeouts || ' calls' END),
       'see its last error; once the cause is gone, leaf_stat_reset begins anew'
  FROM t
 WHERE timeouts > 0
 UNION ALL
SELECT 'notice', subject, 'the ids at hand last less than a minute if the centre is away',
       'raise leaf.segment_duration, or the tag''s max_step'
  FROM t
 WHERE NOT is_own AND ids_per_second > 0 AND (current_left + next_left) / ids_per_second < 60
 ORDER BY 2;

-- check: shared memory [extension monitor]
WITH m AS (
    SELECT count(*) AS tags, max(evictions) AS evictions, current_setting('leaf.max_tags')::bigint AS slots FROM leaf.stat_segment)
SELECT 'warning', 'shared memory', format('%s tags were evicted since the server started, of %s that have room at once', evictions, slots),
       format('set leaf.max_tags to %s, or more if other databases have many tags, too, and restart the server',
              greatest(2 * slots, tags + tags / 4))
  FROM m
 WHERE evictions > slots;

-- check: snowflake ids [extension monitor]
SELECT 'warning', 'clock', format('it has gone back %s times since the server started', rollbacks),
       'let chrony or ntpd slew the clock instead of setting it'
  FROM leaf.stat_snowflake
 WHERE rollbacks > 0
 UNION ALL
SELECT 'warning', 'clock', format('it was %s ms off those of the other nodes at the registration', round(clock_offset_ms)),
       'synchronise the clocks'
  FROM leaf.stat_snowflake
 WHERE abs(clock_offset_ms) > 1000
 UNION ALL
SELECT CASE WHEN ceiling >= clock_timestamp() THEN 'notice' ELSE 'error' END, 'snowflake ids',
       'the last lease or renewal that failed: ' || last_error, 'remove the cause; leaf tries again with the next draw'
  FROM leaf.stat_snowflake
 WHERE last_error_at IS NOT NULL
 UNION ALL
SELECT 'warning', 'snowflake ids', format('%s gave up after leaf.wait_timeout', CASE timeouts WHEN 1 THEN '1 call' ELSE timeouts || ' calls' END),
       'see the server''s log and leaf.stat_snowflake'
  FROM leaf.stat_snowflake
 WHERE timeouts > 0
 UNION ALL
SELECT 'error', 'snowflake ids', 'the time field is used up at ' || runs_out_at,
       'move to a layout or an epoch with more room'
  FROM leaf.stat_snowflake
 WHERE runs_out_at < now() + interval '1 year';

-- The loader has the rights of the extension's owner.
-- check: rights [extension]
SELECT 'error', 'rights',
       format('the owner of the extension, %I, may not change leaf''s tables, so nothing is granted', r.rolname),
       format('GRANT SELECT, INSERT, UPDATE, DELETE ON leaf.alloc, leaf.worker TO %I', r.rolname)
  FROM pg_extension AS e JOIN pg_roles AS r ON r.oid = e.extowner
 WHERE e.extname = 'leaf'
   AND NOT (has_table_privilege(r.oid, 'leaf.alloc', 'SELECT') AND has_table_privilege(r.oid, 'leaf.alloc', 'UPDATE')
            AND has_table_privilege(r.oid, 'leaf.worker', 'SELECT') AND has_table_privilege(r.oid, 'leaf.worker', 'INSERT')
            AND has_table_privilege(r.oid, 'leaf.worker', 'UPDATE'))
 UNION ALL
-- What everybody can do that only administrators and services should.
SELECT 'warning', 'rights', 'every role can call ' || p.proname,
       format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', p.proname)
  FROM pg_proc AS p
  JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
  JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'leaf'
 WHERE p.proname IN ('leaf_tag_attach', 'leaf_worker_register', 'leaf_worker_renew', 'leaf_worker_release')
   AND has_function_privilege('public', p.oid, 'EXECUTE');

-- Owners and grantees are names, which outlive their roles.
-- check: roles
SELECT CASE WHEN is_owner THEN 'warning' ELSE 'notice' END, 'tag "' || biz_tag || '"',
       format(CASE WHEN is_owner
                   THEN 'its owner, "%s", does not exist; a role that is created with this name will own it'
                   ELSE '"%s" may draw, but does not exist; a role that is created with this name may' END, role),
       CASE WHEN is_owner THEN format('UPDATE leaf.alloc SET owner = … WHERE biz_tag = %L', biz_tag)
            ELSE format('UPDATE leaf.alloc SET grantees = array_remove(grantees, %L) WHERE biz_tag = %L', role, biz_tag) END
  FROM (SELECT biz_tag, owner AS role, true AS is_owner FROM leaf.alloc
        UNION ALL
        SELECT biz_tag, unnest(grantees), false FROM leaf.alloc) AS named
 WHERE role <> 'public' AND NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role)
 ORDER BY 2;

-- What a failover would do here, said before there is one.
-- check: failover [extension primary]
SELECT 'warning', 'tag "' || biz_tag || '"',
       left_of_it || ' failovers are left: each skips leaf.history_skip times its last segment and its largest block',
       'raise its max_value, or lower leaf.history_skip if a failover loses few grants'
  FROM (SELECT biz_tag, leaf.failovers_left(biz_tag::text) AS left_of_it
          FROM leaf.stat_segment WHERE upstream_tag IS NULL AND used_percent < 80) AS t
 WHERE left_of_it < 10;

-- check: failover [extension primary]
WITH s AS (
    SELECT current_setting('leaf.lossless_failover')::boolean AND current_setting('synchronous_standby_names') = '' AS is_alone,
           current_setting('leaf.allow_unreplicated_centre')::boolean AS feeds,
           current_setting('leaf.worker_id')::integer >= 0 AS is_fixed,
           leaf.failovers_left() AS times,
           'set leaf.lossless_failover on all servers, if only standbys that lack nothing are promoted' AS cure)
SELECT 'error', 'failover',
       'leaf.lossless_failover is on, but synchronous_standby_names is empty: no standby confirms anything',
       'set synchronous_standby_names once a standby is connected, or leaf.lossless_failover to off on all servers, and restart them'
  FROM s
 WHERE is_alone
 UNION ALL
SELECT 'warning', 'failover',
       'a promoted standby feeds nothing until leaf_tag_vouch is called, or the tags are moved', cure
  FROM s
 WHERE NOT is_alone AND times IS NOT NULL AND feeds
 UNION ALL
SELECT 'warning', 'failover',
       'after a promotion, snowflake ids fail with 55000 until leaf_worker_take_over is called, because leaf.worker_id is set',
       cure
  FROM s
 WHERE NOT is_alone AND times IS NOT NULL AND is_fixed
 UNION ALL
SELECT CASE WHEN times < 3 THEN 'warning' ELSE 'notice' END, 'failover',
       format('a promoted standby leases another worker id, %s times until none is left; each is kept for leaf.worker_reuse_after',
              times),
       CASE WHEN times < 3 THEN cure ELSE 'none is needed' END
  FROM s
 WHERE NOT is_alone AND times IS NOT NULL AND NOT feeds AND NOT is_fixed;

-- Values that wait for a restart, and values of roles, of which leases take no notice.
-- check: settings
SELECT 'notice', name, 'its new value takes effect with a restart of the server', 'restart the server'
  FROM pg_settings
 WHERE name ^@ 'leaf.' AND pending_restart
 UNION ALL
SELECT * FROM (
    SELECT DISTINCT 'warning', split_part(setting, '=', 1), format('it is set for role %s, where it has no effect', r.rolname),
           format('ALTER ROLE ... RESET %1$s, and ALTER DATABASE ... SET %1$s', split_part(setting, '=', 1))
      FROM pg_db_role_setting AS s
      JOIN pg_roles AS r ON r.oid = s.setrole
      JOIN unnest(s.setconfig) AS setting
        ON split_part(setting, '=', 1) IN ('leaf.worker_id', 'leaf.snowflake_layout', 'leaf.snowflake_epoch')
     WHERE s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
     ORDER BY 2, 3) AS of_roles;

-- Names that the server does not know, which only its log tells.
-- check: settings [extension files]
SELECT DISTINCT 'warning', f.name, format('there is no such setting: %s, line %s', f.sourcefile, f.sourceline),
       'correct the name, or remove the line'
  FROM pg_file_settings AS f
 WHERE f.name ^@ 'leaf.' AND NOT EXISTS (SELECT FROM pg_settings AS s WHERE s.name = f.name);

-- leaf's tables must be logged, and leaf's own triggers must fire always. The plain edition has one of them.
-- check: tables
WITH own AS (
    SELECT t.* FROM (VALUES ('leaf.alloc', 'leaf_check'), ('leaf.alloc', 'leaf_changed'), ('leaf.alloc', 'leaf_truncated'),
                            ('leaf.worker', 'leaf_check'), ('leaf.worker', 'leaf_truncated')) AS t (relation, name)
     WHERE relation || name = 'leaf.allocleaf_check' OR EXISTS (SELECT FROM pg_extension WHERE extname = 'leaf')), found AS (
    SELECT tgrelid::regclass::text AS relation, tgname::text AS name, tgenabled
      FROM pg_trigger
     WHERE tgrelid IN ('leaf.alloc'::regclass, 'leaf.worker'::regclass) AND NOT tgisinternal)
SELECT 'error', 'table ' || oid::regclass, 'it is unlogged: a crash empties it, and no standby or backup has it',
       format('ALTER TABLE %s SET LOGGED', oid::regclass)
  FROM pg_class
 WHERE oid IN ('leaf.alloc'::regclass, 'leaf.worker'::regclass) AND relpersistence <> 'p'
 UNION ALL
SELECT 'error', 'table ' || o.relation,
       format('trigger %s %s', o.name, CASE WHEN f.name IS NULL THEN 'is missing' ELSE 'does not fire always' END),
       CASE WHEN f.name IS NULL THEN 'create or install leaf again, in a new database'
            ELSE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %s', o.relation, o.name) END
  FROM own AS o LEFT JOIN found AS f USING (relation, name)
 WHERE f.tgenabled IS DISTINCT FROM 'A'
 UNION ALL
SELECT 'notice', 'table ' || relation, format('trigger %s runs within every grant', name),
       'keep it quick; it must not change max_id'
  FROM found
 WHERE (relation, name) NOT IN (SELECT relation, name FROM own);

-- The centre, for servers that have fed tags or lease their worker id from one. Who may not see the setting does
-- not know whether it is set.
-- check: centre [extension]
WITH s AS (
    SELECT EXISTS (SELECT FROM leaf.stat_segment WHERE upstream_tag IS NOT NULL) AS has_fed,
           (SELECT setting = '' FROM pg_settings WHERE name = 'leaf.upstream') AS is_unset)
SELECT 'error', 'centre', 'there are fed tags, but leaf.upstream is not set: they get no ids',
       'set leaf.upstream in postgresql.conf, and reload'
  FROM s
 WHERE has_fed AND is_unset;

-- check: centre [extension monitor]
WITH s AS (
    SELECT EXISTS (SELECT FROM leaf.stat_segment WHERE upstream_tag IS NOT NULL) AS has_fed,
           coalesce((SELECT setting = '' FROM pg_settings WHERE name = 'leaf.upstream'), false) AS is_unset,
           u.*, host IS NOT NULL OR feeds > 0 OR failures > 0 AS is_used
      FROM leaf.stat_upstream AS u)
SELECT 'notice', 'centre', 'it has not been asked since the server started, so whether it answers is not known',
       'draw from a fed tag, and run doctor again'
  FROM s
 WHERE has_fed AND NOT is_unset AND is_used IS NOT TRUE
 UNION ALL
SELECT 'error', 'centre',
       format('it %s: %s', coalesce('last answered at ' || date_trunc('second', last_answer_at), 'has never answered'), last_error),
       'check that it runs, that leaf.upstream names it, and that it lets this server in'
  FROM s
 WHERE NOT is_unset AND is_used AND last_error IS NOT NULL
   AND last_error_at > coalesce(last_answer_at, '-infinity');

-- The nodes of Citus, each of which draws by itself. What they say comes as text, so that nothing here needs Citus.
-- check: nodes of Citus [extension]
WITH asked AS (
    SELECT CASE WHEN EXISTS (SELECT FROM pg_extension WHERE extname = 'citus') THEN query_to_xml($$
        SELECT * FROM run_command_on_all_nodes($of_node$
            SELECT json_build_object(
                'group', (SELECT groupid FROM pg_catalog.pg_dist_local_group),
                'worker_id', (SELECT worker_id FROM leaf.stat_snowflake),
                'is_shard', (SELECT setting <> '' FROM pg_catalog.pg_settings WHERE name = 'leaf.upstream'),
                'settings', (SELECT json_object_agg(name, setting) FROM pg_catalog.pg_settings
                              WHERE name IN ('leaf.snowflake_layout', 'leaf.snowflake_epoch')),
                'tags', (SELECT json_object_agg(biz_tag, CASE WHEN upstream_tag IS NOT NULL THEN 'fed'
                                                              WHEN stripes > 1 THEN format('stripe %s of %s', stripe, stripes)
                                                              ELSE 'all' END)
                           FROM leaf.alloc))
        $of_node$)$$, true, false, '') END AS answers), answered AS (
    SELECT a.* FROM asked, XMLTABLE('/table/row' PASSING answers COLUMNS nodeid integer, success boolean, result text) AS a), nodes AS (
    SELECT nodeid, result::json AS said, (result::json ->> 'group')::integer AS "group" FROM answered WHERE success), tags AS (
    SELECT n.nodeid, n."group", t.key AS tag, t.value AS kind
      FROM nodes AS n, json_each_text(CASE WHEN said ->> 'tags' IS NOT NULL THEN said -> 'tags' END) AS t)
SELECT 'warning', 'node ' || nodeid, 'it does not answer: ' || result, 'run doctor again when it runs'
  FROM answered
 WHERE NOT success
 UNION ALL
SELECT 'error', 'tag "' || t.tag || '"', 'nodes do not have it, so inserts fail there: ' || string_agg(n.nodeid::text, ', ' ORDER BY n.nodeid),
       'call leaf_tag_create with upstream_tag there'
  FROM (SELECT DISTINCT tag FROM tags) AS t CROSS JOIN nodes AS n
 WHERE NOT EXISTS (SELECT FROM tags AS o WHERE (o.nodeid, o.tag) = (n.nodeid, t.tag))
 GROUP BY t.tag
 UNION ALL
SELECT 'error', 'tag "' || tag || '"',
       'workers grant nothing, because other nodes may hand out the same ids: ' || string_agg(nodeid::text, ', ' ORDER BY nodeid),
       'call leaf_tag_attach there'
  FROM tags
 WHERE kind = 'all' AND "group" <> 0
 GROUP BY tag
 UNION ALL
SELECT 'error', 'tag "' || tag || '"', format('nodes have the same %s: %s', kind, string_agg(nodeid::text, ', ' ORDER BY nodeid)),
       'drop the tag on all of them but one, and create it with another stripe'
  FROM tags
 WHERE kind ^@ 'stripe'
 GROUP BY tag, kind HAVING count(*) > 1
 UNION ALL
SELECT 'error', 'snowflake ids',
       format('nodes have the same worker id, %s: %s', said ->> 'worker_id', string_agg(nodeid::text, ', ' ORDER BY nodeid)),
       'set leaf.upstream on all workers'
  FROM nodes
 WHERE said ->> 'worker_id' IS NOT NULL
 GROUP BY said ->> 'worker_id' HAVING count(*) > 1
 UNION ALL
SELECT 'error', 'centre', 'leaf.upstream is set on other workers, and not on nodes ' || string_agg(nodeid::text, ', ' ORDER BY nodeid),
       'set it there with ALTER SYSTEM, and reload'
  FROM nodes
 WHERE "group" <> 0 AND said ->> 'is_shard' = 'false'
   AND EXISTS (SELECT FROM nodes AS o WHERE o."group" <> 0 AND o.said ->> 'is_shard' = 'true')
HAVING count(*) > 0
 UNION ALL
SELECT 'warning', s.key, 'nodes differ: ' || string_agg(DISTINCT quote_literal(s.value), ', '), 'set it to one value on all nodes'
  FROM nodes, json_each_text(said -> 'settings') AS s
 GROUP BY s.key HAVING count(DISTINCT s.value) > 1
 ORDER BY 2, 3;

-- check: nodes of Citus [extension]
WITH asked AS (
    SELECT CASE WHEN to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN query_to_xml(
        'SELECT logicalrelid::text AS relation FROM pg_dist_partition WHERE logicalrelid::text IN (''leaf.alloc'', ''leaf.worker'')',
        true, false, '') END AS answers)
SELECT 'error', 'table ' || a.relation, 'Citus spreads it over nodes: each must have its own',
       format('SELECT undistribute_table(%L)', a.relation)
  FROM asked, XMLTABLE('/table/row' PASSING answers COLUMNS relation text) AS a;
