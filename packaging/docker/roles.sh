# Run once by the entrypoint of the database, when its data directory is made: a tag, the
# role of `leafctl serve`, and the role of the exporter (see docs/operations/monitoring.md).
# shellcheck shell=bash
psql -v ON_ERROR_STOP=1 -q -U "${POSTGRES_USER:-postgres}" -d "$POSTGRES_DB" \
    -v ids="$IDS_PASSWORD" -v monitor="$MONITOR_PASSWORD" <<'SQL'
SELECT leaf_tag_create('orders') \g /dev/null
CREATE ROLE ids LOGIN PASSWORD :'ids';
SELECT leaf_tag_grant('orders', 'ids') \g /dev/null
GRANT EXECUTE ON FUNCTION leaf_worker_register, leaf_worker_renew, leaf_worker_release TO ids;

CREATE ROLE leaf_monitor LOGIN PASSWORD :'monitor' IN ROLE pg_monitor;
ALTER ROLE leaf_monitor SET lock_timeout = '2s';
GRANT SELECT (leased_until, clock_offset_ms, upstream_ceiling) ON leaf.worker TO leaf_monitor;
SQL
