package webhook

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/test/apitest"
)

// The user of a consumer's virtual kubelet.
const pool = "pool-0a1b2c3d4e5f"

// webhooks makes an API server call the real handlers, as the chart configures it.
func webhooks(t *testing.T, config *rest.Config, vals map[string]any) {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: kube.NewScheme(), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0"})
	if err != nil {
		t.Fatal(err)
	}
	counted, err := newQuotas(mgr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the manager: %v", err)
		}
	})
	decoder := admission.NewDecoder(mgr.GetScheme())
	handlers := map[string]admission.Handler{
		PathShadowPod: shadowPods{decoder: decoder, quotas: counted},
		PathPod:       &pods{cached: mgr.GetClient(), live: mgr.GetAPIReader(), decoder: decoder, runtimeClass: defaultRuntimeClass},
	}
	admin := apitest.Client(t, config)
	for _, object := range chart(t, vals, "MutatingWebhookConfiguration") {
		configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, configuration); err != nil {
			t.Fatal(err)
		}
		for i := range configuration.Webhooks {
			w := &configuration.Webhooks[i]
			server := httptest.NewTLSServer(&admission.Webhook{Handler: handlers[*w.ClientConfig.Service.Path]})
			t.Cleanup(server.Close)
			w.ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}
		}
		if err := admin.Create(t.Context(), configuration); err != nil {
			t.Fatal(err)
		}
	}
}

// TestQuotaOnAPIServer creates ShadowPods with the groups and permissions of a consumer.
func TestQuotaOnAPIServer(t *testing.T) {
	config := apitest.APIServer(t)
	admin := apitest.Client(t, config)
	for _, object := range chart(t, values(), "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ClusterRole") {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatalf("creating %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	namespace(t, admin, "shop-rome", map[string]string{api.LabelRemoteClusterID: "rome"})
	namespace(t, admin, "liqo-tenant-rome", map[string]string{api.LabelRemoteClusterID: "rome", api.LabelTenantNamespace: api.True})
	ref, subjects := offload.RemoteNamespaceRights("rome")
	if err := admin.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "twin"}, RoleRef: ref, Subjects: subjects}); err != nil {
		t.Fatal(err)
	}
	as := func(user string) client.Client {
		consumer := rest.CopyConfig(config)
		consumer.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"rome", "system:authenticated"}}
		return apitest.Client(t, consumer)
	}
	rome := as(pool)
	made := 0
	shadow := func(cpu string, change func(*offloadingv1beta1.ShadowPod)) *offloadingv1beta1.ShadowPod {
		made++
		sp := &offloadingv1beta1.ShadowPod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: fmt.Sprint("web-", made), Labels: map[string]string{api.LabelOrigin: "rome"}},
			Spec: offloadingv1beta1.ShadowPodSpec{Pod: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "web", Image: "web:1", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
			}}}},
		}
		if change != nil {
			change(sp)
		}
		return sp
	}
	forged := func(as string) func(*offloadingv1beta1.ShadowPod) {
		return func(sp *offloadingv1beta1.ShadowPod) { sp.Labels[offloadingv1beta1.LabelCreatorUser] = as }
	}
	refused := func(what string, err error, says string) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", what, err, says)
		}
	}

	t.Run("a stricter strategy", func(t *testing.T) { stricter(t, config) })

	// Before the webhook serves, as with failurePolicy Ignore: a ShadowPod without the creator label, or with another one, is refused.
	apitest.InForce(t, admin)
	apitest.Eventually(t, within, "the policies to be in force", func() error {
		sp := shadow("1", nil)
		err := rome.Create(t.Context(), sp)
		if err == nil {
			return errors.Join(errors.New("not yet"), admin.Delete(t.Context(), sp))
		}
		if !strings.Contains(err.Error(), "creator-user is '', but this request is by "+pool) {
			return err
		}
		return nil
	})
	refused("somebody else's", rome.Create(t.Context(), shadow("1", forged("other-0a1b2c3d4e5f"))), "but this request is by "+pool)
	long := strings.Repeat("a", 60) + "-0a1b2c3d4e5f"
	refused("somebody else's, by a long name", as(long).Create(t.Context(), shadow("1", forged(pool))), "but this request is by "+long)
	own := shadow("1", forged(offloadingv1beta1.CreatorLabel(long)))
	if err := as(long).Create(t.Context(), own); err != nil {
		t.Errorf("a long name: %v", err)
	}

	webhooks(t, config, values())
	eventually := func(what string, try func() error, says string) {
		t.Helper()
		apitest.Eventually(t, within, what, func() error {
			err := try()
			if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
				return fmt.Errorf("%w, want %q", err, says)
			}
			return nil
		})
	}
	eventually("the webhooks to be in force", func() error { return rome.Create(t.Context(), shadow("1", nil), client.DryRunAll) }, "that user has no Quota")
	quota := &offloadingv1beta1.Quota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: pool},
		Spec: offloadingv1beta1.QuotaSpec{User: pool, LimitsEnforcement: offloadingv1beta1.EnforcementNone, Resources: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("3"), corev1.ResourceMemory: resource.MustParse("1Gi"), corev1.ResourcePods: resource.MustParse("3"),
		}},
	}
	if err := admin.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	// The webhook reads a Quota that its cache lacks from the API server.
	first := shadow("1", forged("other-0a1b2c3d4e5f"))
	if err := rome.Create(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if label := first.Labels[offloadingv1beta1.LabelCreatorUser]; label != pool {
		t.Errorf("creator %q", label)
	}
	eventually("what exists to count", func() error { return rome.Create(t.Context(), shadow("2500m", nil), client.DryRunAll) },
		" of user "+pool+": quota liqo-tenant-rome/"+pool+": 2500m of cpu are wanted, 1 of 3 are used: ask for less")
	refused("more than there ever is", rome.Create(t.Context(), shadow("4", nil)), "4 of cpu are wanted, 1 of 3 are used")
	refused("what is not granted", rome.Create(t.Context(), shadow("1", func(sp *offloadingv1beta1.ShadowPod) {
		sp.Spec.Pod.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	})), "1 of nvidia.com/gpu are wanted and none is granted")
	again := shadow("1", nil)
	again.Name = first.Name
	if err := rome.Create(t.Context(), again); !apierrors.IsAlreadyExists(err) {
		t.Errorf("the same once more: %v", err)
	}
	resize := func(cpu string) error {
		if err := rome.Get(t.Context(), client.ObjectKeyFromObject(first), first); err != nil {
			return err
		}
		changed := first.DeepCopy()
		changed.Spec.Pod.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
		return rome.Patch(t.Context(), changed, client.MergeFrom(first))
	}
	refused("resized beyond", resize("3500m"), "3500m of cpu are wanted, 0 of 3 are used")

	// The ShadowPod of a finished pod uses no resources.
	before := first.DeepCopy()
	first.Status.Phase = corev1.PodSucceeded
	if err := admin.Status().Patch(t.Context(), first, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	full := shadow("3", nil)
	eventually("room again", func() error { return rome.Create(t.Context(), full.DeepCopy()) }, "")
	eventually("that to count", func() error { return rome.Create(t.Context(), shadow("100m", nil), client.DryRunAll) }, "100m of cpu are wanted, 3 of 3 are used")
	if err := rome.Delete(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	eventually("room again", func() error { return rome.Create(t.Context(), shadow("3", nil), client.DryRunAll) }, "")

	set := func(change func(*offloadingv1beta1.QuotaSpec)) {
		t.Helper()
		before := quota.DeepCopy()
		change(&quota.Spec)
		if err := admin.Patch(t.Context(), quota, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	set(func(q *offloadingv1beta1.QuotaSpec) { q.LimitsEnforcement = offloadingv1beta1.EnforcementSoft })
	eventually("Soft", func() error { return rome.Create(t.Context(), shadow("1", nil), client.DryRunAll) }, "container web requests no memory, which enforcement Soft demands")
	cordoned := true
	set(func(q *offloadingv1beta1.QuotaSpec) { q.Cordoned = &cordoned })
	eventually("the cordon", func() error { return rome.Create(t.Context(), shadow("1", nil), client.DryRunAll) }, "it is cordoned")
}

// stricter changes the strategy of a namespace as a user does, who gets the warning that pods do not move.
func stricter(t *testing.T, config *rest.Config) {
	t.Helper()
	warned := &warnings{}
	user := rest.CopyConfig(config)
	user.WarningHandler = warned
	c := apitest.Client(t, user)
	offloading := offloadingOf(offloadingv1beta1.PodsLocalAndRemote)
	offloading.Namespace = "shop-rome"
	if err := c.Create(t.Context(), offloading); err != nil {
		t.Fatal(err)
	}
	for strategy, want := range map[offloadingv1beta1.PodOffloadingStrategy]bool{offloadingv1beta1.PodsRemote: true, offloadingv1beta1.PodsLocalAndRemote: false} {
		apitest.Eventually(t, within, "a warning", func() error {
			warned.told = nil
			before := offloading.DeepCopy()
			before.Spec.PodOffloadingStrategy = offloadingv1beta1.PodsLocalAndRemote
			changed := before.DeepCopy()
			changed.Spec.PodOffloadingStrategy, changed.Labels = strategy, map[string]string{"try": string(strategy)}
			if err := c.Patch(t.Context(), changed, client.MergeFrom(before), client.DryRunAll); err != nil {
				return err
			}
			if got := strings.Contains(strings.Join(warned.told, ""), "pods that exist stay where they are"); got != want {
				return fmt.Errorf("%s: told %q", strategy, warned.told)
			}
			return nil
		})
	}
}

type warnings struct{ told []string }

func (w *warnings) HandleWarningHeader(_ int, _, text string) { w.told = append(w.told, text) }

// TestQuotaOnUpdate covers ShadowPods that become smaller, whose Pods are recreated from them.
func TestQuotaOnUpdate(t *testing.T) {
	const (
		whole = `{"requests":{"cpu":"2","memory":"2Gi"},"limits":{"cpu":"2","memory":"2Gi"}}`
		less  = `{"requests":{"cpu":"1","memory":"1Gi"},"limits":{"cpu":"1","memory":"1Gi"}}`
		burst = `{"requests":{"cpu":"2","memory":"2Gi"},"limits":{"cpu":"8","memory":"2Gi"}}`
		owing = `{"requests":{"cpu":"2","memory":"2Gi","nvidia.com/gpu":"-8"},"limits":{"cpu":"2","memory":"2Gi"}}`
	)
	for name, c := range map[string]struct {
		enforcement   offloadingv1beta1.LimitsEnforcement
		before, after string
		cordoned      bool
		says          string
	}{
		"less":                             {offloadingv1beta1.EnforcementHard, whole, less, false, ""},
		"less, of what is cordoned":        {offloadingv1beta1.EnforcementHard, whole, less, true, ""},
		"nothing":                          {offloadingv1beta1.EnforcementHard, whole, `{}`, false, "container web requests no cpu, which enforcement Hard demands"},
		"nothing, of what is cordoned":     {offloadingv1beta1.EnforcementHard, whole, `{}`, true, "container web requests no cpu"},
		"nothing, with Soft":               {offloadingv1beta1.EnforcementSoft, whole, `{}`, false, "container web requests no cpu, which enforcement Soft demands"},
		"nothing, with None":               {offloadingv1beta1.EnforcementNone, whole, `{}`, false, ""},
		"a higher limit":                   {offloadingv1beta1.EnforcementHard, whole, burst, false, "requests 2 of cpu and its limit is 8"},
		"a higher limit, with Soft":        {offloadingv1beta1.EnforcementSoft, whole, burst, false, ""},
		"older than the enforcement":       {offloadingv1beta1.EnforcementSoft, `{"requests":{"cpu":"2"}}`, `{"requests":{"cpu":"1"}}`, false, ""},
		"less than nothing, with None":     {offloadingv1beta1.EnforcementNone, whole, owing, false, "spec.pod.containers[0].resources.requests[nvidia.com/gpu] is -8"},
		"a new one with less than nothing": {offloadingv1beta1.EnforcementNone, "", owing, false, "spec.pod.containers[0].resources.requests[nvidia.com/gpu] is -8"},
	} {
		t.Run(name, func(t *testing.T) {
			shadow := func(resources string) *offloadingv1beta1.ShadowPod {
				if resources == "" {
					return nil
				}
				sp := &offloadingv1beta1.ShadowPod{Spec: offloadingv1beta1.ShadowPodSpec{Pod: corev1.PodSpec{Containers: []corev1.Container{{Name: "web"}}}}}
				if err := json.Unmarshal([]byte(resources), &sp.Spec.Pod.Containers[0].Resources); err != nil {
					t.Fatal(err)
				}
				return sp
			}
			quota := &offloadingv1beta1.Quota{
				ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: pool},
				Spec: offloadingv1beta1.QuotaSpec{User: pool, LimitsEnforcement: c.enforcement, Cordoned: &c.cordoned, Resources: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("2Gi"),
				}},
			}
			q := &quotas{cached: reader(quota), live: reader(), synced: func() bool { return true }, tracker: offload.NewUsageTracker()}
			refused, err := q.refusal(t.Context(), types.NamespacedName{Namespace: "shop-rome", Name: "web"}, offloadingv1beta1.CreatorLabel(pool), shadow(c.after), shadow(c.before))
			if err != nil {
				t.Fatal(err)
			}
			if (refused == nil) != (c.says == "") || refused != nil && !strings.Contains(refused.Error(), c.says) {
				t.Errorf("%v, want %q", refused, c.says)
			}
		})
	}
}
