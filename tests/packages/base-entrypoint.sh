#!/bin/bash
# Entrypoint of the image that stands for the official one in tests, which cannot be fetched
# everywhere. It does what packaging/docker relies on: it makes the data directory, runs
# /docker-entrypoint-initdb.d on a server that has no TCP port, and ends as the server.
set -euo pipefail

if [ "$(id -u)" = 0 ]; then
    install -d -o postgres -g postgres -m 700 "$PGDATA"
    install -d -o postgres -g postgres -m 3777 /var/run/postgresql
    exec setpriv --reuid=postgres --regid=postgres --init-groups "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    initdb -U postgres -D "$PGDATA" --auth-local=trust --auth-host=scram-sha-256 --pwfile=<(printf '%s\n' "$POSTGRES_PASSWORD") \
        --no-sync --no-instructions -E UTF8 --no-locale >/dev/null
    echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
    pg_ctl -D "$PGDATA" -o "-c listen_addresses=''" -w start >/dev/null
    createdb -U postgres "$POSTGRES_DB"
    for file in /docker-entrypoint-initdb.d/*; do
        case $file in
            *.sh) . "$file" ;;
            *.sql) psql -X -v ON_ERROR_STOP=1 -U postgres -d "$POSTGRES_DB" -f "$file" ;;
        esac
    done
    pg_ctl -D "$PGDATA" -m fast -w stop >/dev/null
fi
exec "$@"
