# The commands of packaging/README.md, as root. scripts/test-packages runs each region in a
# root of Debian; for another PostgreSQL than 15, with its number.
# shellcheck shell=bash

# region install
apt-get install -y ./postgresql-15-leaf_*.deb ./leafctl_*.deb
# endregion

# region enable
libraries=$(pg_conftool -s 15 main show shared_preload_libraries || true)
pg_conftool 15 main set shared_preload_libraries "${libraries:+$libraries,}leaf"
pg_ctlcluster 15 main restart
runuser -u postgres -- psql -d shop -c 'CREATE EXTENSION leaf'
# endregion

# region upgrade
apt-get install -y ./postgresql-15-leaf_*.deb ./leafctl_*.deb
pg_ctlcluster 15 main restart
runuser -u postgres -- psql -d shop -c 'ALTER EXTENSION leaf UPDATE'
# endregion

# region remove
runuser -u postgres -- psql -d shop -c 'CALL leaf_column_release_all(drained => true)' -c 'DROP EXTENSION leaf'
libraries=$(pg_conftool -s 15 main show shared_preload_libraries)
pg_conftool 15 main set shared_preload_libraries "$(sed -E 's/(^|, *)leaf\b//; s/^, *//' <<<"$libraries")"
pg_ctlcluster 15 main restart
apt-get purge -y postgresql-15-leaf leafctl
# endregion
