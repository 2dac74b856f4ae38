#!/usr/bin/env bash
# Builds the linter of Prometheus' own `promtool check metrics`, once, from Go modules. The
# last line printed is the binary. Exit code 3: no Go that is new enough.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
recipe=$(cat "$here"/build.sh "$here"/main.go "$here"/go.mod "$here"/go.sum | sha256sum | cut -c1-12)
out="${XDG_CACHE_HOME:-$HOME/.cache}/windvane/promlint-$recipe"

if [ ! -x "$out" ]; then
  go_version=$(go env GOVERSION 2>/dev/null || true)
  if [ -z "$go_version" ] || [ "$(printf '%s\n' go1.22 "$go_version" | sort -V | head -n 1)" != go1.22 ]; then
    echo "building the linter of metrics needs Go 1.22 or later; found: ${go_version:-none}" >&2
    exit 3
  fi
  mkdir -p "${out%/*}"
  trap 'rm -f "$out.$$"' EXIT # what an interrupted build leaves
  export CGO_ENABLED=0 GOWORK=off GOFLAGS="${GOFLAGS:-} -mod=readonly -buildvcs=false"
  (cd "$here" && go build -ldflags "-s -w" -o "$out.$$" .)
  mv "$out.$$" "$out"
fi
echo "$out"
