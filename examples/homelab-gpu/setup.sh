#!/usr/bin/env bash
# Two clusters, homelab of one node and aws of two, the second of which has a make-believe GPU. They do not reach each other, except through Nebula.
set -euo pipefail
source "$(dirname "$0")/../clusters.sh"

export CGO_ENABLED=0
mkdir -p "$bin/homelab"
(cd nebula && go build -ldflags '-s -w' -o "$bin/homelab/" github.com/slackhq/nebula/cmd/nebula github.com/slackhq/nebula/cmd/nebula-cert)
(cd ../.. && go build -ldflags '-s -w' -o "$bin/homelab/" ./test/deviceplugin ./test/flux)
"$bin/playground" build-image --name registry.local/device-plugin:1 --output "$bin/homelab/device-plugin.tar" --entrypoint /deviceplugin \
	"$bin/homelab/deviceplugin:/deviceplugin"

cluster homelab --pod-cidr 10.240.0.0/16 --service-cidr 10.96.0.0/16 &
cluster aws --nodes 2 --pod-cidr 10.241.0.0/16 --service-cidr 10.97.0.0/16 --api-server-name 10.99.0.11 &
together
"$bin/playground" load image-archive "$bin/homelab/device-plugin.tar" --name aws
"$bin/playground" partition homelab aws

./nebula.sh make
for host in lighthouse homelab-1 aws-1 aws-2; do
	./nebula.sh start "$host"
done
for address in 10.99.0.11 10.99.0.12; do
	timeout 30 "$bin/playground" exec --node homelab-1 -- sh -c "until busybox ping -c 1 -W 1 $address >/dev/null; do :; done"
done
