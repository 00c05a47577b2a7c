package cli

import (
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/inspect"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/install"
	"liqo.io/liqo/internal/version"
	"liqo.io/liqo/test/clitest"
)

const turinNamespace = "tenant-of-turin"

// newDoctorWorld starts an API server and creates what a healthy cluster consists of.
func newDoctorWorld(t *testing.T) *doctorWorld {
	t.Helper()
	kubeconfig, c := server(t)
	w := &doctorWorld{t: t, client: c, kubeconfig: kubeconfig, healthy: map[client.Object]client.Object{}}
	for _, name := range []string{"shop", "store", "there"} {
		clitest.Create(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	clitest.Create(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: turinNamespace, Labels: map[string]string{api.LabelTenantNamespace: api.True, api.LabelRemoteClusterID: "turin"},
	}})
	clitest.Create(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "blog-turin", Labels: map[string]string{api.LabelRemoteClusterID: "turin"}}})
	w.putInstallation()
	w.putNetwork()
	w.putPeering()
	w.putOffloading()
	w.rightsAre(true)
	return w
}

func inTurin(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: turinNamespace, Name: name, Labels: map[string]string{api.LabelRemoteClusterID: "turin", api.LabelRemoteID: "turin"}}
}

func (w *doctorWorld) putInstallation() {
	w.t.Helper()
	// The installation of the other tests has these two already.
	w.manager = &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: session.ControllerManager}}
	w.change(w.manager, func() {
		one := int32(1)
		w.manager.Labels["app.kubernetes.io/version"] = version.Version
		w.manager.Spec.Replicas, w.manager.Status = &one, available(1)
		w.manager.Spec.Template.Spec.Containers[0].Image = "registry.liqo.io/liqo/controller-manager:" + version.Version
	})
	w.told = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: inspect.NetworkConfigMap}}
	labels := map[string]string{"app": "fabric"}
	w.fabric = &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "liqo-fabric"},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "fabric", Image: "registry.liqo.io/liqo/fabric:" + version.Version}}},
		}},
		Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 1, CurrentNumberScheduled: 1, NumberReady: 1, NumberAvailable: 1},
	}
	none, ready := admissionregistrationv1.SideEffectClassNone, true
	w.hooks = &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "liqo-webhook", Labels: map[string]string{"liqo.io/webhook": api.True}},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{ // without rules: the API server calls it for nothing
			Name: "pod.mutate.liqo.io", SideEffects: &none, AdmissionReviewVersions: []string{"v1"}, ClientConfig: admissionregistrationv1.WebhookClientConfig{
				Service: &admissionregistrationv1.ServiceReference{Namespace: "liqo", Name: "liqo-webhook"}, CABundle: w.certificateBetween(-time.Hour, 10*time.Hour),
			},
		}},
	}
	w.backend = &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "liqo", Name: "liqo-webhook-x", Labels: map[string]string{discoveryv1.LabelServiceName: "liqo-webhook"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.5"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	}
	holder, hour := "liqo-controller-manager-x", int32(3600) // longer than the test
	w.leader = &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "leader"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &hour, RenewTime: microTime(time.Now())},
	}
	w.lock = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: install.LockName}}
	w.put(w.fabric, w.hooks, w.backend, w.leader, w.lock)
	for _, object := range []client.Object{w.manager, w.told} {
		if err := w.read(object); err != nil {
			w.t.Fatal(err)
		}
		w.healthy[object] = object.DeepCopyObject().(client.Object)
	}
}

func (w *doctorWorld) putNetwork() {
	w.t.Helper()
	w.pods, w.otherPods = rangeObject(ipamv1alpha1.NetworkTypePod, "10.1.0.0/16"), rangeObject(ipamv1alpha1.NetworkTypePod, "10.2.0.0/16")
	w.otherPods.Name += "-2"
	w.external = rangeObject(ipamv1alpha1.NetworkTypeExternal, "10.70.0.0/16")
	w.remapped = &ipamv1alpha1.Network{
		ObjectMeta: inTurin("turin-pod"), Spec: ipamv1alpha1.NetworkSpec{CIDR: "10.1.0.0/16"}, Status: ipamv1alpha1.NetworkStatus{CIDR: "10.60.0.0/16"},
	}
	w.configuration = &networkingv1beta1.Configuration{
		ObjectMeta: inTurin("turin"),
		Spec: networkingv1beta1.ConfigurationSpec{Remote: networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.CIDRs{
			Pod: []string{"10.1.0.0/16"}, External: []string{"10.70.0.0/16"},
		}}},
		Status: networkingv1beta1.ConfigurationStatus{Conditions: []metav1.Condition{{
			Type: networkingv1beta1.ConditionCIDRsConfigured, Reason: networkingv1beta1.ReasonCIDRsConfigured,
			Status: metav1.ConditionTrue, LastTransitionTime: metav1.Now(),
		}}},
	}
	w.connection = &networkingv1beta1.Connection{
		ObjectMeta: inTurin("gw-turin"), Spec: networkingv1beta1.ConnectionSpec{Type: networkingv1beta1.ConnectionServer},
		Status: networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.Connected},
	}
	w.gateway = workloadOf("gw-turin")
	w.gateway.Labels[networkingv1beta1.LabelComponent] = networkingv1beta1.ComponentGateway
	w.put(rangeObject(ipamv1alpha1.NetworkTypeService, "10.96.0.0/16"), w.pods, w.otherPods, w.external, w.remapped, w.configuration, w.connection, w.gateway)
}

// workloadOf is a Deployment of the peering with turin.
func workloadOf(name string) *appsv1.Deployment {
	labels, one := map[string]string{"app": name}, int32(1)
	return &appsv1.Deployment{
		ObjectMeta: inTurin(name),
		Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "x"}}},
		}},
		Status: available(1),
	}
}

func (w *doctorWorld) putPeering() {
	w.t.Helper()
	established := []corev1beta1.Condition{{Type: corev1beta1.APIServerStatus, Status: corev1beta1.StatusEstablished}}
	w.foreign = &corev1beta1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "turin"}, Spec: corev1beta1.ForeignClusterSpec{ClusterID: "turin"},
		Status: corev1beta1.ForeignClusterStatus{
			Role: corev1beta1.RoleConsumerAndProvider, ObservedGeneration: 1, Conditions: established,
			TenantNamespace: corev1beta1.TenantNamespaces{Local: turinNamespace},
			Modules: corev1beta1.Modules{Networking: corev1beta1.Module{Enabled: true, Conditions: []corev1beta1.Condition{
				{Type: corev1beta1.NetworkConnectionStatus, Status: corev1beta1.StatusEstablished},
			}}, Authentication: corev1beta1.Module{Enabled: true, Conditions: []corev1beta1.Condition{
				{Type: corev1beta1.AuthTenantStatus, Status: corev1beta1.StatusReady},
			}}},
		},
	}
	w.tenant = &authv1beta1.Tenant{
		ObjectMeta: inTurin("turin"),
		Spec:       authv1beta1.TenantSpec{ClusterID: "turin", AuthzPolicy: authv1beta1.TolerateNoHandshake, TenantCondition: authv1beta1.TenantActive},
		Status:     authv1beta1.TenantStatus{Conditions: []metav1.Condition{ready(1)}},
	}
	w.identityKubeconfig = impersonating(w.t, w.kubeconfig, "rome")
	w.identity = &authv1beta1.Identity{
		ObjectMeta: inTurin("controlplane-turin"),
		Spec: authv1beta1.IdentitySpec{ClusterID: "turin", Type: authv1beta1.IdentityControlPlane, Namespace: "there", AuthParams: authv1beta1.AuthParams{
			APIServer: "https://turin", SignedCRT: w.certificateBetween(-time.Hour, 10*time.Hour),
		}},
		Status: authv1beta1.IdentityStatus{KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "kubeconfig-controlplane-turin"}},
	}
	w.secret = &corev1.Secret{
		ObjectMeta: inTurin("kubeconfig-controlplane-turin"), Data: map[string][]byte{authv1beta1.KubeconfigSecretKey: w.file(w.identityKubeconfig)},
	}
	clitest.Create(w.t, w.client, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "there", Name: "rome"}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"create"}, APIGroups: []string{authv1beta1.GroupVersion.Group}, Resources: []string{"resourceslices", "renews"}},
		{Verbs: []string{"create"}, APIGroups: []string{offloadingv1beta1.GroupVersion.Group}, Resources: []string{"namespacemaps"}},
	}})
	w.rights = &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "there", Name: "rome"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "rome"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "rome"}},
	}
	accepted := authv1beta1.ResourceSliceStatus{Conditions: []authv1beta1.ResourceSliceCondition{
		{Type: authv1beta1.ResourceSliceAuthentication, Status: authv1beta1.ResourceSliceAccepted},
		{Type: authv1beta1.ResourceSliceResources, Status: authv1beta1.ResourceSliceAccepted},
	}}
	w.asked = &authv1beta1.ResourceSlice{ObjectMeta: inTurin("asked"), Status: accepted}
	w.granted = &authv1beta1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: turinNamespace, Name: "granted", Labels: map[string]string{
			api.LabelReplicated: api.True, api.LabelReplication: api.False, api.LabelOriginID: "turin", api.LabelRemoteClusterID: "turin",
		}}, Status: accepted,
	}
	w.put(w.foreign, w.tenant, w.identity, w.secret, w.rights, w.asked, w.granted)
}

func (w *doctorWorld) putOffloading() {
	w.t.Helper()
	w.virtual = &offloadingv1beta1.VirtualNode{
		ObjectMeta: inTurin("turin"), Spec: offloadingv1beta1.VirtualNodeSpec{ClusterID: "turin"},
		Status: offloadingv1beta1.VirtualNodeStatus{Conditions: []offloadingv1beta1.VirtualNodeCondition{
			{Type: offloadingv1beta1.VirtualNodeVirtualKubelet, Status: offloadingv1beta1.VirtualNodeRunning},
			{Type: offloadingv1beta1.VirtualNodeNode, Status: offloadingv1beta1.VirtualNodeRunning},
		}},
	}
	w.node = &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "turin", Labels: map[string]string{api.LabelType: api.TypeVirtualNode, api.LabelRemoteClusterID: "turin"}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
		}},
	}
	w.kubelet = workloadOf(offloadingv1beta1.VirtualKubeletDeploymentPrefix + "turin")
	w.shop = &offloadingv1beta1.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: offloadingv1beta1.NamespaceOffloadingName},
		Spec: offloadingv1beta1.NamespaceOffloadingSpec{
			NamespaceMappingStrategy: offloadingv1beta1.EnforceSameName, PodOffloadingStrategy: offloadingv1beta1.PodsLocalAndRemote,
		},
		Status: offloadingv1beta1.NamespaceOffloadingStatus{OffloadingPhase: offloadingv1beta1.PhaseReady, ObservedGeneration: 1000},
	}
	holder, hour := "turin", int32(3600) // longer than the test
	w.heartbeat = &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "turin"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &hour, RenewTime: microTime(time.Now())},
	}
	w.put(w.virtual, w.node, w.kubelet, w.heartbeat, w.shop)
}
