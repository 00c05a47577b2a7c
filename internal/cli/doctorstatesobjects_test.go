package cli

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/storage"
	"liqo.io/liqo/test/clitest"
)

// objectStates are the faults of objects that people created: one too many, or one that points nowhere.
func objectStates(w *doctorWorld) []brokenState {
	gateway := &networkingv1beta1.GatewayClient{
		ObjectMeta: inTurin("turin"), Spec: networkingv1beta1.GatewayClientSpec{Endpoint: networkingv1beta1.Endpoint{
			Addresses: []string{"gw.turin.invalid"}, Port: networkingv1beta1.GatewayPort, Protocol: corev1.ProtocolUDP,
		}},
	}
	mapped := &offloadingv1beta1.NamespaceMap{
		ObjectMeta: inTurin("turin"), Spec: offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"shop": "shop"}},
	}
	lost := clitest.VolumeOf("3", "shop", "db", "turin").(*corev1.PersistentVolume)
	moved := clitest.VolumeOf("2", "shop", "moved", "turin").(*corev1.PersistentVolume)
	const discard = `kubectl patch pv pvc-1 --patch '{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}'`
	return []brokenState{
		{
			name: "a cluster has two Tenants",
			how:  "a second Tenant of the cluster is created in another namespace",
			begin: func() {
				// It is the younger one, also where both were created in the same second: then the namespace decides.
				clitest.Create(w.t, w.client, &authv1beta1.Tenant{
					ObjectMeta: metav1.ObjectMeta{Namespace: "there", Name: "turin", Labels: map[string]string{api.LabelRemoteClusterID: "turin"}},
					Spec:       authv1beta1.TenantSpec{ClusterID: "turin", AuthzPolicy: authv1beta1.TolerateNoHandshake, TenantCondition: authv1beta1.TenantActive},
				})
			},
			first: "Tenant turin in namespace there of cluster turin is refused: the older Tenant turin in namespace tenant-of-turin of cluster turin counts",
			cure:  "kubectl -n there delete tenants.authentication.liqo.io turin",
		},
		{
			name: "two clusters have a Tenant in one namespace",
			how:  "a Tenant of another cluster is created in the tenant namespace",
			begin: func() {
				clitest.Create(w.t, w.client, &authv1beta1.Tenant{
					ObjectMeta: metav1.ObjectMeta{Namespace: turinNamespace, Name: "venice", Labels: map[string]string{api.LabelRemoteClusterID: "venice"}},
					Spec:       authv1beta1.TenantSpec{ClusterID: "venice", AuthzPolicy: authv1beta1.TolerateNoHandshake, TenantCondition: authv1beta1.TenantActive},
				})
			},
			first: "Tenant venice in namespace tenant-of-turin of cluster venice is refused: the older Tenant turin in namespace tenant-of-turin of cluster turin counts",
			cure:  "kubectl -n tenant-of-turin delete tenants.authentication.liqo.io venice",
		},
		{
			name: "two storage classes are the default",
			how:  "two storage classes have the annotation of a default",
			begin: func() {
				for _, name := range []string{"slow", "fast"} {
					clitest.Create(w.t, w.client, &storagev1.StorageClass{
						ObjectMeta:  metav1.ObjectMeta{Name: name, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": api.True}},
						Provisioner: "example.org/disks",
					})
				}
			},
			first: "the storage classes slow, fast are all the default: claims of consumers' pods that name no class get the newest, fast",
			cure:  "kubectl annotate storageclasses slow storageclass.kubernetes.io/is-default-class-",
		},
		{
			name: "a virtual node has two default classes",
			how:  "two ingress classes in the spec of the VirtualNode are the default",
			begin: func() {
				w.change(w.virtual, func() {
					w.virtual.Spec.IngressClasses = []authv1beta1.IngressType{{IngressClassName: "a", Default: true}, {IngressClassName: "b", Default: true}}
				})
			},
			first: "VirtualNode turin in namespace tenant-of-turin: the ingress classes a, b are all the default, and Liqo uses the last one",
			cure:  `kubectl -n tenant-of-turin patch virtualnodes.offloading.liqo.io turin --type=json -p '[{"op":"remove","path":"/spec/ingressClasses/0/default"}]'`,
		},
		{
			name: "a provider offers two default classes",
			how:  "two ingress classes in the status of the ResourceSlice are the default",
			begin: func() {
				w.change(w.asked, func() {
					w.asked.Status.IngressClasses = []authv1beta1.IngressType{{IngressClassName: "a", Default: true}, {IngressClassName: "b", Default: true}}
				})
			},
			first: "ResourceSlice asked in namespace tenant-of-turin: the ingress classes a, b are all the default, and Liqo uses the last one",
			cure:  "ask the administrator of cluster turin to leave one default",
			// The provider is another cluster.
			cured: w.back(w.asked),
		},
		{
			name: "a Service that is exposed to peers is gone",
			how:  "an IP exposes an address of Services that no Service has",
			begin: func() {
				clitest.Create(w.t, w.client, &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Spec: ipamv1alpha1.IPSpec{IP: "10.96.0.8"}})
			},
			first: "IP db in namespace shop exposes 10.96.0.8, an address of Services (10.96.0.0/16), and no Service has it",
			cure:  "kubectl -n shop delete ips.ipam.liqo.io db",
		},
		{
			name: "an address can not be exposed to peers",
			how:  "an IP is refused: its address is that of a peer",
			begin: func() {
				refused := ready(1)
				refused.Status, refused.Reason, refused.Message = metav1.ConditionFalse, "OfPeer", "10.60.0.9 is an address of cluster turin"
				ip := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cache"}, Spec: ipamv1alpha1.IPSpec{IP: "10.60.0.9"}}
				clitest.Create(w.t, w.client, ip)
				w.change(ip, func() { ip.Status.Conditions = []metav1.Condition{refused} })
			},
			first: "IP cache in namespace shop: OfPeer, 10.60.0.9 is an address of cluster turin",
			cure:  "kubectl -n shop delete ips.ipam.liqo.io cache",
		},
		{
			name: "a move of a volume is unfinished",
			how:  "a volume has the record of a move, and its claim does not exist",
			begin: func() {
				moved.Annotations[storage.AnnotationMove] = `{"node":"turin"}`
				clitest.Create(w.t, w.client, moved)
			},
			first: "the move of PersistentVolumeClaim moved in namespace shop is unfinished: its data is in PersistentVolume pvc-2, and the claim does not exist",
			cure:  "liqoctl move volume moved --namespace shop --target-node turin",
			cured: func() { // the command needs the pods of the move, which no kubelet runs here; in the end it removes the record
				w.change(moved, func() { delete(moved.Annotations, storage.AnnotationMove) })
			},
		},
		{
			name: "a deleted claim left its data in a provider",
			how:  "a volume with reclaim policy Retain is Released, and its remote namespace is in the provider",
			begin: func() {
				volume := clitest.VolumeOf("1", "shop", "db", "turin").(*corev1.PersistentVolume)
				volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
				clitest.Create(w.t, w.client, volume)
				w.change(volume, func() { volume.Status.Phase = corev1.VolumeReleased })
				clitest.Create(w.t, w.client, mapped)
			},
			first:    "PersistentVolume pvc-1 of deleted claim db in namespace shop is a retained volume of Liqo, 1Gi in cluster turin",
			cure:     "read the data with a pod in namespace shop that has nodeName turin and mounts claim db, and copy what is needed; only then release it: " + discard,
			changing: discard,
			after:    func() { w.remove(mapped) },
		},
		{
			name: "a restored cluster has lost the volume of data in a provider",
			how:  "the virtual kubelet has created the volume again, and no claim uses it",
			begin: func() {
				lost.Annotations["storage.liqo.io/recovered-from"] = "shop/db"
				lost.Spec.PersistentVolumeReclaimPolicy, lost.Spec.StorageClassName = corev1.PersistentVolumeReclaimRetain, "liqo"
				clitest.Create(w.t, w.client, lost)
				w.change(lost, func() { lost.Status.Phase = corev1.VolumeReleased })
				mapped.ResourceVersion, mapped.UID = "", ""
				clitest.Create(w.t, w.client, mapped)
			},
			first: "PersistentVolume pvc-3 of claim db in namespace shop was recovered: cluster turin has 1Gi of data that no claim here uses",
			cure: `reserve the volume for PersistentVolumeClaim db in namespace shop: kubectl patch pv pvc-3 --type merge --patch ` +
				`'{"spec":{"claimRef":{"namespace":"shop","name":"db","uid":null,"resourceVersion":null}}}'`,
			cured: func() { // Kubernetes binds the claim to the volume, and no controller of Kubernetes runs here
				w.change(lost, func() { lost.Status.Phase = corev1.VolumeBound })
				w.remove(mapped)
			},
		},
		{
			name: "a gateway dials a name without an address", asks: true,
			how: "the host name in a GatewayClient does not resolve, and the Connection is in error",
			begin: func() {
				clitest.Create(w.t, w.client, gateway)
				w.change(w.connection, func() { w.connection.Status.Value = networkingv1beta1.ConnectionError })
			},
			first: "GatewayClient turin in namespace tenant-of-turin dials gw.turin.invalid, which has no address here",
			cure:  "give gw.turin.invalid an address in DNS, or dial another address: liqoctl network connect --gw-client-address ADDRESS",
			// DNS is outside of the cluster, and the command needs the other cluster.
			cured: func() { w.remove(gateway); w.back(w.connection)() }, executed: peerCures,
		},
	}
}
