package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/reasons"
	"liqo.io/liqo/internal/storage"
)

// pending is a pod of namespace shop on a virtual node, created an hour ago, that its provider refuses.
func pending(name, why string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
		Spec:       corev1.PodSpec{NodeName: "milan"},
		Status:     corev1.PodStatus{Phase: corev1.PodPending, Reason: offloadingv1beta1.PodOffloadingBackOff, Message: why},
	}
}

func unscheduled(name, why string) corev1.Pod {
	pod := pending(name, "")
	pod.Spec.NodeName, pod.Status = "", corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: why},
	}}
	return pod
}

func storageClass(name string, age time.Duration, standard string) storagev1.StorageClass {
	return storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age)), Annotations: map[string]string{annotationDefaultClass: standard},
	}}
}

func exposed(address string) ipamv1alpha1.IP {
	return ipamv1alpha1.IP{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Spec: ipamv1alpha1.IPSpec{IP: address},
		Status: ipamv1alpha1.IPStatus{IP: "10.70.0.9", Conditions: ready("")},
	}
}

// unconfigured is what kube-apiserver says where a policy does not find its parameters.
func unconfigured(policy string) string {
	return "is forbidden: ValidatingAdmissionPolicy '" + policy + "' with binding 'all' denied request: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
}

// withServices gives a cluster the range 10.96.0.0/16 of Services, and one Service in it.
func withServices(c *Cluster) {
	c.Networks = append(c.Networks, ipamv1alpha1.Network{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "liqo", Name: "service-cidr", Labels: map[string]string{ipamv1alpha1.LabelNetworkType: ipamv1alpha1.NetworkTypeService},
		},
		Spec: ipamv1alpha1.NetworkSpec{CIDR: "10.96.0.0/16"}, Status: ipamv1alpha1.NetworkStatus{CIDR: "10.96.0.0/16"},
	})
	c.ClusterIPs = map[string]string{"10.96.0.7": "shop/db"}
}

// TestStatesAndCures breaks one thing after another: that is found, with its evidence and its cure, and nothing else is. What the cure makes of the
// objects is well again.
func TestStatesAndCures(t *testing.T) {
	const used = "quota liqo-tenant-rome/milan: 1 of cpu are wanted, 4 of 4 are used: " + offload.QuotaCure
	const single = "Each cluster has one Tenant, in a namespace of its own\n"
	another := func(c *Cluster, namespace, name, id string) {
		second := c.Tenants[0].DeepCopy()
		second.Namespace, second.Name, second.Spec.ClusterID, second.CreationTimestamp = namespace, name, id, metav1.NewTime(now)
		second.Status.Conditions = ready("Refused") // by the controller manager
		c.Tenants = append([]authv1beta1.Tenant{*second}, c.Tenants...)
	}
	first := func(c *Cluster) { c.Tenants = c.Tenants[1:] }
	unconnected := func(c *Cluster) {
		c.Configurations, c.Connections, c.Peers[0].Status.Modules.Networking = nil, nil, corev1beta1.Module{}
	}
	unreached := func(c *Cluster) {
		c.Connections[0].Status = networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.Connecting}
	}
	for name, row := range map[string]struct {
		do   func(c *Cluster)
		want string // all that is not well
		cure string // how the cure of the first finding begins
		// heal does what the cure says. It is nil if there is nothing to cure.
		heal func(c *Cluster)
	}{
		"a definition of an earlier release": {
			func(c *Cluster) { c.Lacked = map[string]string{c.Wanted[0]: "field spec.x of version v1beta1"} },
			"fail rome, definitions: custom resource definition tenants.authentication.liqo.io lacks field spec.x of version v1beta1: the API server removes such values without an error\n",
			"liqoctl upgrade brings the definitions", func(c *Cluster) { c.Lacked = nil },
		},
		"two Tenants of one cluster": {
			func(c *Cluster) { another(c, "other", "milan", "milan") },
			"fail rome, tenants: Tenant milan in namespace other of cluster milan is refused: " +
				"the older Tenant milan in namespace liqo-tenant-milan of cluster milan counts. " + single,
			"kubectl -n other delete tenants.authentication.liqo.io milan", first,
		},
		"Tenants of two clusters in one namespace": {
			func(c *Cluster) { another(c, "liqo-tenant-milan", "paris", "paris") },
			"fail rome, tenants: Tenant paris in namespace liqo-tenant-milan of cluster paris is refused: " +
				"the older Tenant milan in namespace liqo-tenant-milan of cluster milan counts. " + single,
			"kubectl -n liqo-tenant-milan delete tenants.authentication.liqo.io paris", first,
		},
		"a provider with too many copies": {
			func(c *Cluster) {
				c.Peers[0].Status.TenantNamespace.Remote = "liqo-tenant-rome"
				c.Peers[0].Status.Conditions = append(c.Peers[0].Status.Conditions, corev1beta1.Condition{
					Type: corev1beta1.APIServerStatus, Status: corev1beta1.StatusSomeNotReady, Reason: reasons.TooManyCopies, Message: "there are more than 1000 objects",
				})
			},
			"fail rome, peerings: milan: APIServerStatus is SomeNotReady, TooManyCopies: there are more than 1000 objects\n",
			"in cluster milan, delete the objects that are not needed: kubectl -n liqo-tenant-rome get resourceslices.authentication.liqo.io,renews.authentication.liqo.io,networkrequests.networking.liqo.io,namespacemaps.offloading.liqo.io -l liqo.io/replicated=true",
			func(c *Cluster) {
				c.Peers[0].Status.Conditions = c.Peers[0].Status.Conditions[:len(c.Peers[0].Status.Conditions)-1]
			},
		},
		"two default classes of a virtual node": {
			func(c *Cluster) {
				c.VirtualNodes[0].Spec.IngressClasses = []authv1beta1.IngressType{
					{IngressClassName: "a", Default: true}, {IngressClassName: "b"}, {IngressClassName: "c", Default: true},
				}
			},
			"warn rome, default classes: VirtualNode milan in namespace liqo-tenant-milan: the ingress classes a, c are all the default, and Liqo uses the last one\n",
			`kubectl -n liqo-tenant-milan patch virtualnodes.offloading.liqo.io milan --type=json -p '[{"op":"remove","path":"/spec/ingressClasses/0/default"}]'`,
			func(c *Cluster) { c.VirtualNodes[0].Spec.IngressClasses[0].Default = false },
		},
		"two default classes of a provider": {
			func(c *Cluster) {
				c.Slices[0].Status.StorageClasses = []authv1beta1.StorageType{{StorageClassName: "a", Default: true}, {StorageClassName: "b", Default: true}}
			},
			"warn rome, default classes: ResourceSlice asked in namespace liqo-tenant-milan: the storage classes a, b are all the default, and Liqo uses the last one\n",
			"ask the administrator of cluster milan", func(c *Cluster) { c.Slices[0].Status.StorageClasses[1].Default = false },
		},
		"two default classes for a consumer": {
			func(c *Cluster) {
				c.Slices[1].Status.LoadBalancerClasses = []authv1beta1.LoadBalancerType{
					{LoadBalancerClassName: "a", Default: true}, {LoadBalancerClassName: "b", Default: true},
				}
			},
			"warn rome, default classes: ResourceSlice granted in namespace liqo-tenant-milan: " +
				"the load balancer classes a, b are all the default, and Liqo uses the last one\n",
			"leave default: true at one of them in the values offloading.reflection.ingress.ingressClasses and offloading.reflection.service.loadBalancerClasses",
			func(c *Cluster) { c.Slices[1].Status.LoadBalancerClasses[0].Default = false },
		},
		"two default storage classes": {
			func(c *Cluster) {
				c.StorageClasses = []storagev1.StorageClass{
					storageClass("new", time.Hour, "true"), storageClass("old", 3*time.Hour, "true"),
					storageClass("other", 0, "false"), storageClass("older", 5*time.Hour, "true"),
				}
			},
			"warn rome, default classes: the storage classes older, old, new are all the default: claims of consumers' pods that name no class get the newest, new\n",
			"kubectl annotate storageclasses older old storageclass.kubernetes.io/is-default-class-",
			func(c *Cluster) { c.StorageClasses[1].Annotations, c.StorageClasses[3].Annotations = nil, nil },
		},
		"two default storage classes, of no concern to anybody": {
			func(c *Cluster) {
				c.Tenants, c.StorageClasses = nil, []storagev1.StorageClass{storageClass("a", 0, "true"), storageClass("b", 0, "true")}
			}, "", "", nil,
		},
		"what was granted is used up, and pods wait": {
			func(c *Cluster) {
				c.Waiting = []corev1.Pod{pending("c", used), pending("b", used), pending("d", used), pending("a", used)}
			},
			"warn rome, waiting pods: what cluster milan granted is used up, 4 pods (shop/a, shop/b, shop/c, ...): " + used + "\n",
			"have more granted: liqoctl create resourceslice NAME --remote-cluster-id milan, or ask the administrator of milan to share more",
			func(c *Cluster) { c.Waiting = nil },
		},
		"a pod that a provider refuses": {
			func(c *Cluster) { c.Waiting = []corev1.Pod{pending("a", "hostPath is refused by the provider")} },
			"warn rome, waiting pods: cluster milan does not take 1 pod (shop/a): hostPath is refused by the provider\n",
			"see kubectl -n shop describe pod a, and ask the administrator of cluster milan", func(c *Cluster) { c.Waiting = nil },
		},
		"pods that no node has room for": {
			func(c *Cluster) {
				c.Waiting = []corev1.Pod{unscheduled("a", "0/2 nodes are available: 2 Insufficient cpu")}
			},
			"warn rome, waiting pods: no node takes 1 pod (shop/a): 0/2 nodes are available: 2 Insufficient cpu\n",
			"request less, or have more granted", func(c *Cluster) { c.Waiting = nil },
		},
		"data of a deleted claim": {
			func(c *Cluster) {
				c.Retained = []corev1.PersistentVolume{{
					ObjectMeta: metav1.ObjectMeta{
						Name: "pvc-1", Labels: map[string]string{api.LabelRemoteClusterID: "milan"},
						Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": storage.Provisioner},
					},
					Spec:   corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "data"}},
					Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeReleased},
				}}
			},
			"warn rome, retained volumes: PersistentVolume pvc-1 of deleted claim data in namespace shop is a retained volume of Liqo, 0 in cluster milan\n",
			"read the data with a pod in namespace shop that has nodeName milan and mounts claim data, and copy what is needed; only then release it: " +
				`kubectl patch pv pvc-1 --patch '{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}'`,
			func(c *Cluster) { c.Retained = nil },
		},
		"data of a deleted claim, without a virtual node": {
			func(c *Cluster) {
				c.Retained, c.VirtualNodes = []corev1.PersistentVolume{recovered(1)}, nil
				c.Retained[0].DeletionTimestamp = new(metav1.NewTime(now))
			},
			"warn rome, retained volumes: PersistentVolume pvc-1 of deleted claim data in namespace shop is a retained volume of Liqo, 32Mi, in deletion until its data is gone, in cluster milan\n",
			"create a virtual node of cluster milan, without which no pod reaches the data: liqoctl create resourceslice milan --remote-cluster-id milan. Then read the data with a pod",
			func(c *Cluster) { c.Retained = nil },
		},
		"data that was recovered": {
			func(c *Cluster) { c.Retained = []corev1.PersistentVolume{recovered(1)} },
			"warn rome, retained volumes: PersistentVolume pvc-1 of claim data in namespace shop was recovered: cluster milan has 32Mi of data that no claim here uses\n",
			"reserve the volume for PersistentVolumeClaim data in namespace shop: kubectl patch pv pvc-1 --type merge --patch " +
				`'{"spec":{"claimRef":{"namespace":"shop","name":"data","uid":null,"resourceVersion":null}}}'. The claim in the command gets the volume if it has storageClassName liqo`,
			func(c *Cluster) { c.Retained = nil },
		},
		"data that was recovered, and whose volume was deleted since": { // Kubernetes binds no volume in deletion
			func(c *Cluster) {
				volume := recovered(1)
				volume.DeletionTimestamp, volume.Spec.PersistentVolumeReclaimPolicy = new(metav1.NewTime(now)), corev1.PersistentVolumeReclaimRetain
				c.Retained = []corev1.PersistentVolume{volume}
			},
			"warn rome, retained volumes: PersistentVolume pvc-1 of deleted claim data in namespace shop is a retained volume of Liqo, 32Mi, in deletion until its data is gone, in cluster milan\n",
			"read the data with a pod in namespace shop that has nodeName milan and mounts claim data, and copy what is needed; only then release it: " +
				`kubectl patch pv pvc-1 --patch '{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}'`,
			func(c *Cluster) { c.Retained = nil },
		},
		"an unfinished move": {
			func(c *Cluster) {
				c.Moves = []corev1.PersistentVolume{{
					ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", Annotations: map[string]string{
						"pv.kubernetes.io/provisioned-by": storage.Provisioner, storage.AnnotationMove: `{"node":"milan"}`,
					}},
					Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "data"}},
				}}
			},
			"warn rome, moving volumes: the move of PersistentVolumeClaim data in namespace shop is unfinished: its data is in PersistentVolume pvc-1, and the claim does not exist, so its pods can't start\n",
			"if no liqoctl runs it now, continue it: liqoctl move volume data --namespace shop --target-node milan; or cancel it: the same command with a node of the cluster that has the data",
			func(c *Cluster) { c.Moves = nil },
		},
		"pods that wait since a moment, or end": {
			func(c *Cluster) {
				c.Waiting = []corev1.Pod{pending("a", used), pending("b", used)}
				c.Waiting[0].CreationTimestamp, c.Waiting[1].DeletionTimestamp = metav1.NewTime(now.Add(-time.Second)), new(metav1.NewTime(now))
			}, "", "", nil,
		},
		"an IP of a Service that is gone": {
			func(c *Cluster) { withServices(c); c.IPs = []ipamv1alpha1.IP{exposed("10.96.0.8")} },
			"warn rome, exposed addresses: IP db in namespace shop exposes 10.96.0.8, an address of Services (10.96.0.0/16), and no Service has it\n",
			"kubectl -n shop delete ips.ipam.liqo.io db removes it; create it again with the address of a Service that exists",
			func(c *Cluster) { c.IPs = []ipamv1alpha1.IP{exposed("10.96.0.7")} },
		},
		"an IP that is refused": {
			func(c *Cluster) {
				c.IPs = []ipamv1alpha1.IP{exposed("10.1.0.7")}
				c.IPs[0].Status.Conditions = ready("PodAddress")
			},
			"warn rome, exposed addresses: IP db in namespace shop: PodAddress, because\n",
			"kubectl -n shop delete ips.ipam.liqo.io db", func(c *Cluster) { c.IPs = nil },
		},
		"IPs of a Service and of a host outside": {
			func(c *Cluster) {
				withServices(c)
				c.IPs = []ipamv1alpha1.IP{exposed("10.96.0.7"), exposed("192.0.2.7")}
			}, "", "", nil,
		},
		"an IP where Services can not be read": {
			func(c *Cluster) { withServices(c); c.ClusterIPs, c.IPs = nil, []ipamv1alpha1.IP{exposed("10.96.0.8")} }, "", "", nil,
		},
		"a gateway dials a name without an address": {
			func(c *Cluster) {
				unreached(c)
				c.Names = []Name{{Peer: "milan", Object: "GatewayClient milan in namespace liqo-tenant-milan", Host: "gw.milan.example", Failure: "no such host"}}
			},
			"fail rome, host names: GatewayClient milan in namespace liqo-tenant-milan dials gw.milan.example, which has no address here: no such host\n" +
				"> rome, connections: Connection gw-milan in namespace liqo-tenant-milan is \"Connecting\"\n",
			"give gw.milan.example an address in DNS, or dial another address: liqoctl network connect --gw-client-address ADDRESS",
			func(c *Cluster) { c.Names[0].Failure = ""; c.Connections[0].Status.Value = networkingv1beta1.Connected },
		},
		"a peering without a network": {
			func(c *Cluster) { unconnected(c); c.Tunnels = true },
			"warn rome, connections: cluster milan has no network with this cluster: there is no Configuration and no Connection, so offloaded pods and the pods here do not reach each other\n",
			"liqoctl network connect --remote-kubeconfig FILE", func(c *Cluster) { c.Peers[0].Status.Modules.Networking.Enabled = true },
		},
		"a peering whose network was requested and is not there": {
			func(c *Cluster) {
				unconnected(c)
				c.Tunnels = true
				c.NetworkRequests = []networkingv1beta1.NetworkRequest{{
					ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan", Labels: map[string]string{api.LabelRemoteID: "milan"}},
					Status:     networkingv1beta1.NetworkRequestStatus{Conditions: ready("NoPlace")},
				}}
			},
			"fail rome, connections: cluster milan has no network with this cluster, which NetworkRequest milan in namespace liqo-tenant-milan requests: NoPlace, because\n",
			"see kubectl -n liqo-tenant-milan describe networkrequests.networking.liqo.io milan", func(c *Cluster) { c.Peers[0].Status.Modules.Networking.Enabled = true },
		},
		"a peering without a network, and no pods there": {
			func(c *Cluster) { unconnected(c); c.Tunnels, c.Offloadings = true, nil }, "", "", nil,
		},
		"a peering without a network, and no pods there but Services": {
			func(c *Cluster) {
				unconnected(c)
				c.Tunnels, c.Offloadings[0].Spec.PodOffloadingStrategy = true, offloadingv1beta1.PodsLocal
			}, "", "", nil,
		},
		"a peering without a network, where Liqo makes none": {unconnected, "", "", nil},
		"a consumer without a network":                       {func(c *Cluster) { unconnected(c); c.Tunnels, c.VirtualNodes, c.Nodes = true, nil, nil }, "", "", nil},
		"a policy of Liqo without its parameters": {
			func(c *Cluster) {
				c.DryRuns = []DryRun{
					{"shop-milan", "Pod", ""}, {"shop-milan", "PersistentVolumeClaim", unconfigured("liqo-copies-claim")},
					{"blog-paris", "PersistentVolumeClaim", unconfigured("liqo-copies-claim")},
				}
			},
			"fail rome, admission: in a dry run, policy liqo-copies-claim refuses a PersistentVolumeClaim in namespace shop-milan, a PersistentVolumeClaim in namespace blog-paris: " +
				unconfigured("liqo-copies-claim") + "\n",
			"liqoctl upgrade, which writes the policies of this version", func(c *Cluster) { c.DryRuns[1].Refusal, c.DryRuns[2].Refusal = "", "" },
		},
		"a policy of others that refuses every pod": {
			func(c *Cluster) { c.DryRuns = []DryRun{{"shop-milan", "Pod", unconfigured("limits")}} },
			"fail rome, admission: in a dry run, policy limits refuses a Pod in namespace shop-milan: " + unconfigured("limits") + "\n",
			"kubectl get validatingadmissionpolicies,validatingadmissionpolicybindings -o yaml shows which parameters policy limits needs", func(c *Cluster) { c.DryRuns = nil },
		},
		"a policy of others that refuses a plain pod": {
			func(c *Cluster) {
				c.DryRuns = []DryRun{{"shop-milan", "Pod", "pods is forbidden: policy 'labels' with binding 'all' denied request: no label team"}}
			},
			"warn rome, admission: in a dry run, policy labels refuses a Pod in namespace shop-milan: pods is forbidden: policy 'labels' with binding 'all' denied request: no label team\n",
			"nothing, if this is intended; objects of consumers need: no label team. kubectl get validatingadmissionpolicies", func(c *Cluster) { c.DryRuns = nil },
		},
		"a policy of others whose expression fails for a plain pod": {
			func(c *Cluster) {
				c.DryRuns = []DryRun{{"shop-milan", "Pod", "policy 'labels' with binding 'all' denied request: expression 'object.metadata.labels.team' resulted in error: no such key: team"}}
			},
			"warn rome, admission: in a dry run, policy labels refuses a Pod in namespace shop-milan: " +
				"policy 'labels' with binding 'all' denied request: expression 'object.metadata.labels.team' resulted in error: no such key: team\n",
			"nothing, if this is intended", func(c *Cluster) { c.DryRuns = nil },
		},
		"a webhook of others that refuses images": {
			func(c *Cluster) {
				c.DryRuns = []DryRun{{"shop-milan", "Pod", `admission webhook "validation.gatekeeper.sh" denied the request: [repos] images are from registry.example only`}}
			},
			"warn rome, admission: in a dry run, webhook validation.gatekeeper.sh refuses a Pod in namespace shop-milan: " +
				"admission webhook \"validation.gatekeeper.sh\" denied the request: [repos] images are from registry.example only\n",
			"nothing, if this is intended; objects of consumers need: [repos] images are from registry.example only. kubectl get", func(c *Cluster) { c.DryRuns = nil },
		},
		"a webhook of a provider that refuses images": {
			func(c *Cluster) {
				c.Accesses[0].DryRuns = []DryRun{{"shop-rome", "ShadowPod", `admission webhook "validation.gatekeeper.sh" denied the request: [repos] images are from registry.example only`}}
			},
			"warn rome, admission: in a dry run as controlplane-milan in cluster milan, webhook validation.gatekeeper.sh refuses a ShadowPod in namespace shop-rome: " +
				"admission webhook \"validation.gatekeeper.sh\" denied the request: [repos] images are from registry.example only\n",
			"nothing, if this is intended; objects of consumers need: [repos] images are from registry.example only; or ask", func(c *Cluster) { c.Accesses[0].DryRuns = nil },
		},
		"a webhook of Liqo that does not respond": {
			func(c *Cluster) {
				c.DryRuns = []DryRun{{"shop-milan", "Service", `Internal error occurred: failed calling webhook "ingress.validate.liqo.io": no endpoints`}}
			},
			"fail rome, admission: in a dry run, webhook ingress.validate.liqo.io refuses a Service in namespace shop-milan: " +
				"Internal error occurred: failed calling webhook \"ingress.validate.liqo.io\": no endpoints\n",
			"kubectl -n liqo rollout restart deployment/liqo-controller-manager", func(c *Cluster) { c.DryRuns = nil },
		},
		"a webhook of others that does not respond": {
			func(c *Cluster) {
				c.DryRuns = []DryRun{{"shop-milan", "Pod", `Internal error occurred: failed calling webhook "a.example": no route`}}
			},
			"fail rome, admission: in a dry run, webhook a.example refuses a Pod in namespace shop-milan: Internal error occurred: failed calling webhook \"a.example\": no route\n",
			"kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations -o yaml names the Service of webhook a.example", func(c *Cluster) { c.DryRuns = nil },
		},
		"webhooks that do not support dry runs": {
			func(c *Cluster) {
				c.DryRuns = []DryRun{{"shop-milan", "Pod", ""}, {"shop-milan", "Service", `admission webhook "a.example" does not support dry run`}}
				c.Accesses[0].DryRuns = []DryRun{{"shop-rome", "ShadowPod", `admission webhook "b.example" does not support dry run`}}
			},
			"warn rome, admission: webhook a.example does not support dry runs, so it is unknown whether it admits a Service in namespace shop-milan\n" +
				"warn rome, admission: webhook b.example of cluster milan does not support dry runs, so it is unknown whether it admits a ShadowPod in namespace shop-rome\n",
			"nothing, if webhook a.example admits such objects", func(c *Cluster) { c.DryRuns, c.Accesses[0].DryRuns = nil, nil },
		},
		"a provider whose webhook has another certificate": {
			func(c *Cluster) {
				c.Accesses[0].DryRuns = []DryRun{{"shop-rome", "ShadowPod", `Internal error occurred: failed calling webhook "shadowpod.mutate.liqo.io": tls: failed to verify certificate: x509: certificate has expired`}}
			},
			"fail rome, admission: the controller manager of cluster milan runs, and its webhook can't be called: Internal error occurred: " +
				"failed calling webhook \"shadowpod.mutate.liqo.io\": tls: failed to verify certificate: x509: certificate has expired\n",
			"ask the administrator of cluster milan to run liqoctl doctor there", func(c *Cluster) { c.Accesses[0].DryRuns = nil },
		},
		"dry runs that could not be made": {
			func(c *Cluster) { c.Unchecked = []string{"you may not create pods in namespaces shop-milan"} },
			"warn rome, admission: not all dry runs could be made: you may not create pods in namespaces shop-milan\n", "run liqoctl doctor again", func(c *Cluster) { c.Unchecked = nil },
		},
		"a provider that refuses every claim": {
			func(c *Cluster) {
				c.Accesses[0].DryRuns = []DryRun{{"shop-rome", "ShadowPod", ""}, {"shop-rome", "PersistentVolumeClaim", unconfigured("liqo-copies-claim")}}
			},
			"fail rome, admission: in a dry run as controlplane-milan in cluster milan, policy liqo-copies-claim refuses a PersistentVolumeClaim in namespace shop-rome: " +
				unconfigured("liqo-copies-claim") + "\n",
			"ask the administrator of cluster milan to run liqoctl doctor there", func(c *Cluster) { c.Accesses[0].DryRuns = nil },
		},
		"dry runs that are refused for reasons of their own": {
			func(c *Cluster) {
				c.DryRuns = []DryRun{
					{"shop-milan", "Pod", `pods "x" is forbidden: exceeded quota: shop, requested: pods=1, used: pods=4, limited: pods=4`},
				}
				c.Accesses[0].DryRuns = []DryRun{{"shop-rome", "ShadowPod", `admission webhook "shadowpod.mutate.liqo.io" denied the request: quota liqo-tenant-rome/milan: used up`}}
			}, "", "", nil,
		},
		"a name that only the gateway resolves": {
			func(c *Cluster) {
				c.Names = []Name{{Peer: "milan", Host: "gw.milan.internal", Failure: "no such host"}}
			}, "", "", nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			facts := world(t)
			row.do(facts.Local)
			findings := Examine(facts)
			curesNameCommands(t, findings)
			if got := text(findings, true); got != row.want {
				t.Fatalf("found\n%swant\n%s", got, row.want)
			}
			if row.heal == nil {
				return
			}
			if !strings.HasPrefix(findings[0].Cure, row.cure) {
				t.Errorf("the cure is %q, want %q", findings[0].Cure, row.cure)
			}
			row.heal(facts.Local)
			if got := text(Examine(facts), true); got != "" {
				t.Errorf("after the cure there is\n%s", got)
			}
		})
	}
}

// TestServicesAreReadOnDemand: the Services of a cluster are only needed where an IP object exposes an address in their range.
func TestServicesAreReadOnDemand(t *testing.T) {
	for address, want := range map[string]bool{"10.96.0.8": true, "192.0.2.7": false, "": false} {
		c := cluster(t, "rome", "milan", "10.1.0.0/16")
		withServices(c)
		if c.IPs = []ipamv1alpha1.IP{exposed(address)}; c.ExposesService() != want {
			t.Errorf("%q: the Services are needed: %t, want %t", address, !want, want)
		}
	}
}

// TestCuresOfUnscheduledPods: a pod that the scheduler refuses gets the cure of its reason, and none that can't help.
func TestCuresOfUnscheduledPods(t *testing.T) {
	const room = "liqoctl create resourceslice"
	for message, cure := range map[string]string{
		`persistentvolumeclaim "data" not found`: "create PersistentVolumeClaim data in namespace shop",
		"0/3 nodes are available: 1 Insufficient cpu, 2 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)":                                  "was deleted: kubectl -n shop get pvc",
		"0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found":                                                                      "kubectl -n shop describe pvc says why",
		"0/2 nodes are available: 1 node(s) had untolerated taint {virtual-node.liqo.io/not-allowed: true}, 1 node(s) had volume node affinity conflict.":           "liqoctl move volume CLAIM --namespace shop",
		"0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity.":                                                                         "liqoctl move volume CLAIM --namespace shop",
		"0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {virtual-node.liqo.io/not-allowed: true}.":                                    "liqoctl offload namespace shop --pod-offloading-strategy LocalAndRemote",
		"0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. preemption: 0/2 nodes are available: 2 Preemption is not helpful for it.":    "(kubernetes.io/hostname=milan, its node affinity)",
		"0/2 nodes are available: 1 Too many pods, 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }. preemption: 0/2 nodes are available.": "tolerate taint node-role.kubernetes.io/control-plane, or remove the taint: kubectl taint nodes NODE node-role.kubernetes.io/control-plane-",
		`pods "a" is forbidden: exceeded quota: team, requested: cpu=1, used: cpu=4, limited: cpu=4`:                                                                "kubectl -n shop describe resourcequota",
		"0/2 nodes are available: 2 Insufficient cpu.":                                     room,
		"0/2 nodes are available: 2 node(s) didn't match pod topology spread constraints.": "kubectl -n shop describe pod a",
	} {
		pod := unscheduled("a", message)
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "milan"}
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{}}}
		got := unscheduledCure(&pod, message)
		if !strings.Contains(got, cure) || cure != room && strings.Contains(got, room) {
			t.Errorf("%s: %s, want %q", message, got, cure)
		}
	}
}

// TestWaitingPodsFollowFromFaults: pods that wait for a provider are a consequence where it does not respond.
func TestWaitingPodsFollowFromFaults(t *testing.T) {
	facts := world(t)
	facts.Local.Waiting = []corev1.Pod{pending("a", "the provider does not answer")}
	facts.Local.Accesses[0].Denied = []string{"create renews in namespace x"}
	found := text(Examine(facts), true)
	if !strings.HasPrefix(found, "fail rome, access: ") || !strings.Contains(found, "\n> rome, waiting pods: ") || strings.Contains(found, "\nwarn") {
		t.Errorf("found\n%s", found)
	}
}

// TestCertificatesOfIdentities: an expired certificate of the control plane is the cause why other certificates are not renewed. One of a virtual
// node is not.
func TestCertificatesOfIdentities(t *testing.T) {
	for name, row := range map[string]struct {
		expired string
		lead    int // how many findings the expired certificate leads to
	}{"of the control plane": {"controlplane-milan", 1}, "of a virtual node": {"resourceslice-milan", 0}} {
		facts := world(t)
		c := facts.Local
		node := c.Identities[0].DeepCopy()
		node.Name, node.Spec.Type = "resourceslice-milan", authv1beta1.IdentityResourceSlice
		c.Identities = append(c.Identities, *node)
		for i := range c.Identities {
			until := time.Hour // it should have been renewed
			if c.Identities[i].Name == row.expired {
				until = -time.Hour
			}
			c.Identities[i].Spec.AuthParams.SignedCRT = certificate(t, now.Add(until))
		}
		var expired, late []Finding
		for _, finding := range Examine(facts) {
			switch {
			case strings.Contains(finding.Evidence, row.expired) && strings.Contains(finding.Evidence, "its certificate ended at"):
				expired = append(expired, finding)
			case strings.Contains(finding.Evidence, "should have been renewed at"):
				late = append(late, finding)
			}
		}
		if len(expired) != 1 || len(expired[0].Consequences) != row.lead || len(late) != 1-row.lead {
			t.Errorf("%s: the expired certificate is %v, the late one %v", name, expired, late)
		}
	}
}

// TestOverdueRenewals: doctor warns of exactly those renewals that the status of the ForeignCluster and the alert call overdue.
func TestOverdueRenewals(t *testing.T) {
	count := map[bool]int{}
	for left := 180 * time.Minute; left <= 240*time.Minute; left += 10 * time.Minute { // of certificates that are ten hours old
		facts := world(t)
		params := &facts.Local.Identities[0].Spec.AuthParams
		params.SignedCRT = certificate(t, now.Add(left))
		credential, err := peering.CredentialOf(params)
		if err != nil {
			t.Fatal(err)
		}
		warns := strings.Contains(text(Examine(facts), true), "should have been renewed at")
		if late := credential.Late(now); warns != late {
			t.Errorf("%s before the expiry: doctor warns is %t, the renewal is overdue is %t", left, warns, late)
		}
		count[warns]++
	}
	if len(count) != 2 {
		t.Errorf("all certificates are alike: %v", count)
	}
}

// TestFindingsOfOthers: each finding is about the installation, a listed peer or another cluster, and none is lost.
func TestFindingsOfOthers(t *testing.T) {
	findings := []Finding{{Level: OK}, {Level: Fail, Evidence: "own"}, {Level: Fail, Peer: "milan", Evidence: "of a peer"}, {Level: Warn, Peer: "paris", Evidence: "of another"}, {Level: OK, Peer: "paris"}}
	others := OfOthers(findings, func(id string) bool { return id == "milan" })
	if len(others) != 1 || others[0].Evidence != "of another" || len(Installation(findings))+len(OfPeer(findings, "milan"))+len(others) != 3 {
		t.Errorf("%v", others)
	}
}

// recovered returns a volume that was created again for the data of claim data in milan.
func recovered(i int) corev1.PersistentVolume {
	return corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("pvc-%d", i), Labels: map[string]string{api.LabelRemoteClusterID: "milan"},
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": storage.Provisioner, "storage.liqo.io/recovered-from": "shop-rome/data"},
		},
		Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "data"}, NodeAffinity: storage.NodesOf("milan"), StorageClassName: "liqo",
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("32Mi")},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeReleased},
	}
}

// TestRecoveredVolumesAtTheLimit: if a provider has as many recovered volumes as the limit permits, one line says that it may have more data. No cure of a recovered volume
// deletes data.
func TestRecoveredVolumesAtTheLimit(t *testing.T) {
	for count, want := range map[int]bool{storage.RecoveredLimit - 1: false, storage.RecoveredLimit: true} {
		facts := world(t)
		for i := range count {
			facts.Local.Retained = append(facts.Local.Retained, recovered(i))
		}
		found := slices.DeleteFunc(Examine(facts), func(f Finding) bool { return f.Level == OK })
		more := slices.ContainsFunc(found, func(f Finding) bool { return strings.HasPrefix(f.Evidence, "Cluster milan may have more such data") })
		if lines := len(found); more != want || lines != count && !more || lines != count+1 && more {
			t.Errorf("%d volumes: %d lines, more data: %t", count, lines, more)
		}
		for _, f := range found {
			if strings.Contains(f.Cure, "Delete") || strings.Contains(f.Cure, "delete") {
				t.Errorf("the cure deletes data: %s", f.Cure)
			}
		}
	}
}
