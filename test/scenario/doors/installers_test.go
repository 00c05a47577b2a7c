package doors

import (
	"context"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/install"
	"liqo.io/liqo/test/scenario/story"
)

// twoInstallers: while one administrator installs Liqo in naples, a second one runs liqoctl install too. The second command is refused, names the holder of the
// lock, and changes nothing. The first installation completes, and later stories use it.
func twoInstallers(s *story.Story) {
	naples := s.Naples
	const scheduler = "kube-scheduler"
	component := func(ctx context.Context, verb string) error {
		_, err := s.Playground(ctx, verb, "component", scheduler, "--node", naples.Node())
		return err
	}
	// Install with the flags that later stories expect. The first installation runs beside checks, and must not end with one of them.
	ctx := s.Context()
	command := func(flags ...string) (string, error) {
		planned := append([]string{"install", "--kubeconfig", naples.Kubeconfig, "--cluster-id", naples.ID}, s.Plan.Install[naples.ID]...)
		return s.Liqoctl(ctx, append(planned, flags...)...)
	}

	var said string
	var err error
	first := make(chan struct{})
	lease := &coordinationv1.Lease{}
	lock := client.ObjectKey{Namespace: api.Namespace, Name: install.LockName}
	s.Step("the first installation waits for its pods, which nobody schedules yet", func() {
		s.Must(component(s.Context(), "stop"))
		s.Cleanup(func() { _ = component(context.WithoutCancel(s.Context()), "start") })
		go func() {
			defer close(first)
			said, err = command()
		}()
		s.Eventually(start, "the first installation to wait for its pods", func(ctx context.Context) error {
			if err := naples.Get(ctx, lock, lease); err != nil {
				return err
			}
			return naples.Get(ctx, client.ObjectKey{Namespace: api.Namespace, Name: "liqo-controller-manager"}, &appsv1.Deployment{})
		})
	})
	s.Step("the second one is refused within 15 s, and names the holder of the lock", func() {
		began := time.Now()
		refusal, refused := command("--set-string", "auth.service.labels."+second+"=yes")
		if took := time.Since(began); refused == nil || took > 15*time.Second {
			s.Errorf("the second installation ended after %v with the error %v", took, refused)
		}
		for _, want := range []string{
			"the installation in namespace liqo is being changed by " + *lease.Spec.HolderIdentity, "since " + lease.Spec.AcquireTime.UTC().Format(time.RFC3339),
			"wait until it ends, then run the command again",
		} {
			if !strings.Contains(refusal, want) {
				s.Errorf("the second installation does not say %q:\n%s", want, refusal)
			}
		}
		select {
		case <-first:
			s.Errorf("the first installation ended when the second one began: %v", err)
		default:
		}
	})
	s.Step("the first one completes", func() {
		s.Must(component(s.Context(), "start"))
		<-first
		s.Must(err)
		if want := "All Set! This cluster is naples"; !strings.Contains(said, want) {
			s.Errorf("it does not say %q:\n%s", want, said)
		}
		whole(s)
	})
}

// second is a label that only the second installation would set on a Service.
const second = "second"

// whole checks that naples has only the first installation: a single healthy release of Helm, and a free lock.
func whole(s *story.Story) {
	s.Helper()
	naples := s.Naples
	var releases corev1.SecretList
	s.Must(naples.List(s.Context(), &releases, client.InNamespace(api.Namespace), client.MatchingLabels{"owner": "helm"}))
	if len(releases.Items) != 1 || releases.Items[0].Labels["status"] != "deployed" {
		s.Errorf("Helm has %d releases, want one that is deployed: %v", len(releases.Items), releases.Items[0].Labels)
	}
	var service corev1.Service
	s.Must(naples.Get(s.Context(), client.ObjectKey{Namespace: api.Namespace, Name: "liqo-auth"}, &service))
	if got, is := service.Labels[second]; is {
		s.Errorf("Service %s has the label %s=%s of the second installation", service.Name, second, got)
	}
	var locks coordinationv1.LeaseList
	s.Must(naples.List(s.Context(), &locks, client.InNamespace(api.Namespace)))
	for _, lease := range locks.Items {
		if lease.Name == install.LockName {
			s.Errorf("%s still holds the lock", *lease.Spec.HolderIdentity)
		}
	}
	if out, err := s.Liqoctl(s.Context(), "doctor", "--kubeconfig", naples.Kubeconfig); err != nil {
		s.Errorf("doctor: %v\n%s", err, out)
	}
}
