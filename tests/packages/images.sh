# Builds the images of packaging/docker over a base of the same layout as the official ones,
# runs them as compose.yaml says, and starts PostgreSQL with the image of CloudNativePG.
# shellcheck shell=bash

export POSTGRES_PASSWORD=postgres-pw IDS_PASSWORD=ids-pw MONITOR_PASSWORD=monitor-pw GRAFANA_PASSWORD=grafana-pw

# No daemon, no registry: images are folders below $scratch.
choose_storage() {
    local trial=$scratch/overlay driver=vfs
    mkdir -p "$trial"/{lower,upper,work,merged}
    # Much faster, where the file system is capable of it.
    if mount -t overlay overlay -o "lowerdir=$trial/lower,upperdir=$trial/upper,workdir=$trial/work" "$trial/merged" 2>/dev/null; then
        umount "$trial/merged"
        driver=overlay
    fi
    storage=(--root "$scratch/images" --runroot "$scratch/images.run" --storage-driver "$driver")
}

# What a container that is killed leaves behind is below $scratch, too.
in_buildah() { TMPDIR=$scratch buildah "${storage[@]}" "$@"; }

# Runs a command in a container, in the namespaces.
run_buildah() { TMPDIR=$scratch nsenter --target "$inner" --net --ipc -- buildah "${storage[@]}" run --isolation chroot "$@"; }

remove_images() {
    [ ! -d "$scratch/images" ] || in_buildah rm --all >/dev/null 2>&1 || true
    # Images are mounted below this folder.
    for folder in $(sed -n "s|^[^ ]* \($scratch/[^ ]*\) .*|\1|p" /proc/mounts | tac); do umount "$folder" || true; done
}

# What the official image has and packaging/docker relies on.
make_base() { # make_base MAJOR
    local base samples=/usr/share/postgresql
    base=$(in_buildah from scratch)
    in_buildah add --quiet "$base" "$(debian_root "$1")" / >/dev/null
    in_buildah copy --quiet "$base" tests/packages/base-entrypoint.sh /usr/local/bin/docker-entrypoint.sh >/dev/null
    in_buildah run --isolation chroot "$base" -- sh -euc "
        mkdir /docker-entrypoint-initdb.d
        mv $samples/$1/postgresql.conf.sample $samples/
        ln -s ../postgresql.conf.sample $samples/$1/
        sed -i \"s/^#listen_addresses = .*/listen_addresses = '*'/\" $samples/postgresql.conf.sample"
    in_buildah config --env "PG_MAJOR=$1" --env "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/postgresql/$1/bin" \
        --env PGDATA=/var/lib/postgresql/docker --entrypoint '["docker-entrypoint.sh"]' --cmd postgres "$base"
    in_buildah commit --quiet --rm "$base" base >/dev/null
}

build_image() { # build_image DOCKERFILE NAME FOLDER
    in_buildah build --format docker --isolation chroot --pull-never --build-arg BASE=localhost/base \
        -f "packaging/docker/$1" -t "$2" "$3"
}

# A part of the image's configuration, a line per word.
configured() { # configured NAME EXPRESSION
    in_buildah inspect --type image "$1" | python3 -c "import json, sys
config = json.load(sys.stdin)['Docker']['config']
print('\n'.join(config.get('$2') or []) if '$2' != 'Healthcheck' else '\n'.join(config['Healthcheck']['Test'][1:]))"
}

# Runs a service of compose.yaml: its image's entrypoint, with its command or the image's.
run_service() { # run_service SERVICE
    local environment mounts words container
    mapfile -t words < <(configured "$1" Entrypoint; { python3 tests/packages/compose.py command "$1" | grep . || configured "$1" Cmd; })
    mapfile -t environment < <(python3 tests/packages/compose.py environment "$1" | sed 's/^/--env=/')
    mapfile -t mounts < <(python3 tests/packages/compose.py mounts "$1" | grep . | sed 's/.*/--volume=&:ro/')
    container=$(in_buildah from --pull-never --name "run-$1" "localhost/$1")
    run_buildah "${environment[@]}" "${mounts[@]}" "$container" -- "${words[@]}" \
        >"$scratch/$1.log" 2>&1 &
    disown
}

in_service() { run_buildah "run-$1" -- "${@:2}"; } # in_service SERVICE COMMAND...

in_database() { in_service database env PGPASSWORD=$POSTGRES_PASSWORD psql -XAtq -h 127.0.0.1 -U postgres -d shop -c "$1"; }

is_healthy() { # is_healthy SERVICE
    local words
    mapfile -t words < <(configured "$1" Healthcheck)
    in_service "$1" "${words[@]}"
}

is_unhealthy() { if is_healthy "$1"; then return 1; fi; }

get() { beside_root curl -sSf "$1"; }

shows_log() { # shows_log SERVICE COMMAND...
    until_done "${@:2}" || { tail -n 30 "$scratch/$1.log"; return 1; }
}

# Debian's programs stand for those images that are of others.
run_monitoring() {
    local words environment
    mapfile -t environment < <(python3 tests/packages/compose.py environment exporter)
    mapfile -t words < <(python3 tests/packages/compose.py command exporter | sed "s|/etc/postgres_exporter.yaml|$root/monitoring/postgres_exporter.yaml|")
    beside_root env "${environment[@]}" prometheus-postgres-exporter "${words[@]}" >"$scratch/exporter.log" 2>&1 &
    mkdir -p "$scratch/prometheus"
    sed -e 's/exporter:/127.0.0.1:/; s/leafctl:8080/127.0.0.1:8080/' -e 's/_interval: 15s/_interval: 1s/' \
        packaging/docker/prometheus.yaml >"$scratch/prometheus/prometheus.yaml"
    cp monitoring/alerts.yaml "$scratch/prometheus/"
    beside_root prometheus --config.file="$scratch/prometheus/prometheus.yaml" --storage.tsdb.path="$scratch/prometheus/data" \
        >"$scratch/prometheus.log" 2>&1 &
    disown -a
}

# Whether Prometheus has a value of a metric.
has_metric() {
    get "http://127.0.0.1:9090/api/v1/query?query=$1" | grep -q '"value":'
}

test_images() { # test_images MAJOR FOLDER
    say "images, PostgreSQL $1"
    promise "what compose.yaml names exists" python3 tests/packages/compose.py check "$(unpacked_leafctl "$2")"
    choose_storage
    make_base "$1"
    mkdir "$scratch/net" "$scratch/net/proc" "$scratch/net/dev" "$scratch/net/dev/shm"
    enter_namespaces "$scratch/net"
    promise "the image of the database is built from the package" build_image Dockerfile database "$2"
    promise "the image of leafctl is built from the package" build_image leafctl.Dockerfile leafctl "$2"
    run_service database
    promise "the database comes up and is healthy" shows_log database is_healthy database
    promise "leaf is preloaded" says leaf in_database 'SHOW shared_preload_libraries'
    promise "leaf is created in the first database" says 1 in_database "SELECT count(*) FROM pg_extension WHERE extname = 'leaf'"
    run_service leafctl
    promise "leafctl serves ids over HTTP" shows_log leafctl get http://127.0.0.1:8080/v1/segment/orders
    promise "snowflake ids, too" get http://127.0.0.1:8080/v1/snowflake
    promise "leafctl is healthy by its own check" is_healthy leafctl
    promise "leafctl does not run as root" says 65532 in_service leafctl id -u
    run_monitoring
    promise "Prometheus has leaf's metrics by the exporter" shows_log prometheus has_metric leaf_segment_ids_left
    promise "Prometheus has the metrics of leafctl" shows_log prometheus has_metric leafctl_ids_total
    in_service database bash -c 'kill -INT $(head -n 1 $PGDATA/postmaster.pid)'
    promise "without a server, the database is not healthy" until_done is_unhealthy database
    leave_namespaces
    in_buildah rm --all >/dev/null
    [ "$1" -lt 18 ] || test_cloudnativepg "$1" "$2"
}

unpacked_leafctl() {
    dpkg-deb -x "$1"/leafctl_*.deb "$scratch/leafctl"
    echo "$scratch/leafctl/usr/bin/leafctl"
}
