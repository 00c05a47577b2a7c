#!/usr/bin/env bash
# Builds the release of a commit into bin/previous, once: its liqoctl and its images, by its own Makefile.
set -euo pipefail
cd "$(dirname "$0")/.."
commit=$1
folder=$PWD/bin/previous
if [[ -e $folder/built && $(<"$folder/built") == "$commit" ]]; then
	exit 0
fi
if ! git cat-file -e "$commit^{commit}"; then
	echo "building the previous release: this clone has no commit $commit: fetch the whole history (git fetch --unshallow), or name another one (make previous PREVIOUS=...)" >&2
	exit 1
fi
rm -rf "$folder"
mkdir -p "$folder"
git archive "$commit" | tar -x -C "$folder"
# A version that every one of this checkout is later than. The parts of Kubernetes are those of this checkout: the clusters are.
GOFLAGS=-buildvcs=false make -C "$folder" images -o components "VERSION=v0.0.9-g${commit:0:12}"
echo "$commit" >"$folder/built"
