#!/usr/bin/env bash
# Checks our code for calls of functions with known vulnerabilities: every module with sources of ours, and the programs of others that are in our images.
# GOVULNDB may name a mirror of the database (file:///...). A finding fails. An unreachable database fails only with REQUIRE_VULNDB=1, which releases set
# (make release-check): it says nothing about the code, and a developer's machine may have no network.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
govulncheck=${GOVULNCHECK:-$root/bin/tools/govulncheck}
out=$(mktemp)
trap 'rm -f "$out"' EXIT
failed=

# check DIRECTORY PACKAGE... checks packages of the module in the directory.
check() {
  local dir=$1
  shift
  if (cd "$root/$dir" && "$govulncheck" ${GOVULNDB:+-db "$GOVULNDB"} "$@") > "$out" 2>&1; then
    echo "$dir: $(tail -n 1 "$out")"
  elif grep -q 'fetching vulnerabilities: .*\(no such host\|connection refused\|i/o timeout\|Forbidden\|network is unreachable\)' "$out"; then
    echo "NOT CHECKED: $(tail -n 1 "$out")"
    echo "NOT CHECKED: the vulnerability database can't be reached from here; set GOVULNDB to a mirror of it"
    [ "${REQUIRE_VULNDB:-}" != 1 ] && [ -z "$failed" ] || exit 1
    exit 0 # the next module needs the same database
  else
    echo "$dir:"
    cat "$out"
    failed=yes
  fi
}

for module in . $(sed -n 's/^MODULES := //p' Makefile); do
  check "$module" ./...
done
# shellcheck disable=SC2046 # each word is a package
check tools/restic $(sed -n '/^tool (/,/^)/s/^\t//p' tools/restic/go.mod)
[ -z "$failed" ]
