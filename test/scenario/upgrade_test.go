package scenario

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/install"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// upgrade: both clusters are upgraded while pods in milan communicate with each other. A failed upgrade is rolled back, and another upgrade is refused until
// then. The pods continue to communicate.
func upgrade(s *story.Story) {
	const ns, other = "upgrade", "choices"
	rome, milan := s.Rome, s.Milan
	both := []*playground.Cluster{rome, milan}
	// Deployments keep ReplicaSets of earlier revisions.
	s.Others("replicasets liqo")
	talking(s, ns)
	s.Step("a pod of a runtime class of milan that it lets nobody use", func() {
		s.Offload(other)
		s.Must(milan.Create(s.Context(), special()))
		s.Cleanup(func() { _ = milan.Delete(context.WithoutCancel(s.Context()), special()) })
		s.Must(rome.Create(s.Context(), specialPod(other)))
		refused(s, other, "special", "special")
	})
	u := observe(s, ns)

	s.Step("upgrade both, with pods of ours that differ, and other values", func() { u.upgradeBoth("51m", chosen) })
	s.Step("the pods took no notice", u.untouched)
	s.Step("what follows a namespace, and what milan offers, is as the values say", func() {
		choices(s, other)
		if class := s.PodReady(milan, story.Twin(other), "special", time.Minute).Spec.RuntimeClassName; class == nil || *class != "special" {
			s.Errorf("the pod is of runtime class %v", class)
		}
		s.Must(rome.Delete(s.Context(), s.Pod(rome, other, "special")))
		s.PodsReady(rome, other, 0, start)
		s.Must(milan.Delete(s.Context(), special()))
	})

	s.Step("an upgrade that fails is rolled back, and says why; meanwhile another one is refused", func() {
		var said string
		var err error
		first, ctx := make(chan struct{}), s.Context()
		go func() {
			defer close(first)
			said, err = s.Liqoctl(ctx, "upgrade", "--kubeconfig", rome.Kubeconfig, "--timeout", "20s", "--set", "controllerManager.pod.extraArgs={--nonsense}")
		}()
		s.Eventually(start, "the first one to hold its lock", func(ctx context.Context) error {
			return rome.Get(ctx, client.ObjectKey{Namespace: api.Namespace, Name: install.LockName}, &coordinationv1.Lease{})
		})
		second, refusal := s.Liqoctl(s.Context(), "upgrade", "--kubeconfig", rome.Kubeconfig, "--set", "controllerManager.pod.resources.requests.cpu=53m")
		if want := "the installation in namespace liqo is being changed by liqoctl of "; refusal == nil || !strings.Contains(second, want) {
			s.Errorf("the second one ended with the error %v, want %q in what it says:\n%s", refusal, want, second)
		}
		<-first
		if err == nil {
			s.Fatalf("rome was upgraded to what can't run:\n%s", said)
		}
		for _, want := range []string{
			"waiting for Deployment liqo-controller-manager in namespace liqo: timed out (--timeout)", "container controller-manager of pod liqo-controller-manager-",
			"Rolled back to version",
		} {
			if !strings.Contains(said, want) {
				s.Errorf("it does not say %q:\n%s", want, said)
			}
		}
		var deployment appsv1.Deployment
		s.Must(rome.Get(s.Context(), client.ObjectKey{Namespace: api.Namespace, Name: "liqo-controller-manager"}, &deployment))
		container := deployment.Spec.Template.Spec.Containers[0]
		if strings.Contains(strings.Join(container.Args, " "), "--nonsense") || container.Resources.Requests.Cpu().String() != "51m" || deployment.Status.AvailableReplicas != 1 {
			s.Errorf("the version before is not back: arguments %v, requests %v, status %+v", container.Args, container.Resources.Requests, deployment.Status)
		}
	})
	s.Step("the pods took no notice of that either", u.untouched)

	s.Step("upgrade both, back to how they were", func() { u.upgradeBoth("50m", byDefault) })
	s.Step("nor of that, and all requests were answered", func() {
		u.untouched()
		u.answered()
		for _, c := range both {
			s.Renewed(c, "deployments liqo") // their annotation with the revision changes
		}
	})
}

// talking creates pods of a Service in milan, and a pod there that requests it all the time, and waits until it is answered.
func talking(s *story.Story, ns string) {
	s.Helper()
	rome := s.Rome
	s.Step("pods that talk to each other", func() {
		s.Offload(ns)
		s.Must(rome.Create(s.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "server"},
			Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "server"}, Ports: []corev1.ServicePort{{
				Port: 80, TargetPort: intstr.FromInt32(8080),
			}}},
		}))
		s.Must(rome.Create(s.Context(), story.DeploymentOn("milan", ns, "server", 2, playground.TestServer)))
		s.PodsReady(rome, ns, 2, start)
		s.Must(rome.Create(s.Context(), story.PodOn("milan", ns, "client", playground.Shell, story.Asking("http://server/healthz")...)))
		s.PodsReady(rome, ns, 3, start)
		s.Eventually(start, "the client to reach the server", func(ctx) error {
			if said := s.Logs(rome, ns, "client", corev1.PodLogOptions{}); !strings.Contains(said, "well") {
				return fmt.Errorf("it says %q", said)
			}
			return nil
		})
	})
}

// observed are the pods of a namespace during upgrades.
type observed struct {
	*story.Story
	ns          string
	before      []corev1.Pod
	here, there *story.Recorder
}

// observe begins to observe the pods of a namespace.
func observe(s *story.Story, ns string) *observed {
	s.Helper()
	return &observed{s, ns, s.Pods(s.Rome, ns), s.Record(s.Rome, ns), s.Record(s.Milan, story.Twin(ns))}
}

// untouched checks that no pod was restarted or replaced.
func (u *observed) untouched() {
	u.Helper()
	s, rome, milan, ns, twin := u.Story, u.Rome, u.Milan, u.ns, story.Twin(u.ns)
	after := s.PodsReady(rome, ns, len(u.before), start)
	for i := range u.before {
		if was, is := u.before[i], after[i]; was.UID != is.UID || fmt.Sprint(story.Containers(was)) != fmt.Sprint(story.Containers(is)) || story.Restarts(is) != 0 {
			s.Errorf("pod %s was touched: UID %s and %s, containers %v and %v, %d restarts", is.Name, was.UID, is.UID, story.Containers(was), story.Containers(is), story.Restarts(is))
		}
	}
	same(s, after, s.PodsReady(milan, twin, len(u.before), start))
	if len(u.here.Pods()) != len(u.before) || len(u.there.Pods()) != len(u.before) || u.there.Started() != len(u.before) {
		s.Errorf("rome has seen the pods %v, milan %v, and %d containers start", u.here.Pods(), u.there.Pods(), u.there.Started())
	}
	s.NodeReady("milan", true, start)
}

// answered checks that all requests of pod client were answered.
func (u *observed) answered() {
	u.Helper()
	text, failed := u.Answers(u.Rome, u.ns, "client")
	fmt.Println("             " + text)
	if failed > 0 {
		u.Errorf("requests were not answered")
	}
}

// upgradeBoth upgrades both clusters, with these values. A changed resource request is the smallest change that restarts Liqo's pods.
func (u *observed) upgradeBoth(cpu, choices string) {
	u.Helper()
	s, rome := u.Story, u.Rome
	kubelet := s.Only(rome, api.TenantNamespace("milan"), client.MatchingLabels{api.LabelVirtualNode: "milan"})
	values := filepath.Join(s.TempDir(), "values.yaml")
	s.Must(os.WriteFile(values, []byte(choices), 0o600))
	var group errgroup.Group
	for _, c := range []*playground.Cluster{s.Rome, s.Milan} {
		group.Go(func() error {
			_, err := s.Liqoctl(s.Context(), "upgrade", "--kubeconfig", c.Kubeconfig,
				"--set", "controllerManager.pod.resources.requests.cpu="+cpu+",virtualKubelet.extra.resources.requests.cpu="+cpu, "--values", values)
			return err
		})
	}
	s.Must(group.Wait())
	s.Gone(rome, kubelet, time.Minute)
	s.Eventually(start, "another virtual kubelet to be ready", func(ctx context.Context) error {
		pods := s.Pods(rome, api.TenantNamespace("milan"), client.MatchingLabels{api.LabelVirtualNode: "milan"})
		if len(pods) != 1 || !story.Ready(pods[0]) {
			return fmt.Errorf("there are %v", story.Names(pods))
		}
		// Until the node has the address of the new pod, the API server requests logs from the previous one.
		var node corev1.Node
		if err := rome.Get(ctx, client.ObjectKey{Name: "milan"}, &node); err != nil {
			return err
		}
		if at := node.Status.Addresses; len(at) != 1 || at[0].Address != pods[0].Status.PodIP {
			return fmt.Errorf("the node has the addresses %v, and %s has %s", at, pods[0].Name, pods[0].Status.PodIP)
		}
		return nil
	})
}
