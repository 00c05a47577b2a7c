package scenario

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/remote"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// thief holds clients with the kubeconfigs that rome has for milan.
type thief struct {
	*story.Story
	twin string
	// agent uses the identity of the peering, kubelet the identity of the virtual kubelet. root uses the latter and impersonates an administrator.
	agent, kubelet, root client.Client
}

// trespass: with its real identities, rome can access only its own objects in milan. All other attempts are denied.
func trespass(s *story.Story, twin string) {
	s.Helper()
	t := &thief{Story: s, twin: twin}
	t.agent, _ = t.steal("controlplane-milan")
	var config *rest.Config
	t.kubelet, config = t.steal("resourceslice-milan")
	config.Impersonate = rest.ImpersonationConfig{UserName: "root", Groups: []string{"system:masters"}}
	t.root = t.client(config)

	s.Must(t.kubelet.List(s.Context(), &corev1.PodList{}, client.InNamespace(twin))) // check that the identities work
	s.Must(t.agent.List(s.Context(), &authv1beta1.ResourceSliceList{}, client.InNamespace(api.TenantNamespace("rome"))))
	for what, try := range t.tries() {
		if err := try(s.Context()); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			s.Errorf("%s: want it refused, got %v", what, err)
		}
	}
}

func (t *thief) steal(identity string) (client.Client, *rest.Config) {
	t.Helper()
	var secret corev1.Secret
	t.Must(t.Rome.Get(t.Context(), client.ObjectKey{Namespace: api.TenantNamespace("milan"), Name: "kubeconfig-" + identity}, &secret))
	config, _, err := remote.Config(&secret)
	t.Must(err)
	config.WarningHandler = rest.NoWarnings{}
	// Rome's address of milan is not reachable from this machine, so use milan's own.
	config.Host, config.ServerName = t.Milan.Config.Host, t.Milan.Config.ServerName
	return t.client(config), config
}

func (t *thief) client(config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: t.Milan.Scheme()})
	t.Must(err)
	return c
}

// quota returns the name of the Quota that milan created for rome.
func (t *thief) quota() string {
	t.Helper()
	var list offloadingv1beta1.QuotaList
	t.Must(t.Milan.List(t.Context(), &list, client.InNamespace(api.TenantNamespace("rome"))))
	if len(list.Items) != 1 {
		t.Fatalf("milan grants rome %d Quotas", len(list.Items))
	}
	return list.Items[0].Name
}

// tries returns requests that milan must deny.
func (t *thief) tries() map[string]func(context.Context) error {
	tenant := api.TenantNamespace("rome")
	list := func(c client.Client, into client.ObjectList, namespace string) func(context.Context) error {
		return func(ctx context.Context) error { return c.List(ctx, into, client.InNamespace(namespace)) }
	}
	create := func(c client.Client, object client.Object, namespace string) func(context.Context) error {
		object.SetNamespace(namespace)
		object.SetName("trespass")
		return func(ctx context.Context) error { return c.Create(ctx, object, client.DryRunAll) }
	}
	patch := func(object client.Object, namespace, name, text string) func(context.Context) error {
		object.SetNamespace(namespace)
		object.SetName(name)
		return func(ctx context.Context) error {
			return t.agent.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(text)), client.DryRunAll)
		}
	}
	shadow := func(change func(*offloadingv1beta1.ShadowPod)) client.Object {
		sp := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{api.LabelOrigin: "rome", api.LabelDestination: "milan"}}}
		sp.Spec.Pod.Containers = []corev1.Container{{Name: "main", Image: playground.TestServer}}
		change(sp)
		return sp
	}
	pod := func(change func(*corev1.PodSpec)) client.Object {
		return shadow(func(sp *offloadingv1beta1.ShadowPod) { change(&sp.Spec.Pod) })
	}
	secret := &corev1.Secret{Type: corev1.SecretTypeServiceAccountToken}
	secret.Labels = map[string]string{api.LabelOrigin: "rome", api.LabelDestination: "milan"}
	secret.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
	binding := &rbacv1.ClusterRoleBinding{
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "rome"}},
	}
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "milan"}}
	return map[string]func(context.Context) error{
		"Secrets of the installation":          list(t.kubelet, &corev1.SecretList{}, api.Namespace),
		"Secrets of Kubernetes":                list(t.kubelet, &corev1.SecretList{}, metav1.NamespaceSystem),
		"Secrets of its tenant namespace":      list(t.agent, &corev1.SecretList{}, tenant),
		"Secrets everywhere":                   list(t.kubelet, &corev1.SecretList{}, metav1.NamespaceAll),
		"ConfigMaps of others":                 list(t.kubelet, &corev1.ConfigMapList{}, metav1.NamespaceDefault),
		"pods of others":                       list(t.kubelet, &corev1.PodList{}, metav1.NamespaceSystem),
		"in the name of an administrator":      list(t.root, &corev1.PodList{}, metav1.NamespaceSystem),
		"a Pod past its ShadowPod":             create(t.kubelet, &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: playground.TestServer}}}}, t.twin),
		"a ShadowPod where nothing is its own": create(t.kubelet, pod(func(*corev1.PodSpec) {}), metav1.NamespaceDefault),
		"a ShadowPod of another cluster": create(t.kubelet, shadow(func(sp *offloadingv1beta1.ShadowPod) {
			sp.Labels[api.LabelOrigin] = "naples"
		}), t.twin),
		"the network of the node":   create(t.kubelet, pod(func(p *corev1.PodSpec) { p.HostNetwork = true }), t.twin),
		"the processes of the node": create(t.kubelet, pod(func(p *corev1.PodSpec) { p.HostPID = true }), t.twin),
		"the disk of the node": create(t.kubelet, pod(func(p *corev1.PodSpec) {
			p.Volumes = []corev1.Volume{{Name: "root", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		}), t.twin),
		"a privileged container": create(t.kubelet, pod(func(p *corev1.PodSpec) {
			p.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		}), t.twin),
		"a node by its name":       create(t.kubelet, pod(func(p *corev1.PodSpec) { p.NodeName = t.Milan.Node() }), t.twin),
		"priority over all others": create(t.kubelet, pod(func(p *corev1.PodSpec) { p.PriorityClassName = "system-cluster-critical" }), t.twin),
		"a ServiceAccount of milan": create(t.kubelet, pod(func(p *corev1.PodSpec) {
			p.ServiceAccountName = "admin"
		}), t.twin),
		"more than the quota": create(t.kubelet, pod(func(p *corev1.PodSpec) {
			p.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100000")}
		}), t.twin),
		"a token by a Secret": create(t.kubelet, secret, t.twin),
		"a token by request": func(ctx context.Context) error {
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: t.twin, Name: "default"}}
			return t.kubelet.SubResource("token").Create(ctx, account, &authenticationv1.TokenRequest{})
		},
		"endpoints past a ShadowEndpointSlice": create(t.kubelet, &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}, t.twin),
		"a namespace":                          create(t.agent, &corev1.Namespace{}, ""),
		"rights":                               create(t.agent, binding, ""),
		"another consumer":                     create(t.agent, &authv1beta1.Tenant{Spec: authv1beta1.TenantSpec{ClusterID: "naples"}}, tenant),
		"a larger Quota":                       patch(&offloadingv1beta1.Quota{}, tenant, t.quota(), `{"spec":{"resources":{"cpu":"1000"}}}`),
		"the end of a cordon":                  patch(&authv1beta1.Tenant{}, tenant, "rome", `{"spec":{"tenantCondition":"Drained"}}`),
		"resources by its own word": func(ctx context.Context) error {
			return t.agent.Status().Patch(ctx, slice, client.RawPatch(types.MergePatchType, []byte(`{"status":{"resources":{"cpu":"1000"}}}`)), client.DryRunAll)
		},
		"the end of its twin": func(ctx context.Context) error {
			return t.kubelet.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.twin}}, client.DryRunAll)
		},
	}
}
