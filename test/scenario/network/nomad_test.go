package network

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// nomad creates a pod of rome on that node of milan. The pod is evicted as soon as its node is lost.
func (p *people) nomad(node string) *corev1.Pod {
	p.Helper()
	p.Must(schedulable(p.Context(), p.Milan, p.Milan.Node(), false))
	p.Cleanup(func() { _ = schedulable(background(p.Story), p.Milan, p.Milan.Node(), true) })
	pod := story.PodOn("milan", p.ns, "nomad", playground.TestServer)
	for _, taint := range []string{corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady} {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(5)),
		})
	}
	// If rome's webhooks ran on the node without power, their Service needs time until it routes to the new pods.
	p.Eventually(start, "rome to take the pod", func(ctx context.Context) error { return p.Rome.Create(ctx, pod.DeepCopy()) })
	now := p.PodReady(p.Rome, p.ns, pod.Name, start)
	if there := p.Pod(p.Milan, p.namespace(p.Milan), pod.Name); there.Spec.NodeName != node {
		p.Fatalf("it runs on %s, want %s", there.Spec.NodeName, node)
	}
	p.Must(schedulable(p.Context(), p.Milan, p.Milan.Node(), true))
	return now
}

func schedulable(ctx context.Context, c *playground.Cluster, node string, is bool) error {
	patch := fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, !is)
	return c.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// moves waits until a pod of rome, whose node in milan is lost, runs on another node, and then deletes it.
func (p *people) moves(pod *corev1.Pod, from, to string) {
	p.Helper()
	// Kubernetes itself detects the loss only after about a minute.
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: from}}
	lost := `{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown","message":"no power"}]}}`
	p.Must(p.Milan.Status().Patch(p.Context(), node, client.RawPatch(types.StrategicMergePatchType, []byte(lost))))
	began := time.Now()
	p.Eventually(2*time.Minute, "the pod to run on "+to, func(ctx context.Context) error {
		var there corev1.Pod
		if err := p.Milan.Get(ctx, client.ObjectKey{Namespace: p.namespace(p.Milan), Name: pod.Name}, &there); err != nil {
			return err
		}
		if there.Spec.NodeName != to || !story.Ready(there) {
			return fmt.Errorf("it is on %s, deleted %v, Ready: %t", there.Spec.NodeName, there.DeletionTimestamp, story.Ready(there))
		}
		return nil
	})
	fmt.Printf("             after %.1f s\n", time.Since(began).Seconds())
	now := p.PodReady(p.Rome, p.ns, pod.Name, start)
	if now.UID != pod.UID {
		p.Errorf("rome's pod was replaced: its UID was %s and is %s", pod.UID, now.UID)
	}
	p.Must(p.Rome.Delete(p.Context(), now))
	p.Gone(p.Rome, now, start)
}
