package cli

import (
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/apitest"
	"liqo.io/liqo/test/clitest"
)

// kubeconfigWith changes the kubeconfig of the identity in turin.
func (w *doctorWorld) kubeconfigWith(to func(user *clientcmdapi.AuthInfo, cluster *clientcmdapi.Cluster)) {
	w.t.Helper()
	config, err := clientcmd.LoadFromFile(w.identityKubeconfig)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		for _, cluster := range config.Clusters {
			to(user, cluster)
		}
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		w.t.Fatal(err)
	}
	w.change(w.secret, func() { w.secret.Data[authv1beta1.KubeconfigSecretKey] = data })
}

// unreachable makes the ForeignCluster say that the API server of turin does not respond.
func (w *doctorWorld) unreachable() {
	w.t.Helper()
	w.change(w.foreign, func() {
		w.foreign.Status.Conditions[0].Status, w.foreign.Status.Conditions[0].Message = corev1beta1.StatusError, "i/o timeout"
	})
}

// rightsAre waits until the API server follows a change of RoleBindings.
func (w *doctorWorld) rightsAre(want bool) {
	w.t.Helper()
	apitest.Eventually(w.t, 30*time.Second, "the rights to change", func() error {
		if w.mayRenew() != want {
			return errors.New("they did not")
		}
		return nil
	})
}

func identityStates(w *doctorWorld) []brokenState {
	const again = "liqoctl authenticate --remote-kubeconfig FILE, with the kubeconfig of cluster turin, "
	const enroll = "; without a kubeconfig of turin: run liqoctl generate peer-command --consumer-cluster-id rome there, and here the command that it prints"
	// liqoctl authenticate needs the other cluster.
	authenticated := w.back(w.identity, w.secret)
	return []brokenState{
		{
			name: "a certificate has expired",
			how:  "the certificate in the Identity ended an hour ago",
			begin: func() {
				w.change(w.identity, func() { w.identity.Spec.AuthParams.SignedCRT = w.certificateBetween(-10*time.Hour, -time.Hour) })
			},
			first: "Identity controlplane-turin in namespace tenant-of-turin: its certificate ended at",
			cure:  again + "gets another certificate" + enroll, cured: authenticated, executed: peerCures,
		},
		{
			name: "a certificate is not renewed",
			how:  "the certificate in the Identity ends in an hour, after eleven",
			begin: func() {
				w.change(w.identity, func() { w.identity.Spec.AuthParams.SignedCRT = w.certificateBetween(-10*time.Hour, time.Hour) })
			},
			first: "Identity controlplane-turin in namespace tenant-of-turin: its certificate ends at",
			cure:  again + "gets another certificate", cured: authenticated,
		},
		{
			name: "an Identity has no kubeconfig",
			how:  "the status of the Identity names no Secret",
			begin: func() {
				w.change(w.identity, func() { w.identity.Status.KubeconfigSecretRef = nil })
			},
			first: "Identity controlplane-turin in namespace tenant-of-turin has no kubeconfig",
			cure:  "kubectl -n liqo logs deployment/liqo-controller-manager says why it was not written",
			// The controller manager writes it.
			cured: w.back(w.identity),
		},
		{
			name: "the Secret with the kubeconfig is deleted", asks: true,
			how:   "the Secret that the Identity names is deleted",
			begin: func() { w.remove(w.secret) },
			first: "its kubeconfig, Secret tenant-of-turin/kubeconfig-controlplane-turin, can not be read",
			cure:  again + "makes the kubeconfig again", cured: authenticated,
		},
		{
			name: "the API server of the provider does not respond", asks: true,
			how: "nothing listens at the address in the kubeconfig",
			begin: func() {
				w.unreachable()
				w.kubeconfigWith(func(_ *clientcmdapi.AuthInfo, cluster *clientcmdapi.Cluster) { cluster.Server = "https://127.0.0.1:1" })
			},
			first: "the API server of turin does not answer as controlplane-turin at https://turin",
			cure:  "see that https://turin can be reached from the cluster",
			// The network is repaired.
			cured: w.back(w.foreign, w.secret),
		},
		{
			name: "the provider does not know the identity", asks: true,
			how: "the API server answers 401 to the token in the kubeconfig",
			begin: func() {
				w.kubeconfigWith(func(user *clientcmdapi.AuthInfo, _ *clientcmdapi.Cluster) {
					*user = clientcmdapi.AuthInfo{Token: "unknown"}
				})
				w.unreachable() // the cluster does not reach it either
			},
			first: "the API server of turin refuses controlplane-turin at https://turin",
			cure:  "in cluster turin: liqoctl activate tenant rome if it is drained, else here: liqoctl authenticate --remote-kubeconfig FILE" + enroll, cured: w.back(w.identity, w.secret, w.foreign),
		},
		{
			name: "the provider took the rights away", asks: true,
			how:   "the RoleBinding of the identity is deleted in the provider",
			begin: func() { w.remove(w.rights); w.rightsAre(false) },
			first: "controlplane-turin may not do in cluster turin: create resourceslices in namespace there",
			cure:  "in cluster turin: liqoctl activate tenant rome if it is drained, else see RoleBindings in the tenant namespace",
			// The tenant rome is in another cluster. Its controller manager writes the RoleBinding.
			cured: func() { w.back(w.rights)(); w.rightsAre(true) },
		},
		{
			name: "the clusters do not reach each other",
			how:  "the API server of the peer and the tunnel are in error",
			begin: func() {
				w.unreachable()
				w.change(w.foreign, func() { w.foreign.Status.Modules.Networking.Conditions[0].Status = corev1beta1.StatusError })
				w.change(w.connection, func() { w.connection.Status.Value = networkingv1beta1.ConnectionError })
			},
			first: "cluster turin is unreachable from rome: neither its API server nor the tunnel responds",
			cure:  "see whether cluster turin runs, and restore the network between the clusters",
			// The network is repaired.
			cured: w.back(w.foreign, w.connection),
		},
		{
			name: "a condition of the peering is not met",
			how:  "a condition of the ForeignCluster is NotReady",
			begin: func() {
				w.change(w.foreign, func() { w.foreign.Status.Modules.Authentication.Conditions[0].Status = corev1beta1.StatusNotReady })
			},
			first: "turin: AuthTenantStatus is NotReady",
			cure:  "liqoctl info peer turin shows the parts of the peering",
			// The controller manager writes the condition.
			cured: w.back(w.foreign),
		},
	}
}

func tenantStates(w *doctorWorld) []brokenState {
	return []brokenState{
		{
			name: "a tenant is cordoned",
			how:  "`spec.tenantCondition` of the Tenant is Cordoned",
			begin: func() {
				w.change(w.tenant, func() { w.tenant.Spec.TenantCondition = authv1beta1.TenantCordoned })
			},
			first: "Tenant turin in namespace tenant-of-turin is cordoned: it is granted nothing further",
			cure:  "liqoctl uncordon tenant turin",
		},
		{
			name: "a tenant is drained",
			how:  "`spec.tenantCondition` of the Tenant is Drained",
			begin: func() {
				w.change(w.tenant, func() { w.tenant.Spec.TenantCondition = authv1beta1.TenantDrained })
			},
			first: "Tenant turin in namespace tenant-of-turin is drained: it may do nothing",
			cure:  "liqoctl activate tenant turin",
		},
		{
			name: "a tenant is not admitted",
			how:  "the Tenant is not Ready: its signature is of another key",
			begin: func() {
				w.change(w.tenant, func() {
					condition := &w.tenant.Status.Conditions[0]
					condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, "BadSignature", "the signature is of another key"
				})
			},
			first: "Tenant turin in namespace tenant-of-turin is not admitted: BadSignature, the signature is of another key",
			cure:  "the consumer does the handshake again with liqoctl authenticate",
			// The consumer is another cluster.
			cured: w.back(w.tenant), executed: peerCures,
		},
		{
			name: "a provider denies the requested resources",
			how:  "condition Resources of the ResourceSlice is Denied",
			begin: func() {
				w.change(w.asked, func() {
					condition := &w.asked.Status.Conditions[1]
					condition.Status, condition.Reason, condition.Message = authv1beta1.ResourceSliceDenied, "TooMuch", "cpu: 4 are left"
				})
			},
			first: "ResourceSlice asked in namespace tenant-of-turin: Resources is Denied, TooMuch: cpu: 4 are left",
			cure:  "ask for less (kubectl -n tenant-of-turin edit resourceslices.authentication.liqo.io asked), or ask the provider's administrator",
			// The provider answers.
			cured: w.back(w.asked),
		},
		{
			name: "a provider does not answer a request",
			how:  "the ResourceSlice of this cluster has no conditions",
			begin: func() {
				w.change(w.asked, func() { w.asked.Status.Conditions = nil })
			},
			first: "ResourceSlice asked in namespace tenant-of-turin (class \"\"): the provider has not answered Authentication since",
			cure:  "see whether the controller managers of both clusters run, liqoctl doctor --remote-kubeconfig FILE, and the class of the request",
			// The controller manager of the provider answers.
			cured: w.back(w.asked),
		},
		{
			name: "a request of a consumer is not answered",
			how:  "the consumer's ResourceSlice has no condition Resources",
			begin: func() {
				w.change(w.granted, func() { w.granted.Status.Conditions = w.granted.Status.Conditions[:1] })
			},
			first: "ResourceSlice granted in namespace tenant-of-turin (class \"\"): this cluster has not answered Resources",
			cure:  "see whether the controller managers of both clusters run, liqoctl doctor --remote-kubeconfig FILE, and the class of the request",
			// The controller of the class answers.
			cured: w.back(w.granted),
		},
		{
			name: "a request of a consumer is cordoned",
			how:  "the consumer's ResourceSlice has the annotation of a cordon",
			begin: func() {
				w.change(w.granted, func() { w.granted.Annotations = map[string]string{authv1beta1.AnnotationCordon: api.True} })
			},
			first: "ResourceSlice granted in namespace tenant-of-turin is cordoned",
			cure:  "liqoctl uncordon resourceslice granted --remote-cluster-id turin",
		},
	}
}

func offloadingStates(w *doctorWorld) []brokenState {
	none := int32(0)
	return []brokenState{
		{
			name: "a virtual kubelet is scaled to zero",
			how:  "`spec.replicas` of its Deployment is 0, and its Node is Unknown",
			begin: func() {
				w.change(w.kubelet, func() { w.kubelet.Spec.Replicas, w.kubelet.Status = &none, appsv1.DeploymentStatus{} })
				w.change(w.node, func() { w.node.Status.Conditions[0].Status = corev1.ConditionUnknown })
			},
			first: "-n tenant-of-turin deployment/vk-turin is scaled to 0 replicas",
			cure:  "kubectl -n tenant-of-turin scale --replicas=1 deployment/vk-turin",
			after: w.back(w.node),
		},
		{
			name: "a virtual kubelet does not start",
			how:  "the VirtualNode says that its virtual kubelet is being created",
			begin: func() {
				w.change(w.virtual, func() { w.virtual.Status.Conditions[0].Status = offloadingv1beta1.VirtualNodeCreating })
			},
			first: "VirtualNode turin in namespace tenant-of-turin: VirtualKubelet is Creating",
			cure:  "see kubectl -n tenant-of-turin describe deployment/vk-turin",
			// The command shows why; a kubelet starts the pod.
			cured: w.back(w.virtual),
		},
		{
			name:  "the Node of a virtual node is missing",
			how:   "the Node is deleted",
			begin: func() { w.remove(w.node) },
			first: "VirtualNode turin in namespace tenant-of-turin has no Node",
			cure:  "its virtual kubelet makes it: see kubectl -n tenant-of-turin logs deployment/vk-turin",
			// A virtual kubelet creates the Node.
			cured: w.back(w.node),
		},
		{
			name: "a virtual node is not ready",
			how:  "the Node is not Ready: no route to the provider",
			begin: func() {
				w.change(w.node, func() {
					condition := &w.node.Status.Conditions[0]
					condition.Status, condition.Reason, condition.Message = corev1.ConditionFalse, "ProviderUnreachable", "no route"
				})
			},
			first: "Node turin is not Ready: ProviderUnreachable, no route",
			cure:  "see the access to, and the connection with, cluster turin: liqoctl info peer turin",
			// A virtual kubelet reports the condition.
			cured: w.back(w.node),
		},
		{
			name: "a provider is short of memory",
			how:  "the Node has MemoryPressure",
			begin: func() {
				w.change(w.node, func() {
					w.node.Status.Conditions[1].Status, w.node.Status.Conditions[1].Message = corev1.ConditionTrue, "1 of 3 nodes"
				})
			},
			first: "Node turin: MemoryPressure, 1 of 3 nodes",
			cure:  "what the provider says of itself: ask its administrator",
			// A virtual kubelet reports the condition.
			cured: w.back(w.node),
		},
		{
			name: "a virtual node is cordoned",
			how:  "the Node is unschedulable",
			begin: func() {
				w.change(w.node, func() { w.node.Spec.Unschedulable = true })
			},
			first: "Node turin takes no pods: it is cordoned",
			cure:  "kubectl uncordon turin",
		},
		{
			name: "no cluster is selected for a namespace",
			how:  "the selector of the NamespaceOffloading matches no virtual node",
			begin: func() {
				w.change(w.shop, func() {
					w.shop.Spec.ClusterSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
						{Key: api.LabelRemoteClusterID, Operator: corev1.NodeSelectorOpIn, Values: []string{"pisa"}},
					}}}}
					w.shop.Status.OffloadingPhase = offloadingv1beta1.PhaseNoClusterSelected
				})
			},
			first: "namespace shop is offloaded, and no cluster is selected",
			cure:  "liqoctl offload namespace shop --selector=",
			after: func() {
				w.change(w.shop, func() {
					if w.shop.Spec.ClusterSelector == nil {
						w.shop.Status.OffloadingPhase = offloadingv1beta1.PhaseReady
					}
				})
			},
		},
		{
			name: "a remote namespace can not be created",
			how:  "the provider has a namespace of that name",
			begin: func() {
				w.change(w.shop, func() {
					w.shop.Status.OffloadingPhase = offloadingv1beta1.PhaseSomeFailed
					w.shop.Status.RemoteNamespacesConditions = map[string][]offloadingv1beta1.RemoteNamespaceCondition{"turin": {
						{Type: offloadingv1beta1.RemoteNamespaceReady, Status: corev1.ConditionFalse, Reason: "NameTaken", Message: "turin has a namespace shop"},
					}}
				})
			},
			first: "namespace shop: SomeFailed (cluster turin: NameTaken: turin has a namespace shop)",
			cure:  "see kubectl describe namespaceoffloading -n shop",
			// The command shows why; a controller reports the remote namespace.
			cured: w.back(w.shop),
		},
		{
			name: "a provider does not create a remote namespace",
			how:  "the NamespaceOffloading has waited for the provider for an hour, because its controller manager does not run",
			begin: func() {
				w.change(w.shop, func() {
					w.shop.Status.OffloadingPhase = offloadingv1beta1.PhaseInProgress
					w.shop.Status.RemoteNamespacesConditions = map[string][]offloadingv1beta1.RemoteNamespaceCondition{"turin": {{
						Type: offloadingv1beta1.RemoteNamespaceReady, Status: corev1.ConditionFalse, Reason: offloadingv1beta1.ReasonCreating,
						Message: "Waiting for cluster turin to create namespace shop", LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour)),
					}}}
				})
			},
			first: "namespace shop: InProgress (cluster turin: Creating since",
			cure:  "ask the administrator of cluster turin to run liqoctl doctor there",
			// The controller manager of the provider creates the namespace.
			cured: w.back(w.shop),
		},
		{
			name: "two namespaces want the same remote namespace",
			how:  "the second NamespaceOffloading chooses the remote name of the first",
			begin: func() {
				store := &offloadingv1beta1.NamespaceOffloading{
					ObjectMeta: metav1.ObjectMeta{Namespace: "store", Name: offloadingv1beta1.NamespaceOffloadingName},
					Spec:       offloadingv1beta1.NamespaceOffloadingSpec{NamespaceMappingStrategy: offloadingv1beta1.SelectedName, RemoteNamespaceName: "shop"},
				}
				clitest.Create(w.t, w.client, store)
				w.change(store, func() { store.Status.OffloadingPhase = offloadingv1beta1.PhaseReady })
			},
			first: "namespaces shop and store both want to be shop in cluster turin",
			cure:  "liqoctl unoffload namespace store",
		},
	}
}
