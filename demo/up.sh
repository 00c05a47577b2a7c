#!/usr/bin/env bash
# Two real clusters on this machine, with the same pod and service addresses, peered: a pod of rome runs in milan and talks with one at home,
# both ways. Running it again is fine.
# "make demo" builds what it needs before.
set -euo pipefail
cd "$(dirname "$0")/.."

playground=bin/playground liqoctl=bin/liqoctl kubectl=bin/kubectl
state=bin/demo
rome=$state/rome.kubeconfig milan=$state/milan.kubeconfig

((EUID == 0)) || { echo "the demo makes namespaces, mounts and control groups: run it as root" >&2; exit 1; }
for program in "$playground" "$liqoctl" "$kubectl" bin/images/controller-manager.tar; do
	[[ -e $program ]] || { echo "$program is missing: run make demo" >&2; exit 1; }
done

# step TITLE COMMAND... runs the command and says what it was for and how long it took.
step() {
	local title=$1 began=$EPOCHREALTIME
	shift
	echo "== $title"
	"$@"
	awk -v title="$title" -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { printf "== %s: %.1f s\n\n", title, b - a }'
}

# both FUNCTION runs it for rome and for milan at the same time; it fails if one of them does.
both() {
	local pid
	"$1" rome &
	pid=$!
	"$1" milan || { wait "$pid" || true; return 1; }
	wait "$pid"
}

# The names are those of no other page, so that the clusters that people make by hand or in a tutorial stay as they are. To Liqo, they are rome and milan.
cluster() {
	"$playground" create cluster --name "demo-$1" --nodes 1 --pod-cidr 10.244.0.0/16 --service-cidr 10.96.0.0/16 --metrics-server --if-not-exists
	(umask 077 && "$playground" get kubeconfig --name "demo-$1" >"$state/$1.kubeconfig")
}

images() { "$playground" load image-archive bin/images/*.tar --name "demo-$1"; }

install() { "$liqoctl" install --kubeconfig "$state/$1.kubeconfig" --cluster-id "$1" --skip-confirm; }

peer() { "$liqoctl" peer --kubeconfig "$rome" --remote-kubeconfig "$milan"; }

offload() {
	"$kubectl" --kubeconfig "$rome" create namespace demo --dry-run=client -o yaml | "$kubectl" --kubeconfig "$rome" apply -f -
	"$liqoctl" offload namespace demo --kubeconfig "$rome" --timeout 1m
}

deploy() {
	"$kubectl" --kubeconfig "$rome" apply -f demo/hello.yaml
	for name in hello home; do
		"$kubectl" --kubeconfig "$rome" -n demo rollout status "deployment/$name" --timeout 2m
	done
}

# show runs kubectl against rome and prints the command as a person would type it.
show() {
	echo "\$ kubectl $*"
	"$kubectl" --kubeconfig "$rome" "$@"
	echo
}

look() {
	show get nodes
	show -n demo get pods -o wide
	show -n demo logs deployment/hello --tail 5
	show -n demo exec deployment/hello -- /testserver get http://127.0.0.1:8080/hello
	echo "The same pod, as milan sees it:"
	"$kubectl" --kubeconfig "$milan" -n demo-rome get pods -o wide
}

# field COMMAND... prints what kubectl finds, as soon as there is something: what one cluster makes takes a moment to be seen in the other.
field() {
	local found tries
	for ((tries = 0; tries < 100; tries++)); do
		found=$("$kubectl" "$@") && [[ -n $found ]] && { echo "$found"; return; }
		sleep 0.2
	done
	echo "kubectl $* finds nothing" >&2
	return 1
}

# curl FROM URL asks from a pod of the Deployment and prints who answered whom. The images hold no shell and no curl, but a program that does it.
curl() {
	local tries
	echo "\$ kubectl -n demo exec deployment/$1 -- /testserver get $2"
	for ((tries = 0; tries < 20; tries++)); do
		"$kubectl" --kubeconfig "$rome" -n demo exec "deployment/$1" -- /testserver get -timeout 2s "$2" 2>"$state/curl" && return
		sleep 0.5
	done
	cat "$state/curl" >&2
	return 1
}

talk() {
	local hello home
	hello=$(field --kubeconfig "$rome" -n demo get pods -l app=hello -o 'jsonpath={.items[0].status.podIP}')
	home=$(field --kubeconfig "$milan" -n demo-rome get endpointslices -l kubernetes.io/service-name=home,endpointslice.kubernetes.io/managed-by=endpointslice.reflection.liqo.io -o 'jsonpath={.items[0].endpoints[0].addresses[0]}')
	echo "Both clusters have the pod addresses 10.244.0.0/16 and the service addresses 10.96.0.0/16."
	echo "Pod hello runs in milan, where it has the address $("$kubectl" --kubeconfig "$milan" -n demo-rome get pods -l app=hello -o 'jsonpath={.items[0].status.podIP}'); rome sees it as $hello."
	echo "Pod home runs in rome, where it has the address $("$kubectl" --kubeconfig "$rome" -n demo get pods -l app=home -o 'jsonpath={.items[0].status.podIP}'); milan sees it as $home."
	echo
	echo "From rome to milan, by address and by the name of a Service:"
	curl home "http://$hello:8080/whoami"
	curl home http://hello:8080/whoami
	echo
	echo "From milan to rome, by address and by the name of a Service:"
	curl hello "http://$home:8080/whoami"
	curl hello http://home:8080/whoami
}

began=$SECONDS
mkdir -p "$state"
step "clusters demo-rome and demo-milan, with the same pod and service addresses" both cluster
step "our images, loaded into their nodes" both images
step "installing Liqo in both" both install
step "peering: rome uses milan" peer
step "offloading namespace demo" offload
step "a Deployment in milan and one in rome" deploy
step "what rome shows" look
step "they talk, both ways, though their addresses collide" talk

cat <<END
All of it took $((SECONDS - began)) s. Go on with:

  export KUBECONFIG=$PWD/$rome               # or $PWD/$milan
  bin/kubectl get nodes
  bin/kubectl -n demo scale deployment hello --replicas 5
  bin/kubectl -n demo get pods -o wide --watch
  bin/kubectl top nodes                      # from about a minute after the start on: metrics-server measures every 10 s
  bin/kubectl -n demo top pods
  bin/kubectl -n demo autoscale deployment hello --cpu 50% --min 2 --max 6
  bin/liqoctl info
  bin/liqoctl info peer milan
  bin/liqoctl test network --remote-kubeconfigs $PWD/$milan --image registry.local/testserver:1 --outside=
  bin/playground partition demo-rome demo-milan    # and later: bin/playground heal demo-rome demo-milan
  bin/playground exec --name demo-milan -- ctr containers ls

Take it all down with:

  make demo-down
END
