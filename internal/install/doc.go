// Package install computes an installation of Liqo. From the user's request and the facts about the cluster, it derives the values of the
// chart. It also lists the requirements that the cluster does not meet, each with a cure. It changes nothing: package installer does.
package install

// Release is the name of the Helm release, in the namespace of the installation.
const Release = "liqo"

// Provider is the Kubernetes distribution or cloud service of a cluster, such as kubeadm or EKS. It is not a provider of a peering. It determines
// how address ranges are found and which special values are needed.
type Provider string

// The supported providers.
const (
	// Generic is any conformant Kubernetes cluster.
	Generic Provider = "generic"
	// Kubeadm is a cluster created by kubeadm.
	Kubeadm Provider = "kubeadm"
	// Kind is a cluster of kind, in containers on one machine. Its kubeconfig has a loopback address.
	Kind Provider = "kind"
	// K3s is a cluster of k3s. It has fixed default networks that no object of the cluster contains.
	K3s Provider = "k3s"
	// OpenShift is Red Hat's distribution. Its security context constraints limit what pods may do.
	OpenShift Provider = "openshift"
	// AKS, EKS and GKE are the managed clusters of Azure, Amazon and Google. Only the cloud's API has their address ranges for certain.
	AKS Provider = "aks"
	EKS Provider = "eks"
	GKE Provider = "gke"
)

// Providers lists all providers in the order of display.
var Providers = [...]Provider{Generic, Kubeadm, Kind, K3s, OpenShift, AKS, EKS, GKE}

// K3sPodCIDR and K3sServiceCIDR are the default networks of k3s.
const (
	K3sPodCIDR     = "10.42.0.0/16"
	K3sServiceCIDR = "10.43.0.0/16"
)

// MinimumVersion is the oldest supported version of Kubernetes, as major.minor. The admission rules of Liqo's custom resources need it.
const MinimumVersion = "1.30"

// MinimumKernel is the oldest supported kernel of the nodes that run the network between clusters. It is the oldest series still
// maintained, and the first long-term one with all nftables features that Liqo uses.
const MinimumKernel = "5.10"

// ResourceGroups are the API groups of Liqo's custom resources, including groups of earlier versions.
var ResourceGroups = [...]string{
	"core.liqo.io", "authentication.liqo.io", "ipam.liqo.io", "networking.liqo.io", "offloading.liqo.io", "sharing.liqo.io",
}
