package monitoring

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

const (
	// slow is how long the detour delays each packet, so that the average of all round trips exceeds the threshold of LiqoRoundTripHigh soon.
	slow = 600 * time.Millisecond
	// refused is how many ConfigMaps milan does not accept: more than one in 20 s of the ten minutes that LiqoReflectionErrors looks at.
	refused = 90
	// old is a command that serves metrics as a program of another version would.
	old = `mkdir -p /tmp/www && echo 'liqo_build_info{program="proxy",version="v0.0.1",go_version="go1"} 1' >/tmp/www/metrics && exec httpd -f -p 9100 -h /tmp/www`
)

// troubles: alerts that no partition causes fire, each for its own reason.
func troubles(s *story.Story, o observers, d *delayed) {
	const ns = "troubles"
	rome, twin := o.of(s, s.Rome), story.Twin(ns)
	toMilan := map[string]string{"cluster_id": "milan"}
	s.Step("round trips are slow, milan refuses objects, and a program has another version", func() {
		s.Offload(ns)
		first := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "first"}}
		s.Must(s.Rome.Create(s.Context(), first))
		s.Eventually(start, "a ConfigMap in milan", func(ctx context.Context) error {
			return s.Milan.Get(ctx, client.ObjectKey{Namespace: twin, Name: first.Name}, &corev1.ConfigMap{})
		})
		rome.rescraped() // so that each pod has a scrape without errors
		s.Must(s.Milan.Create(s.Context(), &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: twin, Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/configmaps": resource.MustParse("1")}},
		}))
		s.Eventually(start, "the ResourceQuota to be counted", func(ctx context.Context) error {
			var quota corev1.ResourceQuota
			if err := s.Milan.Get(ctx, client.ObjectKey{Namespace: twin, Name: "none"}, &quota); err != nil {
				return err
			}
			if len(quota.Status.Hard) == 0 {
				return fmt.Errorf("status %+v", quota.Status)
			}
			return nil
		})
		for i := range refused {
			s.Must(s.Rome.Create(s.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("refused-%d", i)}}))
		}
		// In another namespace, a pod with the labels of Liqo is not scraped.
		pod := story.PodOn(s.Rome.Node(), api.Namespace, "old", playground.Shell, "sh", "-c", old)
		pod.Labels["app.kubernetes.io/part-of"] = "liqo"
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "metrics", ContainerPort: 9100}}
		s.Must(s.Rome.Create(s.Context(), pod))
		s.Cleanup(func() { _ = client.IgnoreNotFound(s.Rome.Delete(context.WithoutCancel(s.Context()), pod)) })
		d.delay.Store(int64(slow))
		s.Cleanup(func() { d.delay.Store(0) })
	})
	s.Step("their alerts fire", func() {
		rome.fires(time.Minute, "LiqoVersionsDiffer", nil)
		rome.fires(time.Minute, "LiqoReflectionErrors", toMilan)
		rome.fires(2*time.Minute, "LiqoRoundTripHigh", toMilan)
	})
	s.Step("no controller manager runs: its alert fires, and resolves", func() {
		d.delay.Store(0)
		s.Must(s.Rome.Delete(s.Context(), s.Pod(s.Rome, api.Namespace, "old")))
		scale := func(ctx context.Context, replicas int32) error {
			deployments := s.Rome.Set.AppsV1().Deployments(api.Namespace)
			present, err := deployments.GetScale(ctx, "liqo-controller-manager", metav1.GetOptions{})
			if err != nil {
				return err
			}
			present.Spec.Replicas = replicas
			_, err = deployments.UpdateScale(ctx, present.Name, present, metav1.UpdateOptions{})
			return err
		}
		s.Cleanup(func() { _ = scale(context.WithoutCancel(s.Context()), 1) }) // for the case that the story ends early
		s.Must(scale(s.Context(), 0))
		rome.fires(time.Minute, "LiqoControllerManagerDown", nil)
		s.Must(scale(s.Context(), 1))
		for _, name := range []string{"LiqoControllerManagerDown", "LiqoVersionsDiffer", "LiqoTunnelDown", "LiqoVirtualNodeNotReady"} {
			rome.resolves(time.Minute, name)
		}
	})
}
