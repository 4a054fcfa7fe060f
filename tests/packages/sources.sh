# What can be said of packages without installing them: metadata, bytes, lintian.
# shellcheck shell=bash

## Builds

# Empties a home of cargo, as that of a new machine: it may name a mirror, and has no crate.
new_cargo_home() { # new_cargo_home FOLDER
    rm -rf "$1"
    mkdir -p "$1"
    cp -p "${CARGO_HOME:-$HOME/.cargo}"/config.toml "$1/" 2>/dev/null || true
}

# Builds packages in the copy, as the first command on another machine: below another path, with
# a new home of cargo, another umask, time zone and language.
package_elsewhere() { # package_elsewhere RESULT
    (
        cd "$elsewhere/a checkout" || exit
        new_cargo_home "$elsewhere/cargo-home"
        umask 077
        TZ=Pacific/Chatham LC_ALL=C LANG=de_DE.UTF-8 CARGO_HOME=$elsewhere/cargo-home CARGO_TARGET_DIR=$elsewhere/target \
            LEAF_PACKAGE_BUILD=$elsewhere/build LEAF_PACKAGES=$1 scripts/package
    )
}

# Makes the next version of the copy, with an update script, as if the present one were released;
# that, too, as the first command on a machine.
make_next_version() {
    cd "$elsewhere/a checkout"
    new_cargo_home "$scratch/cargo-home"
    export CARGO_HOME=$scratch/cargo-home
    (cd sql && sha256sum "leaf--$version.sql" >>released.sha256)
    scripts/begin-version "$next_version" >/dev/null
    echo "CREATE FUNCTION leaf_next_version() RETURNS text LANGUAGE sql RETURN '$next_version';" |
        tee -a "sql/leaf--$version--$next_version.sql" >>"sql/leaf--$next_version.sql"
}

# Builds $first, the packages; $second, the same elsewhere; and $next, those of the next version.
build_all() { # build_all MAJOR
    first=$scratch/first-$1 second=$scratch/second-$1 next=$scratch/next-$1
    tested=$1
    version=$(project_version)
    next_version=$(next_version "$version")
    elsewhere=$cache/packages-$(printf '%s' "$root" | cksum | cut -d' ' -f1)
    mkdir -p "$elsewhere"
    LEAF_PACKAGES=$first build "packages, PostgreSQL $1" scripts/package
    rm -rf "$elsewhere/a checkout"
    copy_sources "$elsewhere/a checkout"
    build "packages, built in another place" package_elsewhere "$second"
    (make_next_version)
    build "packages of version $next_version" package_elsewhere "$next"
}

# Runs a build, whose output is shown only if it fails.
build() { # build TEXT COMMAND...
    say "$1"
    local begin=$SECONDS
    "${@:2}" >"$scratch/build.log" 2>&1 || { tail -n 60 "$scratch/build.log" >&2; die "failed: $1"; }
    echo "built in $((SECONDS - begin)) s"
}

## What must hold

same_bytes() {
    local file
    for file in "$first"/*.deb "$first"/*.oci.tar; do
        [ ! -e "$file" ] || cmp "$file" "$second/$(basename "$file")" || return 1
    done
}

# The program is built anew beside each PostgreSQL.
leafctl_is_one() {
    local file
    for file in "$scratch"/first-*/leafctl_*.deb; do cmp "$file" "$first/$(basename "$file")" || return 1; done
}

# Paths of this machine: of the checkout, of cargo, of the account.
no_path_of_this_machine() {
    local file
    for file in "$first"/*.deb; do
        rm -rf "$scratch/unpacked"
        dpkg-deb -x "$file" "$scratch/unpacked"
        # Debug information is compressed.
        find "$scratch/unpacked" -name '*.debug' -exec objcopy --decompress-debug-sections {} \;
        if grep -rlaF -e "$root" -e "$elsewhere" -e "${CARGO_HOME:-$HOME/.cargo}" "$scratch/unpacked"; then return 1; fi
    done
}

sums_are_right() { (cd "$first" && sha256sum --check --strict SHA256SUMS && [ "$(wc -l <SHA256SUMS)" = "$(find . -name '*.deb' -o -name '*.zip' | wc -l)" ]); }

lintian_is_silent() { lintian --allow-root --fail-on error,warning "$first"/*.deb; }

# Each crate that cargo links is named, with a text or the remark that there is none.
crates_are_named() { # crates_are_named PACKAGE CRATE-OPTIONS...
    local package=$1 crate
    shift
    rm -rf "$scratch/unpacked"
    dpkg-deb -x "$first/${package}_${version/-/.}-1_$(dpkg --print-architecture).deb" "$scratch/unpacked"
    cargo tree --locked --offline -e normal,no-proc-macro --prefix none -f '{p}' "$@" |
        sed -n 's/^\([^ ]*\) v\([^ ]*\)\( (\*)\)\?$/\1 \2/p' | sort -u >"$scratch/crates"
    [ -s "$scratch/crates" ]
    zcat "$scratch/unpacked/usr/share/doc/$package/THIRD-PARTY.gz" >"$scratch/third-party"
    while read -r crate; do
        grep -qxF "$crate" "$scratch/third-party" &&
            grep -qF " vendor/${crate/ /-}/*" "$scratch/unpacked/usr/share/doc/$package/copyright" ||
            { echo "not named: $crate"; return 1; }
    done <"$scratch/crates"
}

# A pg_config as that of a server with assertions.
assertions_are_refused() {
    local fake=$scratch/assertions
    mkdir -p "$fake"
    echo '#define USE_ASSERT_CHECKING 1' >"$fake/pg_config.h"
    touch "$fake/postgres.h" "$fake/postgres"
    chmod 755 "$fake/postgres"
    printf '#!/bin/sh\ncase $1 in --version) echo PostgreSQL %s.1 ;; *) echo %s ;; esac\n' "$tested" "$fake" >"$fake/pg_config"
    chmod 755 "$fake/pg_config"
    PG_CONFIG=$fake/pg_config fails_with "is of a server with assertions" scripts/package
}

versions_agree() { # versions_agree FILE
    (
        rm -rf "$scratch/disagree"
        copy_sources "$scratch/disagree"
        cd "$scratch/disagree"
        sed -i "s/${version//./\\.}/9.9.9/" "$1"
        CARGO_TARGET_DIR=$scratch/disagree/target fails_with "has version" scripts/package
    )
}

# What scripts/setup asks apt to install on a machine without the programs of the tests.
setup_asks() { # setup_asks PURPOSE
    local path=$scratch/path folder
    rm -rf "$path"
    mkdir "$path"
    for folder in ${PATH//:/ }; do ln -s "$folder"/* "$path/" 2>/dev/null || true; done
    rm -f "$path"/{tmux,chromium,patroni,etcd,mariadb-dump,prometheus*,apt-get,systemctl}
    printf '#!/bin/sh\necho "$@"\n' >"$path/apt-get"
    chmod 755 "$path/apt-get"
    cp "$path/apt-get" "$path/systemctl"
    PATH=$path scripts/setup "$1"
}

building_asks_for_nothing() { says "" setup_asks build; }

tests_ask_for_theirs() {
    local asked package
    asked=$(setup_asks tests)
    for package in tmux chromium patroni etcd-server mariadb-client prometheus; do
        grep -qw -- "$package" <<<"$asked" || { echo "not asked for: $package" && return 1; }
    done
    # The demo of several nodes needs no more than these two.
    asked=$(setup_asks nodes)
    grep -qw patroni <<<"$asked" && ! grep -qw tmux <<<"$asked"
}

## PGXN

meta_is_valid() { pgxn_meta META.json; }

meta_without_license_is_refused() {
    grep -v '"license"' META.json >"$scratch/META.json"
    if pgxn_meta "$scratch/META.json"; then return 1; fi
}

# Versions, and files that are there.
meta_agrees() {
    python3 - <<'PYTHON'
import json, pathlib, re
meta = json.loads(pathlib.Path("META.json").read_text())
version = re.search(r"default_version = '(.*)'", pathlib.Path("leaf.control").read_text())[1]
provided = meta["provides"]["leaf"]
assert meta["version"] == provided["version"] == version, "versions differ"
assert provided["file"] == f"sql/leaf--{version}.sql", "another install script"
for name in provided["file"], provided["docfile"]:
    assert pathlib.Path(name).is_file(), f"{name} does not exist"
PYTHON
}

archive_is_complete() {
    local file
    for file in META.json README.md LICENSE Cargo.lock leaf.control "sql/leaf--$version.sql" src/lib.rs; do
        unzip -l "$first/leaf-$version.zip" "leaf-$version/$file" || return 1
    done
}

## The tests

test_sources() {
    say "sources"
    tool pgxn_meta 0.7.0
    promise "META.json is valid by PGXN's specification" meta_is_valid
    promise "one without a license would not be" meta_without_license_is_refused
    promise "META.json names this version, and files that exist" meta_agrees
    promise "the blocks of packaging/README.md are what the tests run" \
        python3 tests/clients/blocks.py packaging/README.md tests/packages
    version=$(project_version)
    tested=15
    promise "a changelog of another version is refused" versions_agree packaging/debian/changelog
    promise "a META.json of another version is refused" versions_agree META.json
    promise "a manifest of another version is refused" versions_agree packaging/cloudnativepg/cluster.yaml
    promise "building, and so the demo, installs no program of the tests" building_asks_for_nothing
    promise "the tests install theirs" tests_ask_for_theirs
    promise "a server with assertions is refused" assertions_are_refused
}

test_packages() {
    say "packages"
    promise "built elsewhere, the packages have the same bytes" same_bytes
    promise "leafctl has the same bytes for each PostgreSQL" leafctl_is_one
    promise "no path of this machine is in them" no_path_of_this_machine
    promise "SHA256SUMS names all files, with the right sums" sums_are_right
    promise "lintian finds neither errors nor warnings" lintian_is_silent
    promise "each crate in leaf.so is named with its license" crates_are_named "postgresql-$tested-leaf" \
        -p leaf --no-default-features --features "pg$tested"
    promise "each crate in leafctl is named with its license" crates_are_named leafctl -p leafctl
    promise "the archive for PGXN has what builds leaf" archive_is_complete
}
