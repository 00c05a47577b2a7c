#!/usr/bin/env bash
# Three clusters of one node each, with Liqo, labelled by the region that they are in.
set -euo pipefail
source "$(dirname "$0")/../clusters.sh"

installed venice --cluster-labels topology.liqo.io/region=north &
installed florence --cluster-labels topology.liqo.io/region=center &
installed naples --cluster-labels topology.liqo.io/region=south &
together
