#!/usr/bin/env bash
# Builds the release of a commit into bin/previous, once: its liqoctl and its images, by its own Makefile.
set -euo pipefail
cd "$(dirname "$0")/.."
commit=$1
folder=$PWD/bin/previous
if [[ -e $folder/built && $(<"$folder/built") == "$commit" ]]; then
	exit 0
fi
# Root builds what somebody else has cloned, too.
git=(git -c "safe.directory=$PWD")
has() { "${git[@]}" cat-file -e "$commit^{commit}"; }
# A build server may have cloned without history. That one commit is enough.
if ! has 2>/dev/null && ! { "${git[@]}" fetch --quiet --depth 1 origin "$commit" && has; }; then
	echo "building the previous release: there is no commit $commit here, and it can't be had from origin: clone with the whole history" \
		"(git fetch --unshallow), or name another one (make previous PREVIOUS=...)" >&2
	exit 1
fi
rm -rf "$folder"
mkdir -p "$folder"
"${git[@]}" archive "$commit" | tar -x -C "$folder"
# A version that every one of this checkout is later than. The parts of Kubernetes are those of this checkout: the clusters are. Flags as in this
# checkout, so that what both releases import is compiled once.
make -C "$folder" images -o components "VERSION=v0.0.9-g${commit:0:12}" "GOFLAGS=-trimpath -buildvcs=false" CGO_ENABLED=0
echo "$commit" >"$folder/built"
