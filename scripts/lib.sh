# Shared by the scripts of this folder; sourced, never run.
# shellcheck shell=bash
#
# Nothing here needs root or touches the system's PostgreSQL. leaf is built into
# $work, one folder per server version, and installed into $work/stage, a private
# copy of the server. A server never runs as root: `as_server` changes to the
# account `postgres` where the caller is root.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
target=${CARGO_TARGET_DIR:-$root/target}
case $target in /*) ;; *) target=$PWD/$target ;; esac
export CARGO_TARGET_DIR=$target
cd "$root"

die() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

say() { printf '\n== %s\n' "$*"; }

# Runs a command as an account that may run a PostgreSQL server. The environment
# is reset so that PGHOST and its like cannot lead a client elsewhere.
as_server() {
    local clean=(env -u PGHOST -u PGPORT -u PGUSER -u PGDATABASE -u PGOPTIONS -u PGSERVICE -u PGDATA LC_ALL=C)
    if [ "$(id -u)" = 0 ]; then
        # From /, because the account may be unable to enter the current folder.
        (cd / && exec runuser -u postgres -- "${clean[@]}" "$@")
    else
        "${clean[@]}" "$@"
    fi
}

# Runs a command as root.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# Installs Debian's packages; with none to install, does nothing.
install_packages() {
    if [ $# -eq 0 ]; then return; fi
    command -v apt-get >/dev/null ||
        die "this needs Debian's packages or what equals them: $*"
    [ "$(id -u)" = 0 ] || command -v sudo >/dev/null ||
        die "please install as root: apt-get install $*"
    say "installing $*"
    as_root apt-get update -q
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
}

# Answers `pg_config $1` of the chosen server.
pg() { "$PG_CONFIG" "--$1"; }

# Sets PG_CONFIG unless the caller chose one; fails if there is none.
find_server() {
    local candidate
    if [ -z "${PG_CONFIG:-}" ]; then
        for candidate in /usr/lib/postgresql/15/bin/pg_config "$(command -v pg_config || true)"; do
            [ -x "$candidate" ] && PG_CONFIG=$candidate && break
        done
    fi
    [ -n "${PG_CONFIG:-}" ] && [ -x "$(command -v "$PG_CONFIG")" ]
}

# Reads the chosen server's version and picks the folders for it:
#   $major   e.g. 15
#   $build   cargo's target folder for the extension
#   $work    stage and data; equal to $build unless `postgres` cannot go there
#   $stage   the private copy of the server
#   $bindir  its programs
choose_server() {
    find_server || die "no pg_config found; run 'make setup' or pass PG_CONFIG=/path/to/pg_config"
    PG_CONFIG=$(command -v "$PG_CONFIG")
    export PG_CONFIG
    major=$(pg version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
    build=$target/pg$major
    mkdir -p "$build"
    work=$(work_dir)
    stage=$work/stage
    bindir=$stage$(pg bindir)
}

# Root's checkout is often below /root, where `postgres` may not even look. Then
# stage and data live in a folder made for this checkout under /var/tmp.
work_dir() {
    local elsewhere
    if as_server test -x "$build"; then
        printf '%s\n' "$build"
        return
    fi
    elsewhere=/var/tmp/leaf-$(id -u)-$(printf '%s' "$build" | cksum | cut -d' ' -f1)
    # Never follow what somebody else put at this guessable name.
    mkdir -m 755 "$elsewhere" 2>/dev/null || [ -O "$elsewhere" ] && [ ! -L "$elsewhere" ] ||
        die "$elsewhere belongs to somebody else; remove it"
    printf '%s\n' "$elsewhere"
}

# Makes a folder that belongs to the account of `as_server`.
server_dir() {
    mkdir -p "$1"
    if [ "$(id -u)" = 0 ]; then chown postgres: "$1"; fi
    chmod 700 "$1"
}

# Builds the library for the chosen server.
build_leaf() {
    PGRX_PG_CONFIG_PATH=$PG_CONFIG CARGO_TARGET_DIR=$build \
        cargo build --release -p leaf --no-default-features --features "pg$major"
}

# Copies a file into place in one step: a running server may have the old one mapped.
put() { # put FILE FOLDER NAME [MODE]
    local temporary
    cmp -s "$1" "$2/$3" && [ ! -L "$2/$3" ] && return
    mkdir -p "$2"
    temporary=$(mktemp "$2/.leaf.XXXXXX")
    cp "$1" "$temporary"
    chmod "${4:-644}" "$temporary"
    mv -f "$temporary" "$2/$3"
}

# Copies leaf's own files below $1 (nothing, for the server's own folders).
put_leaf() {
    local script
    for script in sql/leaf--*.sql; do
        put "$script" "$1$(pg sharedir)/extension" "$(basename "$script")"
    done
    put leaf.control "$1$(pg sharedir)/extension" leaf.control
    put "$build/release/libleaf.so" "$1$(pg pkglibdir)" leaf.so 755
}

# The environment in which the tests and the benchmark start their servers.
export_test_env() {
    export LEAF_PG_BINDIR=$bindir LEAF_TEST_DIR=$work/servers
    mkdir -p "$LEAF_TEST_DIR"
    chmod 755 "$LEAF_TEST_DIR"
}
