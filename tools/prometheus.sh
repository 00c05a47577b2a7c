#!/usr/bin/env bash
# Unpacks Debian's Prometheus to bin/prometheus, from a package that is downloaded once. Nothing is installed: the package would start a server.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=${XDG_CACHE_HOME:-$HOME/.cache}/liqo-debian
mkdir -p "$cache" bin
shopt -s nullglob
packages=("$cache"/prometheus_*.deb)
if ((${#packages[@]} == 0)); then
	echo "== downloading Debian's package prometheus"
	fresh=$(mktemp -d)
	trap 'rm -rf "$fresh"' EXIT
	fetch() { (cd "$fresh" && apt-get download -qq prometheus); }
	fetch 2>/dev/null || { apt-get update -qq && fetch; }
	mv "$fresh"/prometheus_*.deb "$cache"
	packages=("$cache"/prometheus_*.deb)
fi
dpkg-deb --fsys-tarfile "${packages[-1]}" | tar -x -C bin --strip-components=3 ./usr/bin/prometheus
# The package is older than this file would say: make compares times.
touch bin/prometheus
