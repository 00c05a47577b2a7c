#!/usr/bin/env bash
# Three clusters: edgedns of one node with a DNS server, gslb-eu and gslb-us of two nodes each, with Ingress NGINX, ExternalDNS, a global ingress controller and Liqo.
set -euo pipefail
source "$(dirname "$0")/../clusters.sh"

make --no-print-directory -C ../.. global-ingress
images=$bin/global-ingress
key=$(head --bytes 32 /dev/urandom | base64)
crd=$(cd modules/external-dns && go list -f '{{.Dir}}' -m sigs.k8s.io/external-dns)/config/crd/standard/dnsendpoints.externaldns.k8s.io.yaml

# in_cluster NAME ARGUMENTS... runs kubectl.
in_cluster() { "$bin/kubectl" --kubeconfig "liqo_kubeconf_$1" "${@:2}"; }

# made NAME KIND ARGUMENTS... creates an object unless it is there.
made() { in_cluster "$1" create "${@:2}" --dry-run=client -o yaml | in_cluster "$1" apply -f -; }

edge() {
	cluster edgedns
	"$bin/playground" load image-archive "$images/bind9.tar" --name edgedns
	made edgedns namespace edge
	made edgedns secret generic tsig -n edge --from-literal tsig.key="key externaldns { algorithm hmac-sha256; secret \"$key\"; };"
	in_cluster edgedns apply -f manifests/edge
	in_cluster edgedns rollout status deployment bind -n edge --timeout 2m
}

# gslb GEO-TAG makes cluster gslb-GEO-TAG.
gslb() {
	cluster "gslb-$1" --nodes 2
	"$bin/playground" load image-archive "$images"/{coredns,external-dns,gslb,ingress-nginx,podinfo}.tar --name "gslb-$1"
	in_cluster "gslb-$1" apply --server-side -f "$crd" -f manifests/gslb/gslb.yaml -f manifests/gslb/ingress-nginx.yaml
	liqo "gslb-$1" --values "manifests/values/liqo-$1.yaml"
}

# delegate GEO-TAG PEER starts the parts that need the address of the edge DNS.
delegate() {
	made "gslb-$1" namespace k8gb
	made "gslb-$1" secret generic tsig -n k8gb --from-literal secret="$key"
	made "gslb-$1" configmap cluster -n k8gb --from-literal geoTag="$1" --from-literal peers="$2" --from-literal edgeDNS="$address"
	in_cluster "gslb-$1" apply -f manifests/gslb/k8gb.yaml -f manifests/gslb/external-dns.yaml
	in_cluster "gslb-$1" rollout status daemonset ingress-nginx -n ingress-nginx --timeout 2m
	in_cluster "gslb-$1" rollout status deployment k8gb external-dns -n k8gb --timeout 2m
}

edge &
gslb eu &
gslb us &
together
address=$(in_cluster edgedns get service bind -n edge -o jsonpath='{.status.loadBalancer.ingress[0].ip}')
delegate eu us &
delegate us eu &
together
