// Package install decides what an installation of Liqo looks like: the values of its chart, computed from what the user asked for and
// what was found in the cluster, and the requirements that the cluster does not meet, each with its cure. It does nothing itself;
// package installer does.
package install

// Release is the name of the Helm release, in the namespace of the installation.
const Release = "liqo"

// Provider is a kind of cluster: how its address ranges are found, and which values it needs of its own.
type Provider string

// Providers.
const (
	// Generic is any cluster that follows the conventions.
	Generic Provider = "generic"
	// Kubeadm is a cluster made by kubeadm.
	Kubeadm Provider = "kubeadm"
	// Kind is a cluster in containers of one machine, whose kubeconfig leads to a loopback address.
	Kind Provider = "kind"
	// K3s is a cluster of k3s, which has fixed default networks and tells nobody about them.
	K3s Provider = "k3s"
	// OpenShift is Red Hat's distribution, which lets no pod do more than its security context constraints say.
	OpenShift Provider = "openshift"
	// AKS, EKS and GKE are the clusters of Azure, Amazon and Google, whose address ranges only the cloud knows for sure.
	AKS Provider = "aks"
	EKS Provider = "eks"
	GKE Provider = "gke"
)

// Providers in the order in which they are shown.
var Providers = [...]Provider{Generic, Kubeadm, Kind, K3s, OpenShift, AKS, EKS, GKE}

// Default networks of k3s.
const (
	K3sPodCIDR     = "10.42.0.0/16"
	K3sServiceCIDR = "10.43.0.0/16"
)

// MinimumVersion of Kubernetes, major and minor: what the admission rules of our kinds need.
const MinimumVersion = "1.30"

// MinimumKernel of the nodes that the network between clusters runs on: the oldest series that is still maintained, and the first long-term
// one with all that our rules of nftables are made of.
const MinimumKernel = "5.10"

// ResourceGroups are the API groups of our kinds, in every generation of the contract.
var ResourceGroups = [...]string{
	"core.liqo.io", "authentication.liqo.io", "ipam.liqo.io", "networking.liqo.io", "offloading.liqo.io", "sharing.liqo.io",
}
