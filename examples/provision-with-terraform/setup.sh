#!/usr/bin/env bash
# Two clusters, rome and milan, of two nodes each. They have the same pod and service addresses.
set -euo pipefail
source "$(dirname "$0")/../clusters.sh"

cluster rome --nodes 2 &
cluster milan --nodes 2 &
together
