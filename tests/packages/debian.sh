# Installs, upgrades, removes and purges the packages in a clean root of Debian, in the
# way of packaging/README.md.
# shellcheck shell=bash

# Files of a root, without those of apt and dpkg, which remember packages, and logs.
files_of_root() {
    find "$1" -xdev \( -path "$1/proc" -o -path "$1/tmp" -o -path "$1/run" -o -path "$1/dev" -o -path "$1/packages" \
        -o -path "$1/var/lib/dpkg" -o -path "$1/var/lib/apt" -o -path "$1/var/cache" -o -path "$1/var/log" \
        -o -path "$1/var/lib/postgresql" \) -prune -o -print | sort
}

# Puts packages into the root's folder of packages, in place of others.
offer() { # offer FOLDER
    rm -rf "$root_folder/packages"
    mkdir -p "$root_folder/packages"
    cp "$1/postgresql-$tested-leaf"_*.deb "$1"/leafctl_*.deb "$root_folder/packages/"
}

start_root() {
    root_folder=$scratch/root$tested
    mkdir "$root_folder"
    tar -xf "$(debian_root "$tested")" -C "$root_folder"
    enter_namespaces "$root_folder"
    if [ ! -e "$root_folder/etc/postgresql/$tested/main" ]; then in_root pg_createcluster "$tested" main; fi
    files_of_root "$root_folder" >"$scratch/before"
    in_root pg_ctlcluster "$tested" main start
    sql postgres 'CREATE DATABASE shop' >/dev/null
}

## What must hold

has_files() { # has_files PATH...
    local file
    for file in "$@"; do
        [ -s "$root_folder/$file" ] || { echo "missing: $file" && return 1; }
    done
}

goes_with_the_server() { in_root apt-get -s remove "postgresql-$tested" | grep "^Remv postgresql-$tested-leaf "; }

created_without_preload() {
    sql postgres 'CREATE EXTENSION leaf' 2>&1 | grep -F "restart the server: shared_preload_libraries = 'leaf'"
    sql postgres 'SELECT extversion FROM pg_extension' | grep .
}

ids_come() {
    sql shop "SELECT leaf_tag_create('orders');
        CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT leaf_segment_next('orders'), item text);
        CREATE TABLE events (id bigint PRIMARY KEY DEFAULT leaf_snowflake_next(), what text);
        INSERT INTO orders (item) SELECT 'tea' FROM generate_series(1, 2500);
        INSERT INTO events (what) SELECT 'placed' FROM generate_series(1, 2500);"
    ids_go_on 2500
}

# Inserts once more; the primary keys refuse an id that came before.
ids_go_on() { # ids_go_on ROWS
    sql shop "INSERT INTO orders (item) VALUES ('cup'); INSERT INTO events (what) VALUES ('paid')"
    says "$(($1 + 1))|$(($1 + 1))" sql shop "SELECT count(DISTINCT o.id), (SELECT count(DISTINCT id) FROM events) FROM orders o"
    says t sql shop "SELECT (SELECT id FROM orders WHERE item = 'cup' ORDER BY id DESC LIMIT 1) = (SELECT max(id) FROM orders)"
}

manual_pages_are_read() {
    local page
    for page in leafctl leafctl-serve leafctl-status; do in_root man "$page" | grep -qi "${page#leafctl-}" || return 1; done
}

completions_are_there() {
    has_files usr/share/zsh/vendor-completions/_leafctl usr/share/fish/vendor_completions.d/leafctl.fish &&
        in_root bash -c '. /usr/share/bash-completion/completions/leafctl && complete -p leafctl'
}

user_is_there() {
    says leafctl in_root id -un leafctl && in_root getent passwd leafctl | grep ':/var/lib/leafctl:.*nologin$'
}

service_is_off() {
    # No link in /etc/systemd starts it.
    [ -z "$(find "$root_folder/etc/systemd" -name 'leafctl*')" ]
}

unit_is_valid() {
    local said
    said=$(in_root systemd-analyze verify leafctl-serve.service leafctl-serve.socket 2>&1) || true
    ! grep leafctl <<<"$said"
}

# systemd's own figure: 0 is the safest, 10 the least safe.
unit_is_hardened() {
    in_root systemd-analyze security --offline=true --threshold=20 --no-pager /lib/systemd/system/leafctl-serve.service
}

# The command of the unit, with the shipped configuration, as its user.
service_serves() {
    local command
    command=$(sed -n 's/^ExecStart=//p' "$root_folder/lib/systemd/system/leafctl-serve.service")
    sql shop "CREATE ROLE leafctl LOGIN; SELECT leaf_tag_grant('orders', 'leafctl')"
    in_root install -d -o leafctl -m 700 /var/lib/leafctl
    in_root runuser -u leafctl -- bash -c "set -a; . /etc/leafctl/serve.env; PGDATABASE=shop; exec $command" >"$scratch/serve.log" 2>&1 &
    until_done beside_root curl -sSf http://127.0.0.1:8080/v1/segment/orders || { cat "$scratch/serve.log"; return 1; }
    beside_root curl -sSf http://127.0.0.1:8080/v1/segment/orders | grep '"ids":\["[0-9]*"\]'
    in_root sh -c 'for process in /proc/[0-9]*; do
        [ "$(cat "$process/comm")" != leafctl ] || kill -TERM "${process#/proc/}"
    done'
    wait $!
}

restart_or_log() {
    in_root pg_ctlcluster "$tested" main restart && return
    in_root tail -n 3 "/var/log/postgresql/postgresql-$tested-main.log"
    return 1
}

tag_is_shown() { in_root runuser -u postgres -- leafctl status -d shop | grep orders; }

comes_back() {
    manual install
    in_root pg_ctlcluster "$tested" main start
}

# The steps of the workflow that docs/development.md shows, as if the packages came from its cache.
workflow_runs() {
    local steps
    # shellcheck disable=SC2016 # the script expands these
    printf '%s\n' '#!/bin/sh' 'user=root' '[ "$1" != -u ] || { user=$2; shift 2; }' 'exec runuser -u "$user" -- "$@"' \
        >"$root_folder/usr/local/bin/sudo"
    chmod +x "$root_folder/usr/local/bin/sudo"
    steps=$(python3 -c 'import re, sys, yaml
page = open("docs/development.md").read()
steps = yaml.safe_load(re.search(r"```yaml\n(jobs:.*?)```", page, re.S)[1])["jobs"]["test"]["steps"]
print("\n".join(step["run"] for step in steps if "run" in step and "if" not in step))')
    in_root ln -s /packages /tmp/leaf-packages
    in_root env PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin PG="$tested" bash -euxc "cd /tmp; $steps" </dev/null
    sql shop_test "SELECT leaf_snowflake_next()" | grep -E '^[0-9]+$'
}

nothing_is_left() {
    in_root pg_ctlcluster "$tested" main stop
    files_of_root "$root_folder" >"$scratch/after"
    diff "$scratch/before" "$scratch/after"
}

## The test

test_debian() { # test_debian MAJOR FOLDER NEXT-FOLDER
    tested=$1
    say "packages in a root of Debian, PostgreSQL $tested"
    start_root
    offer "$2"
    promise "apt installs the packages, with nothing else" manual install
    promise "the extension goes when the server goes" goes_with_the_server
    promise "the files are where the server looks for them" has_files \
        "usr/lib/postgresql/$tested/lib/leaf.so" "usr/share/postgresql/$tested/extension/leaf.control" \
        "usr/share/doc/postgresql-$tested-leaf/copyright" "usr/share/doc/postgresql-$tested-leaf/README.Debian" \
        usr/share/doc/leafctl/copyright
    promise "CREATE EXTENSION in a server that does not preload leaf warns with the line to add" created_without_preload
    promise "drawing in such a server fails, and the hint says why" \
        fails_with "Add leaf to shared_preload_libraries and restart the server." sql postgres 'SELECT leaf_snowflake_next()'
    promise "the manual enables it" manual enable
    promise "columns draw ids" ids_come
    promise "leafctl shows the tag" tag_is_shown
    promise "man shows the manual pages" manual_pages_are_read
    promise "the shells have completions" completions_are_there
    promise "the user leafctl exists and cannot log in" user_is_there
    promise "the service is neither enabled nor started" service_is_off
    promise "systemd accepts the units" unit_is_valid
    promise "systemd-analyze security finds an exposure of at most 2.0" unit_is_hardened
    promise "the service's command serves ids with the shipped configuration" service_serves
    offer "$3"
    promise "apt upgrades to the next version, ALTER EXTENSION UPDATE runs its script" manual upgrade
    promise "the database has the next version" says "$next_version" sql shop "SELECT extversion FROM pg_extension WHERE extname = 'leaf'"
    promise "ids go on without a repeat after the upgrade" ids_go_on 2501
    promise "apt removes the package" in_root apt-get remove -y "postgresql-$tested-leaf"
    promise "a server that still preloads leaf does not start and says why" \
        fails_with '"leaf": leaf: cannot open shared object file: No such file or directory' restart_or_log
    promise "installed again, the server starts" comes_back
    promise "ids go on without a repeat after that" ids_go_on 2502
    promise "the manual removes everything" manual remove
    promise "purge leaves no file" nothing_is_left
    promise "the steps of the manual's workflow install leaf, and a database made after that has it" workflow_runs
    leave_namespaces
    rm -rf "$root_folder"
}
