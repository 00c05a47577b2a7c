package examples

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

func (p *portables) tokenThatNeverEnds(ctx context.Context) error {
	const cure = "liqo.io/allow-reflection"
	if err := errors.Join(
		p.reported(ctx, "Secret", "robot-credentials", cure),
		p.reported(ctx, "Pod", "agent", "robot-credentials", cure),
		p.kubectl(p.Rome, "annotate secret -n "+p.ns+" robot-credentials "+cure+"=true"),
		p.ready(ctx, "agent"),
	); err != nil {
		return err
	}
	_, err := p.in("agent", "cat", "/credentials/token")
	return err
}

func (p *portables) endpoints(ctx context.Context) error {
	node, err := p.node(ctx, p.Rome.Node())
	if err != nil {
		return err
	}
	for service, address := range map[string]string{"outside": "192.0.2.10", "onhost": internal(node)} {
		ip := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: service}, Spec: ipamv1alpha1.IPSpec{IP: address}}
		if err := errors.Join(p.reported(ctx, "EndpointSlice", service+"-", "IP object", "spec.ip "+address), p.Rome.Create(ctx, ip)); err != nil {
			return err
		}
		if err := soon(ctx, start, func(ctx context.Context) error { return p.hasEndpoint(ctx, service) }); err != nil {
			return err
		}
	}
	return p.answers(ctx, "http://onhost:18080/healthz", "ok")
}

// hasEndpoint returns an error unless milan has an endpoint of a Service.
func (p *portables) hasEndpoint(ctx context.Context, service string) error {
	var list discoveryv1.EndpointSliceList
	if err := p.Milan.List(ctx, &list, client.InNamespace(story.Twin(p.ns)), client.MatchingLabels{discoveryv1.LabelServiceName: service}); err != nil {
		return err
	}
	if !slices.ContainsFunc(list.Items, func(s discoveryv1.EndpointSlice) bool { return len(s.Endpoints) > 0 }) {
		return fmt.Errorf("Service %s has no endpoint in milan", service)
	}
	return nil
}

// answers waits until a pod in milan gets a response that contains word from a URL.
func (p *portables) answers(ctx context.Context, url, word string) error {
	if err := p.ready(ctx, "caller"); err != nil {
		return err
	}
	return soon(ctx, start, func(context.Context) error {
		said, err := p.in("caller", "/testserver", "get", url)
		if err == nil && !strings.Contains(said, word) {
			err = fmt.Errorf("%s answers %q, want %q in it", url, said, word)
		}
		return err
	})
}

func internal(node *corev1.Node) string {
	i := slices.IndexFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP })
	return node.Status.Addresses[i].Address
}

func (p *portables) matchLabelKeys(ctx context.Context) error {
	_, here := p.labelled(ctx, p.Rome, "keys", 2)
	_, there := p.labelled(ctx, p.Milan, "keys", 2)
	return errors.Join(here, there)
}

func (p *portables) resize(ctx context.Context) error {
	if err := errors.Join(p.ready(ctx, "web"), p.kubectl(p.Rome, "patch pod web -n "+p.ns+` --subresource resize -p '{"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "64"}}}]}}'`)); err != nil {
		return err
	}
	if err := soon(ctx, start, func(ctx context.Context) error {
		var pod corev1.Pod
		if err := p.Rome.Get(ctx, client.ObjectKey{Namespace: p.ns, Name: "web"}, &pod); err != nil {
			return err
		}
		if !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodResizePending && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonInfeasible
		}) {
			return fmt.Errorf("want condition PodResizePending with reason Infeasible: %v", pod.Status.Conditions)
		}
		return nil
	}); err != nil {
		return err
	}
	next := story.PodOn("milan", p.ns, "next", playground.TestServer)
	next.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m")}
	return errors.Join(p.Rome.Create(ctx, next), p.ready(ctx, "next"))
}

func (p *portables) rootCA(ctx context.Context) error {
	if err := p.ready(ctx, "trust"); err != nil {
		return err
	}
	var want corev1.ConfigMap
	if err := p.Rome.Get(ctx, client.ObjectKey{Namespace: p.ns, Name: "kube-root-ca.crt"}, &want); err != nil {
		return err
	}
	for _, command := range []string{"cat /ca/ca.crt", `printf %s "$ROOT_CA"`} {
		if got, err := p.in("trust", "sh", "-c", command); err != nil || strings.TrimSpace(got) != strings.TrimSpace(want.Data["ca.crt"]) {
			return errors.Join(err, fmt.Errorf("%s is not the CA of rome: %s", command, got))
		}
	}
	return nil
}

func (p *portables) apiClient(ctx context.Context) error {
	if err := errors.Join(p.ready(ctx, "client"), p.reported(ctx, "Pod", "client", "POD_NAMESPACE", "NODE_NAME", mount+"namespace")); err != nil {
		return err
	}
	// The pod requests a path of its own namespace with its own ServiceAccount.
	ask := func(host, group, what string) (string, error) {
		said, err := p.in("client", "sh", "-c", fmt.Sprintf(
			`testserver curl -s -H "Authorization: Bearer $(cat %stoken)" https://%s/%s/namespaces/$(cat %snamespace)/%s`, mount, host, group, mount, what))
		return strings.ReplaceAll(said, " ", ""), err
	}
	var problems []error
	for _, name := range []string{"kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"} {
		if said, err := ask(name, "api/v1", "pods/client"); err != nil || !strings.Contains(said, `"namespace":"portable"`) {
			problems = append(problems, err, fmt.Errorf("the API server by the name %s: %.300s", name, said))
		}
	}
	// Clients elect a leader with a Lease, which the ServiceAccount may write in its own namespace only.
	if said, err := ask("kubernetes.default", "apis/coordination.k8s.io/v1", "leases"); err != nil || !strings.Contains(said, `"kind":"LeaseList"`) {
		problems = append(problems, err, fmt.Errorf("listing Leases: %.300s", said))
	}
	return errors.Join(problems...)
}

func (p *portables) tokenMode(ctx context.Context) error {
	for _, name := range []string{"reader-here", "reader-there"} {
		if err := soon(ctx, start, func(ctx context.Context) error {
			said, err := p.Rome.Set.CoreV1().Pods(p.ns).GetLogs(name, &corev1.PodLogOptions{}).DoRaw(ctx)
			if err == nil && !strings.Contains(string(said), "readable") {
				err = fmt.Errorf("pod %s says %q", name, said)
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

func (p *portables) topologyKey(ctx context.Context) error {
	pods, err := p.labelled(ctx, p.Rome, "sites", 2)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.Spec.NodeName == "milan" })
	if i < 0 {
		return fmt.Errorf("none of the pods %v is on node milan", story.Names(pods))
	}
	return p.reported(ctx, "Pod", pods[i].Name, `topologyKey "example.org/site"`)
}

// sysctl: the program listens on a low port without being root, which only works because of the sysctl.
func (p *portables) sysctl(ctx context.Context) error {
	if err := p.ready(ctx, "low-port"); err != nil {
		return err
	}
	var there corev1.Pod
	if err := p.there(ctx, "low-port", &there); err != nil {
		return err
	}
	return p.answers(ctx, "http://"+net.JoinHostPort(there.Status.PodIP, "80")+"/healthz", "ok")
}

func (p *portables) externalName(ctx context.Context) error {
	var service corev1.Service
	if err := p.there(ctx, "db", &service); err != nil {
		return err
	}
	if want := "store." + story.Twin(p.db) + ".svc.cluster.local"; service.Spec.ExternalName != want {
		return fmt.Errorf("Service db is for %q in milan, want %q", service.Spec.ExternalName, want)
	}
	if err := p.there(ctx, "elsewhere", &service); !apierrors.IsNotFound(err) {
		return errors.Join(errors.New("milan has Service elsewhere, whose name leads to a namespace of milan's own"), err)
	}
	return errors.Join(
		p.answers(ctx, "http://db:8080/whoami", `"store"`),
		p.reported(ctx, "Service", "elsewhere", "namespace default is not offloaded", "liqoctl offload namespace default"))
}

func (p *portables) tokenName(ctx context.Context) error {
	if err := p.ready(ctx, "vault"); err != nil {
		return err
	}
	if said, err := p.in("vault", "cat", "/mine/token"); err != nil || said != "mine" {
		return errors.Join(err, fmt.Errorf("the user's Secret says %q", said))
	}
	said, err := p.in("vault", "cat", mount+"token")
	if err == nil && strings.Count(said, ".") != 2 {
		err = fmt.Errorf("the token of the pod is %q", said)
	}
	return err
}

func (p *portables) zone(ctx context.Context) error {
	const label = corev1.LabelTopologyZone
	var here, there corev1.Pod
	if err := errors.Join(p.Rome.Get(ctx, client.ObjectKey{Namespace: p.ns, Name: "trust"}, &here), p.there(ctx, "trust", &there)); err != nil {
		return err
	}
	if here.Labels[label] != "north" || there.Labels[label] != "m-a" {
		return fmt.Errorf("label %s is %q in rome, want north, and %q in milan, want m-a", label, here.Labels[label], there.Labels[label])
	}
	return nil
}

// kubeletReader compares the responses of a real node and the virtual node of rome to an account with permissions for some kubelet endpoints.
func (p *portables) kubeletReader(ctx context.Context) error {
	token, err := p.Rome.Set.CoreV1().ServiceAccounts(p.ns).CreateToken(ctx, "kubelet-reader", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := p.ready(ctx, "onhost"); err != nil {
		return err
	}
	from, err := playground.In(p.Pod(p.Rome, p.ns, "onhost"))
	if err != nil {
		return err
	}
	agent := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // kubelets of the playground sign their certificates themselves
		DialContext:     from.Dial,
	}}
	status := func(name, path string) (int, error) {
		node, err := p.node(ctx, name)
		if err != nil {
			return 0, err
		}
		address := net.JoinHostPort(internal(node), strconv.Itoa(int(node.Status.DaemonEndpoints.KubeletEndpoint.Port)))
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+path, nil)
		if err != nil {
			return 0, err
		}
		request.Header.Set("Authorization", "Bearer "+token.Status.Token)
		response, err := agent.Do(request)
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}
	var problems []error
	for path, want := range map[string]int{
		"/pods": http.StatusOK, "/healthz": http.StatusOK, "/configz": http.StatusOK, "/stats/summary": http.StatusOK, "/metrics": http.StatusOK,
		"/metrics/resource": http.StatusOK, "/metrics/cadvisor": http.StatusOK, "/metrics/probes": http.StatusOK,
		"/logs/": http.StatusForbidden, "/containerLogs/portable/onhost/main": http.StatusForbidden,
	} {
		for _, name := range []string{p.Rome.Node(), "milan"} {
			if got, err := status(name, path); err != nil || got != want {
				problems = append(problems, err, fmt.Errorf("%s of node %s: status %d, want %d", path, name, got, want))
			}
		}
	}
	return errors.Join(problems...)
}

func (p *portables) architecture(ctx context.Context) error {
	became := func(want string) error {
		return soon(ctx, start, func(ctx context.Context) error {
			node, err := p.node(ctx, "milan")
			if err == nil && (node.Status.NodeInfo.Architecture != want || node.Labels[corev1.LabelArchStable] != want) {
				err = fmt.Errorf("node milan is %s, its label %s, want %s", node.Status.NodeInfo.Architecture, node.Labels[corev1.LabelArchStable], want)
			}
			return err
		})
	}
	return errors.Join(
		p.kubectl(p.Rome, "label "+virtualNode()+" kubernetes.io/arch=arm64"), became("arm64"),
		p.kubectl(p.Rome, "label "+virtualNode()+" kubernetes.io/arch-"), became("amd64"))
}

// names: Kubernetes also has ResourceSlices, and also uses the name quota, for ResourceQuotas.
func (p *portables) names(context.Context) error {
	for _, c := range []struct {
		of    *playground.Cluster
		words string
		want  string
	}{
		{p.Rome, "resourceslices.authentication.liqo.io", "resourceslice.authentication.liqo.io/milan"},
		{p.Rome, "rslice", "resourceslice.authentication.liqo.io/milan"},
		{p.Milan, "quotas.offloading.liqo.io", "quota.offloading.liqo.io/"},
		{p.Milan, "qt", "quota.offloading.liqo.io/"},
		{p.Milan, "resourcequotas", "resourcequota/"},
	} {
		said, err := p.Shell(p.Context(), c.of, "kubectl get "+c.words+" -A -o name")
		if err != nil {
			return err
		}
		if !strings.Contains(said, c.want) {
			return fmt.Errorf("kubectl get %s in %s says %q, want %s", c.words, c.of.ID, said, c.want)
		}
	}
	return nil
}

func (p *portables) minReady(ctx context.Context, clock *clockAhead) error {
	return soon(ctx, start, func(ctx context.Context) error {
		var d appsv1.Deployment
		if err := p.Rome.Get(ctx, client.ObjectKey{Namespace: p.ns, Name: "patient"}, &d); err != nil {
			return err
		}
		if d.Status.AvailableReplicas != 1 {
			return fmt.Errorf("status %+v", d.Status)
		}
		return clock.seen(ctx)
	})
}

func (p *portables) budget(ctx context.Context) (err error) {
	if err := soon(ctx, start, func(ctx context.Context) error {
		var budget policyv1.PodDisruptionBudget
		if err := p.there(ctx, "guarded", &budget); err != nil {
			return err
		}
		if budget.Status.DisruptionsAllowed != 1 {
			return fmt.Errorf("the budget in milan allows %d disruptions", budget.Status.DisruptionsAllowed)
		}
		return nil
	}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.kubectl(p.Milan, "uncordon "+p.Milan.Node())) }()
	if err := p.drain("app=guarded", 3*time.Second); err == nil || !strings.Contains(err.Error(), "disruption budget") {
		return errors.Join(errors.New("want a drain that the budget refuses"), err)
	}
	_, err = p.labelled(ctx, p.Milan, "guarded", 1)
	return err
}

// drain makes an administrator of milan drain some pods from its node.
func (p *portables) drain(selector string, timeout time.Duration) error {
	return p.kubectl(p.Milan, fmt.Sprintf("drain %s --ignore-daemonsets --delete-emptydir-data --force --timeout %v --pod-selector %s", p.Milan.Node(), timeout, selector))
}

func (p *portables) job(ctx context.Context) (err error) {
	before, err := p.labelled(ctx, p.Rome, "train", 1)
	if err != nil {
		return err
	}
	name := before[0].Name
	heal := func() error {
		// The story's own context may have ended by now.
		return p.Heal(context.WithoutCancel(ctx), p.Rome, p.Milan)
	}
	p.Cleanup(func() { _ = heal() })
	if err := p.Partition(ctx, p.Rome, p.Milan); err != nil {
		return err
	}
	if err := errors.Join(p.drain("app=train", 20*time.Second), p.kubectl(p.Milan, "uncordon "+p.Milan.Node())); err != nil {
		return errors.Join(err, heal())
	}
	// The pod ended in milan before rome could observe it.
	var here, there corev1.Pod
	err = p.Rome.Get(ctx, client.ObjectKey{Namespace: p.ns, Name: name}, &here)
	if gone := p.there(ctx, name, &there); client.IgnoreNotFound(gone) != nil || gone == nil && there.Status.Phase == corev1.PodRunning {
		err = errors.Join(err, gone, fmt.Errorf("pod %s still runs in milan", name))
	}
	if here.Status.Phase != corev1.PodRunning {
		err = errors.Join(err, fmt.Errorf("rome knows already that pod %s is %s", name, here.Status.Phase))
	}
	if err := errors.Join(err, heal()); err != nil {
		return err
	}
	return soon(ctx, start, func(ctx context.Context) error { return p.disrupted(ctx, name) })
}

// disrupted returns an error unless rome shows the disruption of a pod of the Job, and the Job has another running pod.
func (p *portables) disrupted(ctx context.Context, name string) error {
	var pod corev1.Pod
	if err := p.Rome.Get(ctx, client.ObjectKey{Namespace: p.ns, Name: name}, &pod); err != nil {
		return err
	}
	target := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue
	})
	ended := slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Terminated != nil && c.State.Terminated.ExitCode == 143
	})
	if pod.Status.Phase != corev1.PodFailed || !target || !ended {
		return fmt.Errorf("want pod %s Failed, with DisruptionTarget and exit code 143: %+v", name, pod.Status)
	}
	var job batchv1.Job
	if err := p.Rome.Get(ctx, client.ObjectKey{Namespace: p.ns, Name: "train"}, &job); err != nil {
		return err
	}
	if job.Status.Failed != 0 || job.Status.Ready == nil || *job.Status.Ready != 1 {
		return fmt.Errorf("want a Job that counts no failure and runs another pod: %+v", job.Status)
	}
	return nil
}
