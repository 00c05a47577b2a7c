package app

import (
	"crypto/rand"
	"crypto/x509/pkix"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/test/apitest"
)

// scrapedWorld is two clusters: rome offloads pods to milan by a virtual kubelet, and the controller manager of milan has many peers.
type scrapedWorld struct {
	rome, milan         client.Client
	romeFile, milanFile string
	romeServer          *apitest.Server
	romeAuthority       *apitest.Authority
}

func newScrapedWorld(t *testing.T) *scrapedWorld {
	t.Helper()
	w := &scrapedWorld{romeFile: filepath.Join(t.TempDir(), "rome"), milanFile: filepath.Join(t.TempDir(), "milan")}
	var milan *apitest.Server
	apitest.Both(t, func() { w.romeServer, _, w.romeAuthority = apitest.WithAuthority(t) }, func() { milan, _ = apitest.Environment(t) })
	w.rome, w.milan = apitest.Client(t, w.romeServer.Config), apitest.Client(t, milan.Config)
	for file, text := range map[string][]byte{w.romeFile: w.romeServer.KubeConfig, w.milanFile: milan.KubeConfig} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *scrapedWorld) create(t *testing.T, c client.Client, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatalf("creating %T %s: %v", object, object.GetName(), err)
		}
	}
}

func (w *scrapedWorld) status(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	if err := c.Status().Update(t.Context(), object); err != nil {
		t.Fatalf("the status of %T %s: %v", object, object.GetName(), err)
	}
}

// offload creates the objects that the virtual kubelet needs, and the pods on its node.
func (w *scrapedWorld) offload(t *testing.T) {
	t.Helper()
	tenant := api.TenantNamespace("milan")
	w.create(t, w.rome, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}})
	w.create(t, w.milan, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop-rome"}})
	mapped := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "milan"}}
	mapped.Spec.DesiredMapping = map[string]string{"shop": "shop-rome"}
	virtual := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "milan"}}
	virtual.Spec.ClusterID = "milan"
	virtual.Spec.ResourceQuota.Hard = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	w.create(t, w.rome, mapped, virtual)
	mapped.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingAccepted}}
	w.status(t, w.rome, mapped)
	parallel(t, scrapedPods, func(i int) error {
		return w.rome.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("web-%d", i), Labels: map[string]string{"app": "web"}},
			Spec: corev1.PodSpec{NodeName: "milan", AutomountServiceAccountToken: new(false), Containers: []corev1.Container{{
				Name: "web", Image: "registry.example.org/shop/web:1", Env: []corev1.EnvVar{{Name: "TEXT", Value: strings.Repeat("x", 1000)}},
			}}},
		})
	})
}

// parallel calls f with 0 to n-1.
func parallel(t *testing.T, n int, f func(int) error) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error { return f(i) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// quotaUser returns the user name with which a peer offloads pods to milan.
func quotaUser(peer string) string { return peering.ResourceSliceSubject("pool", peer).User }

// peers creates the objects of the peers of milan. Each peer is a provider of milan, with the API server of rome as its own, and also a consumer.
func (w *scrapedWorld) peers(t *testing.T) {
	t.Helper()
	private, public, err := peering.NewKey(peering.Ed25519, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := peering.ParsePrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := w.romeAuthority.Certificate(signer.Public(), pkix.Name{CommonName: "milan", Organization: []string{"system:masters"}},
		time.Now().Add(-time.Minute), time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	w.create(t, w.milan, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.Namespace}}, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: authv1beta1.KeysSecret},
		Data:       map[string][]byte{authv1beta1.PrivateKeyKey: private, authv1beta1.PublicKeyKey: public},
	})
	for i := range scrapedPeers {
		id := fmt.Sprintf("peer-%d", i)
		far := fmt.Sprintf("liqo-tenant-milan-%d", i)
		of := func(namespace, name string, labels ...string) metav1.ObjectMeta {
			o := metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{api.LabelRemoteClusterID: id}}
			for i := 0; i < len(labels); i += 2 {
				o.Labels[labels[i]] = labels[i+1]
			}
			return o
		}
		tenant := api.TenantNamespace(id)
		w.create(t, w.rome, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: far}})
		gateway := map[string]string{"app": "gateway"}
		deployment := &appsv1.Deployment{
			ObjectMeta: of(tenant, "gw-"+id, networkingv1beta1.LabelComponent, networkingv1beta1.ComponentGateway, networkingv1beta1.LabelGatewayName, id),
			Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: gateway}, Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: gateway}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "gateway", Image: "gateway"}}},
			}},
		}
		w.create(t, w.milan,
			&corev1.Namespace{ObjectMeta: of("", tenant, api.LabelTenantNamespace, api.True)},
			&corev1beta1.ForeignCluster{ObjectMeta: of("", id), Spec: corev1beta1.ForeignClusterSpec{ClusterID: id}},
			&authv1beta1.Identity{ObjectMeta: of(tenant, authv1beta1.IdentityControlPlanePrefix+id), Spec: authv1beta1.IdentitySpec{
				ClusterID: id, Type: authv1beta1.IdentityControlPlane, Namespace: far,
				AuthParams: authv1beta1.AuthParams{CA: w.romeServer.Config.CAData, SignedCRT: certificate, APIServer: w.romeServer.Config.Host},
			}},
			&offloadingv1beta1.Quota{ObjectMeta: of(tenant, id+"-pool"), Spec: offloadingv1beta1.QuotaSpec{User: quotaUser(id), Resources: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("2000"),
				corev1.ResourceEphemeralStorage: resource.MustParse("20Gi"),
			}}},
			&corev1.Node{ObjectMeta: of("", "node-"+id, api.LabelType, api.TypeVirtualNode)},
			deployment,
		)
	}
}

// offloaded waits until the virtual kubelet has created all ShadowPods, and labels each with its user. The webhook would do that, but it does not run
// here.
func (w *scrapedWorld) offloaded(t *testing.T) {
	t.Helper()
	var shadows offloadingv1beta1.ShadowPodList
	apitest.Eventually(t, time.Minute, "the ShadowPods in milan", func() error {
		if err := w.milan.List(t.Context(), &shadows, client.InNamespace("shop-rome")); err != nil || len(shadows.Items) == scrapedPods {
			return err
		}
		return fmt.Errorf("there are %d", len(shadows.Items))
	})
	label := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, offloadingv1beta1.LabelCreatorUser, offloadingv1beta1.CreatorLabel(quotaUser("peer-0")))
	parallel(t, scrapedPods, func(i int) error {
		return w.milan.Patch(t.Context(), &shadows.Items[i], client.RawPatch(types.MergePatchType, []byte(label)))
	})
}

// settled waits until all pods exist in milan, and milan has reached the API server of each peer.
func (w *scrapedWorld) settled(t *testing.T) {
	t.Helper()
	apitest.Eventually(t, time.Minute, "the pods in milan", func() error {
		var pods metav1.PartialObjectMetadataList
		pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		if err := w.milan.List(t.Context(), &pods, client.InNamespace("shop-rome")); err != nil || len(pods.Items) == scrapedPods {
			return err
		}
		return fmt.Errorf("there are %d", len(pods.Items))
	})
	apitest.Eventually(t, time.Minute, "the peers of milan to be reached", func() error {
		var clusters corev1beta1.ForeignClusterList
		if err := w.milan.List(t.Context(), &clusters); err != nil {
			return err
		}
		for i := range clusters.Items {
			fc := &clusters.Items[i]
			if len(fc.Status.Conditions) == 0 || fc.Status.Conditions[0].Status != corev1beta1.StatusEstablished {
				return fmt.Errorf("%s: %+v", fc.Name, fc.Status.Conditions)
			}
		}
		return nil
	})
}

// scraper returns the token of an account that may read the metrics of nodes in rome, and nothing else.
func (w *scrapedWorld) scraper(t *testing.T) string {
	t.Helper()
	const name = "prometheus"
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	w.create(t, w.rome, account,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"nodes/metrics"}, Verbs: []string{"get"}},
		}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "shop", Name: name}},
		})
	request := &authenticationv1.TokenRequest{}
	if err := w.rome.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// running sets all pods to running, and creates measurements of their usage in the provider.
func (w *scrapedWorld) running(t *testing.T) {
	t.Helper()
	var pods corev1.PodList
	if err := w.milan.List(t.Context(), &pods, client.InNamespace("shop-rome")); err != nil {
		t.Fatal(err)
	}
	now := metav1.Now()
	parallel(t, len(pods.Items), func(i int) error {
		pod := &pods.Items[i]
		pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &now
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "web", Ready: true, Image: "registry.example.org/shop/web:1", ImageID: "registry.example.org/shop/web@sha256:" + strings.Repeat("0", 64),
			ContainerID: "containerd://" + fmt.Sprintf("%064x", i), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		}}
		return w.milan.Status().Update(t.Context(), pod)
	})
	w.measures(t, pods.Items)
	apitest.Eventually(t, time.Minute, "the pods to run in rome", func() error {
		var pods corev1.PodList
		if err := w.rome.List(t.Context(), &pods, client.InNamespace("shop")); err != nil {
			return err
		}
		for i := range pods.Items {
			if pods.Items[i].Status.Phase != corev1.PodRunning {
				return fmt.Errorf("%s is %s", pods.Items[i].Name, pods.Items[i].Status.Phase)
			}
		}
		return nil
	})
}

// measures creates a CRD in place of milan's metrics server, and the measurements of the pods.
func (w *scrapedWorld) measures(t *testing.T, pods []corev1.Pod) {
	t.Helper()
	const group = "metrics.k8s.io"
	definition := &apiextensionsv1.CustomResourceDefinition{
		// Kubernetes reserves this API group, so the CRD needs an approval annotation.
		ObjectMeta: metav1.ObjectMeta{Name: "pods." + group, Annotations: map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: "unapproved, as a test"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "pods", Singular: "pod", Kind: "PodMetrics", ListKind: "PodMetricsList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1beta1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: new(true),
				}},
			}},
		},
	}
	w.create(t, w.milan, definition)
	measured := func(pod *corev1.Pod) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": group + "/v1beta1", "kind": "PodMetrics",
			"metadata":  map[string]any{"namespace": pod.Namespace, "name": pod.Name, "labels": map[string]any{offloadingv1beta1.LabelNodeName: "milan"}},
			"timestamp": time.Now().UTC().Format(time.RFC3339), "window": "15s",
			"containers": []any{map[string]any{"name": "web", "usage": map[string]any{"cpu": "12345678n", "memory": "23456Ki"}}},
		}}
	}
	apitest.Eventually(t, 30*time.Second, "measurements to be accepted", func() error { return w.milan.Create(t.Context(), measured(&pods[0])) })
	parallel(t, len(pods)-1, func(i int) error { return w.milan.Create(t.Context(), measured(&pods[i+1])) })
}
