#!/usr/bin/env bash
# Takes the demo down: both clusters with everything they have, and the kubeconfigs. Nothing is left; running it again is fine.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ ! -x bin/playground ]]; then
	make bin/playground
fi
began=$SECONDS
for name in demo-rome demo-milan; do
	bin/playground delete cluster --if-exists --name "$name"
done
rm -rf bin/demo
echo "== the demo is gone, after $((SECONDS - began)) s"
