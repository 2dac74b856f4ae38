#!/usr/bin/env bash
# Builds a Kubernetes control plane for the tests, once, from Go modules: API server,
# scheduler, controller manager, kubectl, etcd and kwok. The last line printed is the
# folder with the binaries. Exit code 3: no Go that is new enough for all of them.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
kube=1.34.3
kwok=0.7.0
flags="-s -w"
for var in gitVersion=v$kube gitMajor=1 gitMinor=34 gitTreeState=clean; do
  flags+=" -X k8s.io/component-base/version.$var -X k8s.io/client-go/pkg/version.$var"
done
flags+=" -X sigs.k8s.io/kwok/pkg/consts.Version=v$kwok"

recipe=$(cat "$here"/build.sh "$here"/*/go.mod "$here"/*/go.sum "$here"/*/*.go | sha256sum | cut -c1-12)
cache="${XDG_CACHE_HOME:-$HOME/.cache}/windvane"
out="$cache/kube-v$kube-$recipe"

if [ "${1:-}" = --where ]; then
  echo "$out"
  exit 0
fi
binaries=(kube-apiserver kube-scheduler kube-controller-manager kubectl etcd kwok)
whole() {
  local name
  for name in complete stages.yaml "${binaries[@]}"; do
    [ -e "$out/$name" ] || return 1
  done
}
if whole; then
  echo "$out"
  exit 0
fi

go_version=$(go env GOVERSION 2>/dev/null || true)
if [ -z "$go_version" ] || [ "$(printf '%s\n' go1.24 "$go_version" | sort -V | head -n 1)" != go1.24 ]; then
  echo "building the control plane needs Go 1.24 or later; found: ${go_version:-none}" >&2
  exit 3
fi
export CGO_ENABLED=0 GOWORK=off GOFLAGS="${GOFLAGS:-} -mod=readonly -buildvcs=false"
# etcd asks for a newer Go than the others do. Ask go itself, before minutes of compiling:
# with GOTOOLCHAIN=auto an older one fetches what it lacks.
for module in etcd kubernetes kwok; do
  if ! refusal=$(cd "$here/$module" && go list -m 2>&1); then
    echo "building $module needs a newer Go, or GOTOOLCHAIN=auto and a network: $refusal" >&2
    exit 3
  fi
done

mkdir -p "$out"
echo "building into $out with $go_version"
rm -f "$out/complete"
trap 'rm -f "$out"/.*."$$"' EXIT # what an interrupted build leaves

build() { # folder, binary, package
  if [ -e "$out/$2" ]; then
    return
  fi
  echo "$2: building"
  local start=$SECONDS
  (cd "$here/$1" && go build -ldflags "$flags" -o "$out/.$2.$$" "$3")
  mv "$out/.$2.$$" "$out/$2"
  echo "$2: $((SECONDS - start)) s"
}

build kubernetes kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
build kubernetes kube-scheduler k8s.io/kubernetes/cmd/kube-scheduler
build kubernetes kube-controller-manager k8s.io/kubernetes/cmd/kube-controller-manager
build kubernetes kubectl k8s.io/kubernetes/cmd/kubectl
build etcd etcd .
build kwok kwok sigs.k8s.io/kwok/cmd/kwok

# kwok's stages: nodes become Ready and keep leases, pods run at once. Without them its
# defaults patch every node's status although leases are on.
stages="$(cd "$here/kwok" && go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage"
{
  for stage in node/fast/node-initialize node/heartbeat-with-lease/node-heartbeat-with-lease \
    pod/fast/pod-ready pod/fast/pod-complete pod/fast/pod-delete; do
    cat "$stages/$stage.yaml"
    echo ---
  done
} >"$out/.stages.$$"
mv "$out/.stages.$$" "$out/stages.yaml"
touch "$out/complete"
echo "$out"
