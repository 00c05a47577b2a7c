#!/usr/bin/env bash
# Builds the release before this one into bin/previous, once: its liqoctl and its images, by its own Makefile. Its sources are kept here, since a
# checkout may come without history. "tools/previous.sh keep COMMIT" keeps those of another commit instead: do that after each release.
set -euo pipefail
cd "$(dirname "$0")/.."
kept=test/scenario/previous
if [[ ${1-} == keep ]]; then
	commit=$(git rev-parse --short=12 "$2^{commit}")
	sources=$(git ls-tree -r --name-only "$commit" Makefile go.mod go.sum api internal cmd charts playground | grep -vE '_test\.go$|/testdata/')
	mkdir -p "$kept"
	rm -f "$kept"/*.tar.gz
	# shellcheck disable=SC2086 # names of ours have no spaces
	git archive --format=tar "$commit" -- $sources | gzip -9n >"$kept/$commit.tar.gz"
	exit 0
fi
archive=$(echo "$kept"/*.tar.gz)
commit=$(basename "$archive" .tar.gz)
folder=$PWD/bin/previous
if [[ -e $folder/built && $(<"$folder/built") == "$commit" ]]; then
	exit 0
fi
rm -rf "$folder"
mkdir -p "$folder"
tar -xzf "$archive" -C "$folder"
# A version that every one of this checkout is later than. The parts of Kubernetes are those of this checkout: the clusters are. Flags as in this
# checkout, so that what both releases import is compiled once.
make -C "$folder" images -o components "VERSION=v0.0.9-g$commit" "GOFLAGS=-trimpath -buildvcs=false" CGO_ENABLED=0
echo "$commit" >"$folder/built"
