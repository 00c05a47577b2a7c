#!/usr/bin/env bash
# Two clusters of one node each, with Liqo.
set -euo pipefail
source "$(dirname "$0")/../clusters.sh"

installed london &
installed newyork &
together
