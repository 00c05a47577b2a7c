package volumes

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload/reflection"
	"liqo.io/liqo/internal/remote"
	"liqo.io/liqo/internal/storage"
	storagecontrollers "liqo.io/liqo/internal/storage/controllers"
	"liqo.io/liqo/test/apitest"
)

// changes counts the successful write requests of a client. A request that failed with a conflict is not counted.
type changes struct {
	mu   sync.Mutex
	made []string
}

// of returns a client whose changes are recorded, with the name of its cluster.
func (w *changes) of(t *testing.T, config *rest.Config, cluster string) client.WithWatch {
	t.Helper()
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if r.Method != http.MethodGet && err == nil && response.StatusCode < http.StatusMultipleChoices {
				w.mu.Lock()
				w.made = append(w.made, cluster+": "+r.Method+" "+path.Base(r.URL.Path))
				w.mu.Unlock()
			}
			return response, err
		})
	})
	c, err := client.NewWithWatch(config, client.Options{Scheme: kube.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestWritesOfAClaimInAProviderOnAPIServer: a claim with its volume in a provider costs two requests that change something, and three when it is
// deleted.
func TestWritesOfAClaimInAProviderOnAPIServer(t *testing.T) {
	nearConfig, farConfig := apitest.APIServers(t)
	near, far := apitest.Client(t, nearConfig), apitest.Client(t, farConfig)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, namespace := range []string{tenantOfMilan, "shop"} {
		must(near.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	}
	must(far.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop-rome"}}))
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	must(near.Create(t.Context(), &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "liqo"}, Provisioner: storage.Provisioner, VolumeBindingMode: &wait}))
	mapped := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: tenantOfMilan, Name: "milan"}}
	mapped.Spec.DesiredMapping = map[string]string{"shop": "shop-rome"}
	must(near.Create(t.Context(), mapped))
	mapped.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingAccepted}}
	must(near.Status().Update(t.Context(), mapped))

	var made changes
	here, there := made.of(t, nearConfig, "rome"), made.of(t, farConfig, "milan")
	health, err := remote.NewHealth(farConfig, remote.HealthOptions{})
	must(err)
	opts := runProvider(t, virtualNode("milan-a", "milan"))
	var engine *reflection.Engine
	opts.Offered = func() []authv1beta1.StorageType {
		return []authv1beta1.StorageType{{StorageClassName: "disk", Default: true}}
	}
	opts.Backing = func(namespace string) []client.Object {
		return engine.Remote(reflection.PersistentVolumeClaimKind, namespace)
	}
	opts.Mapped = func(string) bool { return true }
	opts.Enqueue = func(key types.NamespacedName) { engine.Enqueue(reflection.PersistentVolumeClaimKind, key) }
	opts.All = func() { engine.Resync(reflection.PersistentVolumeClaimKind) }
	opts.Refusals = storagecontrollers.RefusalOptions{
		Claim: func(types.NamespacedName) *corev1.PersistentVolumeClaim { return nil }, Client: here, Log: slog.New(slog.DiscardHandler),
	}
	stored := New(opts)
	engine = reflection.New(reflection.Options{
		Local: here, Remote: there, Health: health, Namespace: tenantOfMilan, Map: "milan", Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		RequestTimeout: 3 * time.Second, Kinds: []reflection.Kind{stored.Kind()},
		Warn: func(obj client.Object, message string) { t.Errorf("%s: %s", obj.GetName(), message) },
	})
	var running sync.WaitGroup
	for _, run := range []func() error{
		func() error { return health.Run(t.Context()) }, func() error { return stored.Run(t.Context(), here) }, func() error { return engine.Run(t.Context()) },
	} {
		running.Go(func() { _ = run() })
	}
	t.Cleanup(running.Wait)
	expect := func(what string, want ...string) {
		t.Helper()
		apitest.Eventually(t, 20*time.Second, what, func() error {
			made.mu.Lock()
			defer made.mu.Unlock()
			if !slices.Equal(made.made, want) {
				return fmt.Errorf("the changes are %q, want %q", made.made, want)
			}
			return nil
		})
	}

	claim := claimOn("milan-a")
	claim.UID, claim.Spec.AccessModes = "", []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	must(near.Create(t.Context(), claim))
	life := []string{"milan: POST persistentvolumeclaims", "rome: POST persistentvolumes"}
	expect("a volume", life...)

	// Kubernetes binds both.
	volume := &corev1.PersistentVolume{}
	must(near.Get(t.Context(), types.NamespacedName{Name: storage.VolumeName(claim.UID)}, volume))
	claim.Spec.VolumeName = volume.Name
	must(near.Update(t.Context(), claim))
	claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, volume.Spec.Capacity
	must(near.Status().Update(t.Context(), claim))
	volume.Status.Phase = corev1.VolumeBound
	must(near.Status().Update(t.Context(), volume))
	backing := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: claim.Name}}
	must(far.Get(t.Context(), client.ObjectKeyFromObject(backing), backing))
	backing.Spec.VolumeName = "disk"
	must(far.Update(t.Context(), backing))
	backing.Status.Phase, backing.Status.Capacity = corev1.ClaimBound, volume.Spec.Capacity
	must(far.Status().Update(t.Context(), backing))

	// The claim is deleted. Kubernetes releases the volume, and removes the protection from objects that are no longer used.
	must(near.Delete(t.Context(), claim))
	free := func(c client.Client, obj client.Object) {
		t.Helper()
		apitest.Eventually(t, 20*time.Second, "the end of "+obj.GetName(), func() error {
			err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)
			switch finalizers := obj.GetFinalizers(); {
			case apierrors.IsNotFound(err):
				return nil
			case err != nil:
				return err
			case obj.GetDeletionTimestamp() == nil:
				return errors.New("it is not deleted")
			default:
				finalizers = slices.DeleteFunc(finalizers, func(f string) bool { return f != storage.Finalizer })
				obj.SetFinalizers(finalizers)
				return errors.Join(errors.New("it is being deleted"), c.Update(t.Context(), obj))
			}
		})
	}
	free(near, claim)
	volume.Status.Phase = corev1.VolumeReleased
	must(near.Status().Update(t.Context(), volume))
	free(far, backing)
	free(near, volume)
	life = append(life, "milan: DELETE "+claim.Name, "rome: DELETE "+volume.Name, "rome: PATCH "+volume.Name)
	expect("its end", life...)

	// Another claim serves as a barrier: when it is handled, all writes for the first claim have been made.
	fence := claimOn("milan-a")
	fence.Name, fence.UID, fence.Spec.AccessModes = "fence", "", claim.Spec.AccessModes
	must(near.Create(t.Context(), fence))
	expect("the volume of the fence, and nothing else", append(life, "milan: POST persistentvolumeclaims", "rome: POST persistentvolumes")...)
}
