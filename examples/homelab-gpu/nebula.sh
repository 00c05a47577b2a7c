#!/usr/bin/env bash
# Starts and stops Nebula: nebula.sh make | start HOST | stop HOST | fabric. HOST is a node, or "lighthouse", a host of the internet that also relays between
# nodes that do not reach each other. With "fabric", Nebula routes no pods any more, for the fabric of Liqo on top of it.
set -euo pipefail
cd "$(dirname "$0")"
bin=$(cd ../../bin && pwd)
run=$bin/homelab
# name, address of Nebula, range of its pods
hosts() {
	echo "homelab-1 10.99.0.21 10.240.0.0/24"
	echo "aws-1 10.99.0.11 10.241.0.0/24"
	echo "aws-2 10.99.0.12 10.241.1.0/24"
}

certificates() {
	rm -rf "$run/pki" "$run/fabric" && mkdir -p "$run/pki" && cd "$run/pki"
	"$bin/homelab/nebula-cert" ca -name homelab -out-crt ca.crt -out-key ca.key
	sign() { "$bin/homelab/nebula-cert" sign -ca-crt ca.crt -ca-key ca.key -out-crt "$1.crt" -out-key "$1.key" -name "$@"; }
	sign lighthouse -networks 10.99.0.1/24
	while read -r host address pods; do
		sign "$host" -networks "$address/24" -unsafe-networks "$pods"
	done < <(hosts)
}

# config HOST FOLDER prints the configuration of a host, whose keys are in that folder.
config() {
	cat <<-CONFIG
		pki: {ca: $2/ca.crt, cert: $2/$1.crt, key: $2/$1.key}
		listen: {host: 0.0.0.0, port: 4242}
		logging: {level: warning}
		firewall:
		  outbound: [{port: any, proto: any, host: any, local_cidr: 0.0.0.0/0}]
		  inbound: [{port: any, proto: any, host: any, local_cidr: 0.0.0.0/0}]
	CONFIG
	if [[ $1 == lighthouse ]]; then
		echo "lighthouse: {am_lighthouse: true}"
		echo "relay: {am_relay: true}"
		echo "tun: {disabled: true}"
		return
	fi
	echo 'static_host_map: {"10.99.0.1": ["172.30.0.1:4242"]}'
	echo "lighthouse: {interval: 5, hosts: [10.99.0.1]}"
	echo "relay: {relays: [10.99.0.1], use_relays: true}"
	echo "tun:"
	echo "  dev: nebula1"
	echo "  mtu: 1300"
	[[ ! -e $run/fabric ]] || return 0
	echo "  unsafe_routes: # the pods of the other cluster"
	while read -r host address pods; do
		[[ ${host%-*} == "${1%-*}" ]] || echo "    - {route: $pods, via: $address}"
	done < <(hosts)
}

start() {
	if [[ $1 == lighthouse ]]; then
		config lighthouse "$run/pki" >"$run/lighthouse.yaml"
		nsenter --net="${PLAYGROUND_HOME:-/var/lib/liqo-playground}/internet" "$run/nebula" -config "$run/lighthouse.yaml" >>"$run/lighthouse.log" 2>&1 &
		echo $! >"$run/lighthouse.pid"
		return
	fi
	config "$1" /opt/nebula >"$run/pki/$1.yaml"
	tar -c -C "$run" nebula -C pki ca.crt "$1.crt" "$1.key" "$1.yaml" | "$bin/playground" exec --node "$1" -- sh -c 'mkdir -p /opt/nebula && tar -x -C /opt/nebula'
	"$bin/playground" exec --node "$1" -- sh -c "echo \$\$ >/run/nebula.pid; exec /opt/nebula/nebula -config /opt/nebula/$1.yaml" </dev/null >>"$run/$1.log" 2>&1 &
}

stop() {
	if [[ $1 == lighthouse ]]; then
		kill "$(cat "$run/lighthouse.pid")"
		return
	fi
	"$bin/playground" exec --node "$1" -- sh -c 'kill "$(cat /run/nebula.pid)" && while [ -e /sys/class/net/nebula1 ]; do sleep 0.1; done' </dev/null
}

# fabric restarts Nebula without the routes of pods. What pods send to hosts of Nebula then has to come from their node, as with most CNI plugins. Those of
# the playground masquerade on the way to the internet only.
fabric() {
	touch "$run/fabric"
	while read -r host address pods; do
		stop "$host"
		start "$host"
		"$bin/playground" exec --node "$host" -- nft -f - <<-RULES
			table ip nebula {
				chain postrouting {
					type nat hook postrouting priority srcnat; policy accept;
					ip saddr $pods oifname "nebula1" masquerade
				}
			}
		RULES
	done < <(hosts)
}

case $1 in
make) certificates ;;
start) start "$2" ;;
stop) stop "$2" ;;
fabric) fabric ;;
esac
