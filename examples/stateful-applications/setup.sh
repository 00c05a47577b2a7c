#!/usr/bin/env bash
# Two clusters of one node each, with Liqo and the image of a database. The replicas of the database tell each other their addresses, so the pods of the
# clusters have different ones.
set -euo pipefail
source "$(dirname "$0")/../clusters.sh"

make --no-print-directory -C ../.. database

site() {
	cluster "$1" --pod-cidr "$2"
	"$bin/playground" load image-archive "$bin/mariadb-galera.tar" --name "$1"
	liqo "$1"
}
site turin 10.200.0.0/16 &
site lyon 10.210.0.0/16 &
together
