package reflection_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/apitest"
)

// TestRestoredBackupsOnAPIServers restores the etcd of each cluster from a backup while an engine runs. Afterwards the copies match the consumer's objects, as
// they are in the backup if the consumer was restored. Objects that existed before and after are not recreated, and an object that only the restored cluster
// lost is reported. The restored API server assigns the same resource versions again, so caches must not rely on them.
func TestRestoredBackupsOnAPIServers(t *testing.T) {
	near, far := apitest.APIServers(t)
	for _, victim := range []struct {
		name   string
		config *rest.Config
		// maps holds the expected ConfigMaps with their content; lost is the pod that only one of the clusters still has.
		maps map[string]string
		lost string
	}{
		{"provider", far, map[string]string{"stays": "1", "changes": "2", "comes": "1"}, "pod-comes"},
		{"consumer", near, map[string]string{"stays": "1", "changes": "1", "goes": "1"}, "pod-goes"},
	} {
		b := &backedUp{world: newWorld(t, near, far)}
		b.nearLink = newLink(t, near)
		stop := b.start()
		for _, name := range []string{"stays", "changes", "goes"} {
			b.create(b.near, b.configMap(name, "1"))
		}
		b.create(b.far, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.twinNS, Name: "theirs"}, Data: map[string]string{"n": "7"}})
		b.pod("pod-stays")
		b.pod("pod-goes")
		b.waitReady(2)
		b.agree("before the backup", map[string]string{"stays": "1", "changes": "1", "goes": "1"}, "pod-goes", "pod-stays")
		before := b.identities()
		restore := apitest.Backup(t, victim.config)

		b.set("changes", "2")
		if err := b.near.Delete(t.Context(), b.configMap("goes", "1")); err != nil {
			t.Fatal(err)
		}
		if err := b.near.Delete(t.Context(), &corev1.Pod{ObjectMeta: b.at("pod-goes")}); err != nil {
			t.Fatal(err)
		}
		b.create(b.near, b.configMap("comes", "1"))
		b.pod("pod-comes")
		b.agree("after the backup", map[string]string{"stays": "1", "changes": "2", "comes": "1"}, "pod-comes", "pod-stays")

		restore()
		b.agree("after the backup of the "+victim.name+" was restored", victim.maps, "pod-stays")
		if got := b.identities(); !maps.Equal(got, before) {
			t.Errorf("%s: objects were replaced: %s", victim.name, gocmp.Diff(before, got))
		}
		apitest.Eventually(t, 30*time.Second, "the lost pod to be reported", func() error {
			var pod corev1.Pod
			if err := b.near.Get(t.Context(), client.ObjectKey{Namespace: b.localNS, Name: victim.lost}, &pod); err != nil {
				return err
			}
			if pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != offloadingv1beta1.PodOffloadingAborted {
				return fmt.Errorf("pod %s is %s %s", victim.lost, pod.Status.Phase, pod.Status.Reason)
			}
			return nil
		})
		stop()
	}
}

// backedUp is a world in which ConfigMaps and pods are created, changed and deleted.
type backedUp struct{ *world }

func (b *backedUp) configMap(name, n string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: b.at(name), Data: map[string]string{"n": n}}
}

func (b *backedUp) set(name, n string) {
	b.t.Helper()
	config := b.configMap(name, n)
	b.change(config, func() { config.Data["n"] = n })
}

// agree waits until both clusters have exactly these ConfigMaps (the provider also has one of its own) and run exactly these pods.
func (b *backedUp) agree(what string, want map[string]string, pods ...string) {
	b.t.Helper()
	there := maps.Clone(want)
	there["theirs"] = "7"
	apitest.Eventually(b.t, 2*time.Minute, "both clusters to agree "+what, func() error {
		for _, side := range []struct {
			client.Client
			namespace string
			want      map[string]string
		}{{b.near, b.localNS, want}, {b.far, b.twinNS, there}} {
			var list corev1.ConfigMapList
			if err := side.List(b.t.Context(), &list, client.InNamespace(side.namespace)); err != nil {
				return err
			}
			got := map[string]string{}
			for _, item := range list.Items {
				if item.Name != "kube-root-ca.crt" {
					got[item.Name] = item.Data["n"]
				}
			}
			if !maps.Equal(got, side.want) {
				return fmt.Errorf("ConfigMaps in %s: %s", side.namespace, gocmp.Diff(side.want, got))
			}
		}
		return b.run(pods)
	})
}

// run returns an error unless exactly these pods, which are sorted, run in both clusters.
func (b *backedUp) run(want []string) error {
	var shadows offloadingv1beta1.ShadowPodList
	if err := b.far.List(b.t.Context(), &shadows, client.InNamespace(b.twinNS)); err != nil {
		return err
	}
	if len(shadows.Items) != len(want) {
		return fmt.Errorf("%d ShadowPods, want %d", len(shadows.Items), len(want))
	}
	for _, side := range []struct {
		client.Client
		namespace string
	}{{b.near, b.localNS}, {b.far, b.twinNS}} {
		var list corev1.PodList
		if err := side.List(b.t.Context(), &list, client.InNamespace(side.namespace)); err != nil {
			return err
		}
		var got []string
		for i := range list.Items {
			if pod := &list.Items[i]; pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
				got = append(got, pod.Name)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("pods that run in %s: %v, want %v", side.namespace, got, want)
		}
	}
	return nil
}

// identities returns the UIDs of the objects that exist in both clusters during the whole test.
func (b *backedUp) identities() map[string]types.UID {
	b.t.Helper()
	out := map[string]types.UID{}
	for name, object := range map[string]struct {
		side client.Client
		at   client.Object
	}{
		"map here": {b.near, b.configMap("stays", "")}, "pod here": {b.near, &corev1.Pod{ObjectMeta: b.at("pod-stays")}},
		"map there":       {b.far, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.twinNS, Name: "stays"}}},
		"map of others":   {b.far, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.twinNS, Name: "theirs"}}},
		"pod there":       {b.far, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.twinNS, Name: "pod-stays"}}},
		"ShadowPod there": {b.far, &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: b.twinNS, Name: "pod-stays"}}},
	} {
		if err := object.side.Get(b.t.Context(), client.ObjectKeyFromObject(object.at), object.at); err != nil {
			b.t.Fatalf("%s: %v", name, err)
		}
		out[name] = object.at.GetUID()
	}
	return out
}
