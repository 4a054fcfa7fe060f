# Shared by scripts/test-packages and the files in this folder; to be sourced after
# scripts/lib.sh.
# shellcheck shell=bash

# Prints one line for a promise that holds. A promise that does not hold ends the script.
promise() { # promise TEXT COMMAND...
    local text=$1 status=0
    shift
    # In a condition, a failure in the middle of a function would not end it.
    set +e
    (set -e; "$@") >"$scratch/said" 2>&1
    status=$?
    set -e
    if [ $status != 0 ]; then
        printf 'FAILED  %s\n' "$text" >&2
        tail -n 40 "$scratch/said" >&2
        exit 1
    fi
    printf 'ok      %s\n' "$text"
}

# Fails if the command does not fail, or does not say the text.
fails_with() { # fails_with TEXT COMMAND...
    local text=$1
    shift
    if "$@" >"$scratch/failure" 2>&1; then
        echo "it succeeded: $*"
        return 1
    fi
    cat "$scratch/failure"
    grep -qF -- "$text" "$scratch/failure"
}

# Fails if the command's output is not the text.
says() { # says TEXT COMMAND...
    local said
    said=$("${@:2}") || return 1
    [ "$said" = "$1" ] || {
        printf 'expected: %s\ngot:      %s\n' "$1" "$said"
        return 1
    }
}

# Tries a command until it succeeds, for a minute.
until_done() {
    for _ in $(seq 300); do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.2
    done
    "$@"
}

# Prints the region of a file between `# region NAME` and `# endregion`.
region() { sed -n "/^# region $2\$/,/^# endregion\$/{/^# \(end\)\?region/d;p}" "$1"; }

## Roots

# Prints the path of an archive with a root of Debian: made by mmdebstrap, kept in the cache
# as long as its list of packages stays the same.
debian_root() { # debian_root MAJOR
    local suite packages archive mirror
    case $1 in
        15) suite=bookworm ;;
        17) suite=trixie ;;
        18) suite=forky ;;
        *) die "no Debian release has PostgreSQL $1; there are 15, 17, 18" ;;
    esac
    # All that leaf's packages need, so that nothing is fetched later: roots have no network.
    packages=postgresql-$1,systemd,man-db,bash-completion
    archive=$cache/root-$suite-$(printf '%s' "$packages" | cksum | cut -d' ' -f1).tar
    exec 4>"$archive.lock"
    flock 4
    if [ ! -e "$archive" ]; then
        mirror=$(debian_mirror)
        rm -f "$archive.new"
        # A mirror can be older than its release file allows.
        mmdebstrap --quiet --format=tar --variant=minbase --aptopt='Acquire::Check-Valid-Until "false"' \
            --include="$packages" "$suite" "$archive.new" "${mirror:-http://deb.debian.org/debian}" >&2
        mv "$archive.new" "$archive"
    fi
    exec 4>&-
    printf '%s\n' "$archive"
}

# Starts namespaces of their own, in which nothing else runs and there is no network, with
# the folder $1 as root. All processes and mounts in them end with the process $keeper.
enter_namespaces() { # enter_namespaces FOLDER
    rm -f "$scratch/ready"
    # shellcheck disable=SC2016 # the inner shell expands these
    unshare --mount --propagation private --pid --net --ipc --uts --fork --kill-child bash -euc '
        ip link set lo up
        mount -t proc proc "$1/proc"
        mount -t tmpfs -o mode=1777 tmpfs "$1/dev/shm"
        mount -t proc proc /proc
        touch "$2"
        # This shell is process 1 here, and reaps what others leave.
        while :; do sleep 1000 & wait $!; done' - "$1" "$scratch/ready" >/dev/null 2>&1 &
    keeper=$!
    # The shell is not to report its end.
    disown "$keeper"
    until_done test -e "$scratch/ready"
    inner=$(cat "/proc/$keeper/task/$keeper/children")
    inner=${inner%% *}
    inside_root=$1
}

leave_namespaces() {
    local network process
    [ -n "${keeper:-}" ] || return 0
    # Containers have process numbers of the machine: what shares the network is ended.
    network=$(readlink "/proc/$inner/ns/net")
    for process in /proc/[0-9]*; do
        if [ -n "$network" ] && [ "$(readlink "$process/ns/net" 2>/dev/null)" = "$network" ]; then
            kill -KILL "${process#/proc/}" 2>/dev/null || true
        fi
    done
    until_done sh -c '! kill -KILL "$1"' - "$keeper"
    keeper=
}

# Runs a command in the namespaces, with the files of this machine.
beside_root() { nsenter --target "$inner" --pid --net --ipc --uts -- "$@"; }

# Runs a command in the root.
in_root() {
    nsenter --target "$inner" --mount --pid --net --ipc --uts -- chroot "$inside_root" \
        /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root DEBIAN_FRONTEND=noninteractive "$@"
}

# Runs SQL in a database of the root.
sql() { # sql DATABASE STATEMENT
    in_root runuser -u postgres -- psql -XAtq -v ON_ERROR_STOP=1 -d "$1" -c "$2"
}

# Runs a region of the manual in the root, in the folder of the packages.
manual() { # manual REGION
    local commands
    commands=$(region tests/packages/manual.sh "$1" | sed "s/\b15\b/$tested/g")
    [ -n "$commands" ] || die "the manual has no region $1"
    in_root bash -euxc "cd /packages; $commands" </dev/null
}
