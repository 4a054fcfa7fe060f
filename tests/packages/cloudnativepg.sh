# Starts PostgreSQL with the files of CloudNativePG's extension image, mounted where the
# operator mounts them, with the settings that it makes. Nothing is in the server's folders.
# shellcheck shell=bash

# Unpacks the archive into $image_folder, as a container runtime does.
unpack_image() { # unpack_image ARCHIVE
    local container
    container=$(in_buildah from --quiet "oci-archive:$1" 2>/dev/null)
    image_folder=$scratch/extension
    cp -rp "$(in_buildah mount "$container")" "$image_folder"
    in_buildah rm "$container" >/dev/null
}

layout_is_right() {
    says "lib/leaf.so
share/extension/leaf--$version.sql
share/extension/leaf.control" sh -c 'cd "$1" && find lib share -type f | LC_ALL=C sort' - "$image_folder"
    [ -s "$image_folder/licenses/leaf/copyright" ]
    # Nothing else, and readable by the user of the server.
    says "lib licenses share " sh -c 'ls "$1" | tr "\n" " "' - "$image_folder"
    [ -z "$(find "$image_folder" ! -perm -444)" ]
}

server_has_no_leaf() { [ -z "$(find "$root_folder/usr" -name '*leaf*')" ]; }

settings_of_the_operator() {
    cp -rp "$image_folder" "$root_folder/extensions.leaf"
    in_root sh -euc 'mkdir -p /extensions; mv /extensions.leaf /extensions/leaf; chmod 755 /extensions/leaf'
    in_root pg_conftool "$tested" main set extension_control_path '$system:/extensions/leaf/share'
    in_root pg_conftool "$tested" main set dynamic_library_path '$libdir:/extensions/leaf/lib'
    in_root pg_conftool "$tested" main set shared_preload_libraries leaf
    in_root pg_ctlcluster "$tested" main restart
}

manifest_is_right() {
    python3 - "$version" <<'PYTHON'
import pathlib, sys, yaml
version = sys.argv[1]
cluster, database = yaml.safe_load_all(pathlib.Path("packaging/cloudnativepg/cluster.yaml").read_text())
server = cluster["spec"]["postgresql"]
assert cluster["apiVersion"] == database["apiVersion"] == "postgresql.cnpg.io/v1"
assert server["shared_preload_libraries"] == ["leaf"]
(extension,) = server["extensions"]
assert extension["name"] == "leaf" and f":{version}-" in extension["image"]["reference"], extension
assert database["spec"]["extensions"] == [{"name": "leaf", "version": version}]
assert database["spec"]["cluster"]["name"] == cluster["metadata"]["name"]
PYTHON
}

test_cloudnativepg() { # test_cloudnativepg MAJOR FOLDER
    tested=$1
    say "extension image of CloudNativePG, PostgreSQL $1"
    promise "the manifest names this version and preloads leaf" manifest_is_right
    unpack_image "$2/leaf-$version-postgresql-$1-$(dpkg --print-architecture).oci.tar"
    promise "the image has /lib and /share/extension, and no system" layout_is_right
    start_root
    promise "the server has no file of leaf" server_has_no_leaf
    promise "it starts with the folders of the image" settings_of_the_operator
    promise "CREATE EXTENSION finds the image's files" sql shop 'CREATE EXTENSION leaf'
    promise "columns draw ids from the image's library" ids_come
    promise "the library comes from the image" \
        in_root sh -c "grep -q ' /extensions/leaf/lib/leaf.so\$' /proc/\$(head -n 1 /var/lib/postgresql/$1/main/postmaster.pid)/maps"
    leave_namespaces
    rm -rf "$root_folder"
}
