# Checks examples/kubernetes by Kubernetes' own schemas. That its container runs, and answers the
# probes, is shown in tests/tests/serve/kubernetes.rs.
# shellcheck shell=bash

manifest=examples/kubernetes/leafctl-serve.yaml
# It has the schemas.
validator=$target/kubernetes/bin/kubernetes-validate

# Whether all objects of a file are valid. An object without a schema is only warned of.
is_valid() { # is_valid FILE VERSION
    local said
    said=$("$validator" --strict -k "$2" "$1" 2>&1) || { echo "$said"; return 1; }
    if grep -v '^INFO .* passed' <<<"$said"; then return 1; fi
}

# The oldest version that docs/serve.md names, and the newest one that the validator knows.
manifest_is_valid() {
    grep -qF 'It needs Kubernetes 1.27.' docs/serve.md
    is_valid $manifest 1.27.0 && is_valid $manifest 1.37.0
}

mistakes_are_refused() {
    local mistake
    for mistake in s/readOnlyRootFilesystem/readOnlyRootFileSystem/ s/periodSeconds:/intervalSeconds:/ \
        's/failureThreshold: 2/failureThreshold: "2"/' s/PodDisruptionBudget/PodDisruptionBudgets/; do
        sed "$mistake" $manifest >"$scratch/manifest.yaml"
        if cmp "$scratch/manifest.yaml" $manifest || is_valid "$scratch/manifest.yaml" 1.37.0; then return 1; fi
    done
}

test_kubernetes() {
    say "example for Kubernetes"
    python_libraries "$target/kubernetes" tests/packages/requirements.txt
    promise "the example for Kubernetes is valid by the schemas of Kubernetes 1.27 and 1.37" manifest_is_valid
    promise "one with a mistake would not be" mistakes_are_refused
}
