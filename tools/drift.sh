#!/usr/bin/env bash
# Fails when generated code differs from what the sources generate. The page of liqoctl dashboard needs Node.js: a unit test checks its checksums instead.
set -euo pipefail
cd "$(dirname "$0")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
generated=(api charts/liqo docs/reference)
cp -a --parents "${generated[@]}" "$copy"
make generate
for dir in "${generated[@]}"; do
  if ! diff -r "$copy/$dir" "$dir"; then
    echo "generated code under $dir is not what its sources make: run 'make generate' and commit the result" >&2
    exit 1
  fi
done
