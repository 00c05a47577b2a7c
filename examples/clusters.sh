# Sourced by the setup.sh of each tutorial: clusters of the playground that hold our images, and Liqo in them.
cd "$(dirname "$0")"
bin=$(cd ../../bin && pwd) || { echo "nothing is built yet: run make build in the root of the repository" >&2; exit 1; }
((EUID == 0)) || { echo "clusters are made of namespaces, mounts and control groups: run this as root" >&2; exit 1; }

# cluster NAME FLAGS... makes a cluster and writes liqo_kubeconf_NAME.
cluster() {
	local name=$1
	shift
	"$bin/playground" create cluster --name "$name" --if-not-exists "$@"
	"$bin/playground" load image-archive "$bin"/images/*.tar --name "$name"
	(umask 077 && "$bin/playground" get kubeconfig --name "$name" >"liqo_kubeconf_$name")
}

# installed NAME FLAGS... makes such a cluster, with Liqo in it.
installed() {
	cluster "$1"
	liqo "$@"
}

# liqo NAME FLAGS... installs Liqo in a cluster.
liqo() { "$bin/liqoctl" install --kubeconfig "liqo_kubeconf_$1" --cluster-name "$@"; }

# together waits for all jobs, and fails if one of them does.
together() {
	local job failed=0
	for job in $(jobs -p); do
		wait "$job" || failed=1
	done
	return $failed
}
