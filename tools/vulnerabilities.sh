#!/usr/bin/env bash
# Checks our code for calls of functions with known vulnerabilities. GOVULNDB may name a mirror of the database (file:///...).
# A finding fails. An unreachable database fails only with REQUIRE_VULNDB=1, which releases set (make release-check): it says nothing about the code,
# and a developer's machine may have no network.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(mktemp)
trap 'rm -f "$out"' EXIT
if "${GOVULNCHECK:-bin/tools/govulncheck}" ${GOVULNDB:+-db "$GOVULNDB"} ./... > "$out" 2>&1; then
  tail -n 3 "$out"
elif grep -q 'fetching vulnerabilities: .*\(no such host\|connection refused\|i/o timeout\|Forbidden\|network is unreachable\)' "$out"; then
  echo "NOT CHECKED: $(tail -n 1 "$out")"
  echo "NOT CHECKED: the vulnerability database can't be reached from here; set GOVULNDB to a mirror of it"
  [ "${REQUIRE_VULNDB:-}" != 1 ] || exit 1
else
  cat "$out"
  exit 1
fi
