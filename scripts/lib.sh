# Shared by the scripts in this folder; to be sourced, not run.
# shellcheck shell=bash
#
# Nothing here needs root or changes the system's PostgreSQL. leaf is built into
# $work, one folder per server version, and installed into $work/stage, a private
# copy of the server. A server never runs as root: if the caller is root, `as_server`
# switches to the account `postgres`.

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

# Cargo's profile for what is installed: `release`, or `quick` in tests of how it is installed.
profile=${LEAF_PROFILE:-release}

# Runs a command under an account that can run a PostgreSQL server. PGHOST and similar
# variables are unset, so that a client cannot connect to another server.
as_server() {
    local clean=(env -u PGHOST -u PGPORT -u PGUSER -u PGDATABASE -u PGOPTIONS -u PGSERVICE -u PGDATA LC_ALL=C)
    if [ "$(id -u)" = 0 ]; then
        # From /, because the account may not have access to the current folder.
        (cd / && exec runuser -u postgres -- "${clean[@]}" "$@")
    else
        "${clean[@]}" "$@"
    fi
}

# Runs a command as root.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# Installs Debian packages; does nothing if none are given.
install_packages() {
    if [ $# -eq 0 ]; then return; fi
    command -v apt-get >/dev/null ||
        die "this needs Debian's packages or equivalent ones: $*"
    [ "$(id -u)" = 0 ] || command -v sudo >/dev/null ||
        die "please install as root: apt-get install $*"
    say "installing $*"
    # One after the other; what a package starts must not hold the lock.
    (
        choose_cache
        exec 8>"$cache/apt.lock"
        flock 8
        as_root apt-get update -q 8>&-
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@" 8>&-
    )
}

# Sets $cache, the folder of what is kept for all checkouts: $LEAF_CACHE, else
# /var/cache/leaf for root and ~/.cache/leaf for others.
choose_cache() {
    if [ -n "${LEAF_CACHE:-}" ]; then
        cache=$LEAF_CACHE
    elif [ "$(id -u)" = 0 ]; then
        cache=/var/cache/leaf
    else
        cache=${XDG_CACHE_HOME:-$HOME/.cache}/leaf
    fi
    mkdir -p "$cache"
    cache=$(cd "$cache" && pwd -P)
}

# Builds a program of crates.io unless it is in the cache, and puts it first in PATH.
tool() { # tool NAME VERSION [OPTION OF CARGO INSTALL]...
    choose_cache
    local home=$cache/tools/$1-$2
    if [ ! -x "$home/bin/$1" ]; then
        say "building $1 $2"
        # Another checkout may build it at the same time.
        mkdir -p "$cache/tools"
        (
            flock 9
            [ -x "$home/bin/$1" ] ||
                CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR=$home.build cargo install -q --locked --debug --no-track --root "$home" "$1@$2" "${@:3}"
            rm -rf "$home.build"
        ) 9>"$home.lock"
    fi
    PATH=$home/bin:$PATH
}

# Runs a command for folder $1 unless it was run for it with the same $2; the folder is made
# anew before.
once() { # once FOLDER STAMP COMMAND...
    local folder=$1 stamp=$2
    shift 2
    if [ "$(cat "$folder/.stamp" 2>/dev/null)" = "$stamp" ]; then return; fi
    rm -rf "$folder"
    mkdir -p "$folder"
    "$@" "$folder"
    printf '%s\n' "$stamp" >"$folder/.stamp"
}

# Installs the libraries of a list into an environment of Python, unless they are there.
python_libraries() { # python_libraries FOLDER LIST
    once "$1" "$(python3 --version; cksum <"$2")" install_python_libraries "$2"
}

install_python_libraries() { # install_python_libraries LIST FOLDER
    python3 -m venv "$2"
    "$2/bin/pip" install -q --disable-pip-version-check --only-binary :all: -r "$1"
}

# Prints the files that belong to the sources, each with a NUL behind it: those that git
# knows, as they are now.
source_files() {
    if git rev-parse --git-dir >/dev/null 2>&1; then
        git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
            if [ -e "$file" ]; then printf '%s\0' "$file"; fi
        done
    else
        # An unpacked archive.
        find . -path ./target -prune -o \( -type f -o -type l \) -print0
    fi
}

# Copies the sources. Times of files are kept, so that cargo builds only what has changed.
copy_sources() { # copy_sources FOLDER
    mkdir -p "$1"
    source_files | tar -c --null -T - | tar -x -C "$1"
}

# Prints the mirror of Debian's main archive from which apt installs.
debian_mirror() { # debian_mirror [OPTION OF APT-GET]...
    # shellcheck disable=SC2016 # apt replaces $(REPO_URI)
    apt-get indextargets "$@" --format '$(REPO_URI)' \
        'Created-By: Packages' 'Origin: Debian' 'Label: Debian' 'Component: main' | sed -n 1p
}

# Prints the version of leaf.
project_version() {
    sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml
}

# 1.2.3, or 1.2.3-rc1, a candidate for it.
is_version() { [[ $1 =~ ^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-rc[1-9][0-9]*)?$ ]]; }

is_candidate() { [[ $1 == *-rc* ]]; }

# Prints a version as Debian writes it, which puts 1.2.3~rc1 before 1.2.3.
debian_version() { echo "${1/-/\~}"; }

# Whether version $1 comes before $2; none comes before all.
comes_before() {
    [ "$1" != "$2" ] &&
        [ "$(printf '%s\n' "$(debian_version "$1")" "$(debian_version "$2")" | sort -V | head -n 1)" = "$(debian_version "$1")" ]
}

# Prints the version that follows: 0.1.1 for 0.1.0, 0.1.0 for 0.1.0-rc1.
next_version() {
    if is_candidate "$1"; then echo "${1%-rc*}"; else echo "${1%.*}.$((${1##*.} + 1))"; fi
}

# Prints `pg_config --$1` of the chosen server.
pg() { "$PG_CONFIG" "--$1"; }

# Sets PG_CONFIG unless the caller has set it; fails if there is none.
find_server() {
    local candidate
    if [ -z "${PG_CONFIG:-}" ]; then
        for candidate in /usr/lib/postgresql/15/bin/pg_config "$(command -v pg_config || true)"; do
            [ -x "$candidate" ] && PG_CONFIG=$candidate && break
        done
    fi
    [ -n "${PG_CONFIG:-}" ] && [ -x "$(command -v "$PG_CONFIG")" ]
}

# Reads the version of the chosen server and sets:
#   $major   e.g. 15
#   $build   cargo's target folder for the extension
#   $work    stage and data; equal to $build unless `postgres` has no access to it
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

# Root's checkout is often below /root, to which `postgres` has no access. In this case,
# stage and data are in a folder below /var/tmp that is made for this checkout.
work_dir() {
    local elsewhere
    if as_server test -x "$build"; then
        printf '%s\n' "$build"
        return
    fi
    elsewhere=/var/tmp/leaf-$(id -u)-$(printf '%s' "$build" | cksum | cut -d' ' -f1)
    # The name can be guessed: use nothing that another user has put there.
    mkdir -m 755 "$elsewhere" 2>/dev/null || [ -O "$elsewhere" ] && [ ! -L "$elsewhere" ] ||
        die "$elsewhere belongs to another user; remove it"
    printf '%s\n' "$elsewhere"
}

# Creates a folder that belongs to the account of `as_server`.
server_dir() {
    mkdir -p "$1"
    if [ "$(id -u)" = 0 ]; then chown postgres: "$1"; fi
    chmod 700 "$1"
}

# Builds the library for the chosen server.
build_leaf() {
    PGRX_PG_CONFIG_PATH=$PG_CONFIG CARGO_TARGET_DIR=$build \
        cargo build --profile "$profile" -p leaf --no-default-features --features "pg$major"
}

# Copies a file into place in one step, because a running server may have the old one
# mapped.
put() { # put FILE FOLDER NAME [MODE]
    local temporary
    cmp -s "$1" "$2/$3" && [ ! -L "$2/$3" ] && return
    mkdir -p "$2"
    temporary=$(mktemp "$2/.leaf.XXXXXX")
    cp "$1" "$temporary"
    chmod "${4:-644}" "$temporary"
    mv -f "$temporary" "$2/$3"
}

# Copies leaf's files to the folders below $1 (empty for the server's own folders).
put_leaf() {
    local script
    for script in sql/leaf--*.sql; do
        put "$script" "$1$(pg sharedir)/extension" "$(basename "$script")"
    done
    put leaf.control "$1$(pg sharedir)/extension" leaf.control
    put "$build/$profile/libleaf.so" "$1$(pg pkglibdir)" leaf.so 755
}

# The environment in which the tests and the benchmark start their servers.
export_test_env() {
    export LEAF_PG_BINDIR=$bindir LEAF_TEST_DIR=$work/servers
    mkdir -p "$LEAF_TEST_DIR"
    chmod 755 "$LEAF_TEST_DIR"
}
