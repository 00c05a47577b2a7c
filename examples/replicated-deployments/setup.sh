#!/usr/bin/env bash
# Three clusters of one node each, with Liqo: one where people work, two at the edge, told apart by a label.
set -euo pipefail
source "$(dirname "$0")/../clusters.sh"

installed europe-cloud --cluster-labels topology.liqo.io/type=origin &
installed europe-rome-edge --cluster-labels topology.liqo.io/type=destination &
installed europe-milan-edge --cluster-labels topology.liqo.io/type=destination &
together
