package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// skewBudget is the limit for the story of two releases, including the creation of the clusters, on two cores.
const skewBudget = 5 * time.Minute

// TestSkew peers two releases: rome has this release, and milan has the previous one, installed by Helm alone.
func TestSkew(t *testing.T) {
	machine, err := playground.Find(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	previous, err := machine.Previous()
	if err != nil {
		t.Fatal(err)
	}
	w := story.New(t, story.Plan{
		Budget: skewBudget, Prefix: "skew-", Pair: true,
		Otherwise: map[string]func(context.Context, *playground.Cluster) error{"milan": func(ctx context.Context, c *playground.Cluster) error {
			return errors.Join(machine.Load(ctx, c.Name, previous), helmInstall(ctx, previous, c))
		}},
	})
	w.Tell(t, "skew", func(s *story.Story) { (&releases{Story: s, previous: previous}).skew() })
}

// releases is a story of this release and the previous one.
type releases struct {
	*story.Story
	previous playground.Machine
}

// Namespaces of rome and of milan with pods in both clusters.
const romesSkew, milansSkew = "skew", "skew-back"

func (r *releases) skew() {
	s, rome, milan := r.Story, r.Rome, r.Milan
	now, err := s.Version(s.Context())
	s.Must(err)
	before, err := r.previous.Version(s.Context())
	s.Must(err)
	s.Step("rome runs "+now+", milan "+before, func() {
		r.runs(rome, now)
		r.runs(milan, before)
	})
	s.Step("milan peers with rome, by its own liqoctl", func() { s.Must(r.previous.Peer(s.Context(), milan, rome)) })
	s.Step("pods of each in the other one", func() {
		r.offload(s.Machine, rome, milan, romesSkew)
		r.offload(r.previous, milan, rome, milansSkew)
	})
	s.Step("they talk, and so do their logs and commands", r.talk)

	s.Step("milan unpeers, by its own liqoctl", func() {
		r.clear(r.previous, milan, rome, milansSkew)
		_, err := r.previous.Liqoctl(s.Context(), "unpeer", "--kubeconfig", milan.Kubeconfig, "--remote-kubeconfig", rome.Kubeconfig)
		s.Must(err)
		s.Gone(milan, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "rome"}}, start)
	})
	s.Step("rome unpeers, by its own", func() {
		r.clear(s.Machine, rome, milan, romesSkew)
		s.Must(s.Unpeer(s.Context(), rome, milan))
		s.Gone(rome, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}, start)
	})
	s.Step("both peer again, each by the liqoctl of the other one", func() {
		s.Must(r.previous.Peer(s.Context(), rome, milan))
		s.Must(s.Machine.Peer(s.Context(), milan, rome))
		r.offload(r.previous, rome, milan, romesSkew)
		r.offload(s.Machine, milan, rome, milansSkew)
		r.talk()
	})
	r.upgrades(before, now)
	s.Step("they talk as before", r.talk)
	s.Step("both unpeer", func() {
		r.clear(s.Machine, rome, milan, romesSkew)
		r.clear(s.Machine, milan, rome, milansSkew)
		_, err := s.Liqoctl(s.Context(), "unpeer", "--kubeconfig", rome.Kubeconfig, "--remote-kubeconfig", milan.Kubeconfig)
		s.Must(err)
		s.Must(s.Unpeer(s.Context(), milan, rome))
	})
	r.again()
	s.Step("uninstall --purge, and every object is as before the installation", func() {
		var group errgroup.Group
		for _, c := range s.Clusters() {
			group.Go(func() error { return s.Uninstall(s.Context(), c, true) })
		}
		s.Must(group.Wait())
		for _, c := range s.Clusters() {
			s.Same(c, s.Empty(c))
		}
	})
}

// upgrades: milan is upgraded to this release by Helm alone, rolled back, and upgraded again by liqoctl. Offloaded pods in both clusters are not affected.
func (r *releases) upgrades(before, now string) {
	s, milan := r.Story, r.Milan
	pods := map[*playground.Cluster][]corev1.Pod{
		s.Rome: append(s.Pods(s.Rome, romesSkew), s.Pods(s.Rome, milansSkew+"-milan")...),
		milan:  append(s.Pods(milan, milansSkew), s.Pods(milan, story.Twin(romesSkew))...),
	}
	untouchedPods := func() {
		s.Helper()
		for c, all := range pods {
			for _, pod := range all {
				untouched(s, pod, *s.PodReady(c, pod.Namespace, pod.Name, start))
			}
		}
		fmt.Printf("             %s\n", r.count())
	}
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "foreignclusters.core.liqo.io"}}
	const older = "of an older release"
	s.Step("helm upgrade brings milan to this release, definitions included", func() {
		// The definitions of both releases may be equal, so make them differ.
		s.Must(milan.Get(s.Context(), client.ObjectKeyFromObject(definition), definition))
		definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = older
		s.Must(milan.Update(s.Context(), definition))
		s.Must(helmUpgrade(s.Context(), s.Machine, milan, map[string]any{
			"liqo-crds":         map[string]any{"crdUpgrade": map[string]any{"enabled": true}},
			"controllerManager": map[string]any{"pod": map[string]any{"labels": map[string]any{"team": "blue"}}},
		}))
		r.runs(milan, now)
		s.Must(milan.Get(s.Context(), client.ObjectKeyFromObject(definition), definition))
		if said := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Description; said == older {
			s.Errorf("%s was not upgraded", definition.Name)
		}
		s.Only(milan, api.Namespace, client.MatchingLabels{"app.kubernetes.io/name": "controller-manager", "team": "blue"})
		s.NodeReady("milan", true, start)
	})
	s.Step("the pods took no notice", untouchedPods)
	s.Step("helm rollback brings the release before back", func() {
		s.Must(helmRollback(milan))
		r.runs(milan, before)
		s.NodeReady("milan", true, start)
	})
	s.Step("the pods took no notice of that either", untouchedPods)
	upgrade := func(flags ...string) (string, error) {
		return s.Liqoctl(s.Context(), append([]string{"upgrade", "--kubeconfig", milan.Kubeconfig}, flags...)...)
	}
	s.Step("liqoctl upgrade to images that do not exist is rolled back", func() {
		said, err := upgrade("--set", "tag=v0.0.0-nowhere", "--timeout", "20s")
		if err == nil {
			s.Fatalf("milan was upgraded to images that do not exist:\n%s", said)
		}
		for _, want := range []string{"timed out (--timeout)", "v0.0.0-nowhere", "Rolled back to version " + before} {
			if !strings.Contains(said, want) {
				s.Errorf("it does not say %q:\n%s", want, said)
			}
		}
		r.runs(milan, before)
		s.NodeReady("milan", true, start)
	})
	s.Step("the pods took no notice of that", untouchedPods)
	s.Step("liqoctl upgrade brings milan to this release, after a dry run that does not", func() {
		file := filepath.Join(s.Dir, "more-values.yaml")
		s.Must(os.WriteFile(file, []byte("controllerManager: {pod: {labels: {team: green}}}\n"), 0o600))
		flags := []string{"--values", file, "--set", "controllerManager.pod.labels.tier=test"}
		said, err := upgrade(append(flags, "--dry-run")...)
		s.Must(err)
		if !strings.Contains(said, "nothing was changed") {
			s.Errorf("the dry run says:\n%s", said)
		}
		r.runs(milan, before)
		_, err = upgrade(flags...)
		s.Must(err)
		r.runs(milan, now)
		s.Only(milan, api.Namespace, client.MatchingLabels{"app.kubernetes.io/name": "controller-manager", "team": "green", "tier": "test"})
		s.NodeReady("milan", true, start)
	})
	s.Step("nor of that", untouchedPods)
}

// again: an uninstallation without --purge keeps CRDs and namespaces, and Liqo can be installed again.
func (r *releases) again() {
	s, rome, milan := r.Story, r.Rome, r.Milan
	s.Step("liqoctl uninstall in rome, helm uninstall in milan", func() {
		s.Must(s.Uninstall(s.Context(), rome, false))
		s.Must(helmUninstall(milan))
		for _, c := range s.Clusters() {
			installed, err := s.Installed(s.Context(), c)
			s.Must(err)
			if !installed {
				s.Errorf("the definitions of %s are gone", c.ID)
			}
			s.Must(c.Get(s.Context(), key(api.Namespace), &corev1.Namespace{}))
			s.Eventually(start, c.ID+" to run nothing of ours", func(ctx context.Context) error {
				pods, err := r.ours(ctx, c)
				if err == nil && len(pods) > 0 {
					err = fmt.Errorf("it runs %v", story.Names(pods))
				}
				return err
			})
		}
	})
	s.Step("install, peer, run a pod and unpeer", func() {
		var group errgroup.Group
		for _, c := range s.Clusters() {
			group.Go(func() error { return s.Machine.Install(s.Context(), c) })
		}
		s.Must(group.Wait())
		s.Must(s.Machine.Peer(s.Context(), rome, milan))
		r.offload(s.Machine, rome, milan, romesSkew)
		r.clear(s.Machine, rome, milan, romesSkew)
		s.Must(s.Unpeer(s.Context(), rome, milan))
	})
}

// offload offloads a namespace of a consumer, with liqoctl of a build. The namespace has a server in the consumer and another one in the provider, and a client
// in the provider that sends requests to the server in the consumer repeatedly.
func (r *releases) offload(by playground.Machine, consumer, provider *playground.Cluster, ns string) {
	s := r.Story
	s.Helper()
	s.Must(consumer.Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
	_, err := by.Liqoctl(s.Context(), "offload", "namespace", ns, "--kubeconfig", consumer.Kubeconfig)
	s.Must(err)
	home := story.PodOn(consumer.Node(), ns, "home", playground.TestServer)
	client := story.PodOn(provider.ID, ns, "client", playground.Shell, story.Asking("http://home:8080/healthz")...)
	for _, pod := range []*corev1.Pod{home, story.PodOn(provider.ID, ns, "there", playground.TestServer), client} {
		s.Must(consumer.Create(s.Context(), pod))
	}
	for _, name := range []string{"home", "there"} {
		s.Must(consumer.Create(s.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 8080, TargetPort: intstr.FromInt32(8080)}}},
		}))
	}
	s.PodsReady(consumer, ns, 3, start)
}

// clear unoffloads and deletes such a namespace.
func (r *releases) clear(by playground.Machine, consumer, provider *playground.Cluster, ns string) {
	s := r.Story
	s.Helper()
	// Delete the pods first. Otherwise Kubernetes needs a second attempt to delete the namespace, after a delay.
	zero := int64(0)
	s.Must(consumer.DeleteAllOf(s.Context(), &corev1.Pod{}, client.InNamespace(ns), &client.DeleteAllOfOptions{DeleteOptions: client.DeleteOptions{GracePeriodSeconds: &zero}}))
	s.Eventually(start, "no pod in namespace "+ns, func(ctx context.Context) error {
		pods, err := s.TryPods(ctx, consumer, ns)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("there are %v", story.Names(pods))
		}
		return err
	})
	_, err := by.Liqoctl(s.Context(), "unoffload", "namespace", ns, "--kubeconfig", consumer.Kubeconfig)
	s.Must(err)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	s.Must(consumer.Delete(s.Context(), namespace))
	s.Gone(consumer, namespace, time.Minute)
	s.Gone(provider, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns + "-" + consumer.ID}}, time.Minute)
}

// talk checks that the servers in both clusters reach each other by the names of their Services, and that logs and exec work.
func (r *releases) talk() {
	s := r.Story
	s.Helper()
	for _, side := range []struct {
		consumer, provider *playground.Cluster
		ns                 string
	}{{s.Rome, s.Milan, romesSkew}, {s.Milan, s.Rome, milansSkew}} {
		for from, to := range map[string]string{"home": "there", "there": "home"} {
			s.Eventually(start, fmt.Sprintf("pod %s of %s to reach %s", from, side.consumer.ID, to), func(ctx context.Context) error {
				said := s.Exec(side.consumer, story.WebSocket, side.ns, from, "", "/testserver", "get", "-timeout", "2s", "http://"+to+":8080/healthz")
				if said.Code != 0 {
					return fmt.Errorf("%+v", said)
				}
				return nil
			})
		}
		if said := s.Logs(side.consumer, side.ns, "there", corev1.PodLogOptions{}); !strings.Contains(said, "serving") {
			s.Errorf("logs of %s's pod in %s: %q", side.consumer.ID, side.provider.ID, said)
		}
	}
}

// count returns a summary of the output of the clients.
func (r *releases) count() string {
	s := r.Story
	s.Helper()
	text := ""
	for _, side := range []struct {
		consumer *playground.Cluster
		ns       string
	}{{s.Rome, romesSkew}, {s.Milan, milansSkew}} {
		answers, _ := s.Answers(side.consumer, side.ns, "client")
		text += side.consumer.ID + ": " + answers + "; "
	}
	return strings.TrimSuffix(text, "; ")
}

// runs waits until all pods of Liqo in a cluster are ready and have this version.
func (r *releases) runs(c *playground.Cluster, version string) {
	s := r.Story
	s.Helper()
	s.Eventually(90*time.Second, fmt.Sprintf("all of %s to be of version %s", c.ID, version), func(ctx context.Context) error {
		pods, err := r.ours(ctx, c)
		if err != nil {
			return err
		}
		if len(pods) < 3 { // controller manager, network agent and proxy; with peers also virtual kubelets and gateways
			return fmt.Errorf("it runs only %v", story.Names(pods))
		}
		for _, pod := range pods {
			if image := pod.Spec.Containers[0].Image; !strings.HasSuffix(image, ":"+version) || !story.Ready(pod) {
				return fmt.Errorf("pod %s/%s is of image %s, Ready: %t", pod.Namespace, pod.Name, image, story.Ready(pod))
			}
		}
		return nil
	})
}

// ours returns the pods of Liqo's programs.
func (r *releases) ours(ctx context.Context, c *playground.Cluster) (found []corev1.Pod, err error) {
	pods, err := r.TryPods(ctx, c, metav1.NamespaceAll)
	for _, pod := range pods {
		if strings.Contains(pod.Spec.Containers[0].Image, "/liqo/") {
			found = append(found, pod)
		}
	}
	return found, err
}
