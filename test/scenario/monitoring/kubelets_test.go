package monitoring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

const (
	// scraper is the ServiceAccount of Prometheus in the guide, and its role.
	scraperNamespace, scraper, scraperRole = "monitoring", "prometheus", "scrape-kubelets"
	// states is the address of the substitute for kube-state-metrics, in the network of a node.
	states = "127.0.0.1:9098"
	// measured is how long it may take until rome has two values of a pod. The metrics server of milan measures every 10 s.
	measured = 2 * time.Minute
	// kubeletInterval is the time between two scrapes of a kubelet.
	kubeletInterval = 3 * interval
	// usageOff is the tolerated relative difference of CPU usage, memoryOff that of memory usage if the difference is more than 2 MiB.
	usageOff, memoryOff = 0.2, 0.25
)

// computing returns a pod in milan that uses a steady share of a CPU, and memory.
func computing(ns string) *corev1.Pod {
	pod := story.PodOn("milan", ns, "computes", playground.Shell, "sh", "-c", "head -c 16777216 /dev/zero >/tmp/ballast; while :; do :; done")
	pod.Spec.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}}
	c := &pod.Spec.Containers[0]
	c.VolumeMounts = []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}}
	cpu := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	c.Resources = corev1.ResourceRequirements{Requests: cpu, Limits: cpu}
	return pod
}

// kubelets represents the scrapes of the kubelets of both clusters, including the virtual one.
type kubelets struct {
	*story.Story
	rome, milan prometheus
	server      *http.Server
}

// scrapeKubelets has each Prometheus scrape all nodes of its cluster, with the permissions of the guide.
func scrapeKubelets(s *story.Story, both []prometheus) *kubelets {
	s.Helper()
	k := &kubelets{Story: s, rome: both[0], milan: both[1]}
	guide, err := os.ReadFile(filepath.Join(s.Root, "docs", "guide", "monitoring.md"))
	s.Must(err)
	commands := regexp.MustCompile("(?s)\n```bash\n(kubectl create clusterrole .*?)```").FindSubmatch(guide)
	if commands == nil {
		s.Fatal("docs/guide/monitoring.md does not say how Prometheus may read the metrics of kubelets")
	}
	for _, p := range both {
		s.Must(p.c.Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: scraperNamespace}}))
		s.Must(p.c.Create(s.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: scraperNamespace, Name: scraper}}))
		_, err := s.Shell(s.Context(), p.c, string(commands[1]))
		s.Must(err)
	}
	for _, p := range both {
		p.mayScrape()
		var nodes corev1.NodeList
		s.Must(p.c.List(s.Context(), &nodes))
		request, err := p.c.Set.CoreV1().ServiceAccounts(scraperNamespace).CreateToken(s.Context(), scraper, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		s.Must(err)
		folder := folderOf(s.World, p.c)
		s.Must(os.WriteFile(tokenFile(folder), []byte(request.Status.Token), 0o600))
		s.Must(replace(nodesFile(folder), nodeTargets(nodes.Items)))
	}
	k.state()
	return k
}

// mayScrape waits until Prometheus has permission for metrics of nodes, and for nothing else. Kubelets cache a denied permission for 30 s.
func (p prometheus) mayScrape() {
	p.Helper()
	allowed := func(ctx context.Context, resource, subresource string) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + scraperNamespace + ":" + scraper,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Version: "v1", Resource: resource, Subresource: subresource},
		}}
		err := p.c.Create(ctx, review)
		return review.Status.Allowed, err
	}
	p.Eventually(start, "the permission to be in force", func(ctx context.Context) error {
		if is, err := allowed(ctx, "nodes", "metrics"); err != nil || is {
			return err
		}
		return errors.New("it is not")
	})
	for _, other := range []string{"proxy", "stats", "pods", "configz"} {
		if is, err := allowed(p.Context(), "nodes", other); err != nil || is {
			p.Errorf("the account of Prometheus may read nodes/%s: %t, %v", other, is, err)
		}
	}
}

// nodeTargets returns the nodes as targets, as the discovery roles node and endpoints find them. The latter finds them in the Service "kubelet", in which the
// Prometheus Operator lists all nodes with the port of kubelets.
func nodeTargets(nodes []corev1.Node) []target {
	all := []target{}
	for _, node := range nodes {
		i := slices.IndexFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP })
		all = append(all, target{[]string{net.JoinHostPort(node.Status.Addresses[i].Address, "10250")}, map[string]string{
			"__meta_kubernetes_node_name": node.Name,
			"__meta_kubernetes_namespace": "kube-system", "__meta_kubernetes_service_name": "kubelet", "__meta_kubernetes_service_label_app_kubernetes_io_name": "kubelet",
			"__meta_kubernetes_endpoint_port_name": "https-metrics", "__meta_kubernetes_endpoint_address_target_kind": "Node",
			"__meta_kubernetes_endpoint_address_target_name": node.Name,
		}})
	}
	return all
}

// state serves the metrics with which kube-state-metrics would show the node of each pod of rome.
func (k *kubelets) state() {
	k.Helper()
	node, err := playground.InNode(k.Rome.Node())
	k.Must(err)
	listener, err := node.Listen(k.Context(), "tcp4", states)
	k.Must(err)
	k.server = &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var pods corev1.PodList
		if err := k.Rome.List(r.Context(), &pods); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		for _, pod := range pods.Items {
			_, _ = fmt.Fprintf(w, "kube_pod_info{namespace=%q,pod=%q,node=%q,uid=%q} 1\n", pod.Namespace, pod.Name, pod.Spec.NodeName, pod.UID)
		}
	})}
	go func() { _ = k.server.Serve(listener) }() // ends with remove
	k.Cleanup(func() { _ = k.server.Close() })
	k.Must(replace(statesFile(folderOf(k.World, k.Rome)), []target{{[]string{states}, map[string]string{}}}))
}

// remove ends the scrapes and removes the permissions.
func (k *kubelets) remove() {
	k.Helper()
	for _, p := range []prometheus{k.rome, k.milan} {
		folder := folderOf(k.World, p.c)
		k.Must(errors.Join(replace(nodesFile(folder), []target{}), replace(statesFile(folder), []target{})))
		for _, object := range []client.Object{
			&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: scraperRole}}, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: scraperRole}},
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: scraperNamespace}},
		} {
			k.Must(p.c.Delete(k.Context(), object))
		}
	}
	_ = k.server.Close()
}

const (
	// cadvisor selects series of containers from the job of kube-prometheus. Series of pause containers have no container name.
	cadvisor = `job="kubelet",metrics_path="/metrics/cadvisor",image!="",container!=""`
	// virtual selects the series of the virtual node among them.
	virtual = cadvisor + `,node="milan"`
)

// container identifies a container.
type container struct{ pod, name string }

// areTrue checks the series that the jobs have for the pods of a namespace of rome on the virtual node.
func (k *kubelets) areTrue(ns string, l *load) {
	k.Helper()
	began := time.Now()
	for _, p := range []prometheus{k.rome, k.milan} {
		p.allUp()
	}
	stable := map[container]corev1.Pod{}
	for _, pod := range k.Pods(k.Rome, ns) {
		if app := pod.Labels["app"]; app == "web" || app == "computes" {
			stable[container{pod.Name, "main"}] = pod
		}
	}
	if len(stable) != running {
		k.Fatalf("there are %d pods, want %d", len(stable), running)
	}
	k.Eventually(measured, "the usage of all pods in milan", func(ctx context.Context) error { return k.complete(ctx, ns, stable) })
	k.onceEach()
	// A failed scrape ends the series of its target until the next scrape.
	k.Eventually(measured, "the series of both clusters to be the same", func(ctx context.Context) error {
		return errors.Join(k.onlyOwn(ctx, ns), k.labelled(ctx, ns, stable))
	})
	k.Eventually(measured, "the values of the virtual node to be those of the provider's kubelet", func(ctx context.Context) error {
		return errors.Join(k.memory(ctx, ns, stable), k.cpu(ctx, ns))
	})
	k.recorded(ns, stable)
	k.runningPods(l, began)
	for _, p := range []prometheus{k.rome, k.milan} {
		p.noBadSamples()
	}
}

// allUp waits until each path of each node was scraped without an error.
func (p prometheus) allUp() {
	p.Helper()
	var nodes corev1.NodeList
	p.Must(p.c.List(p.Context(), &nodes))
	p.Eventually(measured, "all kubelets in "+p.c.ID+" to be scraped", func(ctx context.Context) error {
		var data struct {
			ActiveTargets []struct {
				Labels            map[string]string
				Health, LastError string
			}
		}
		if err := p.read(ctx, "targets", map[string]string{"state": "active"}, &data); err != nil {
			return err
		}
		up := map[string]bool{}
		for _, t := range data.ActiveTargets {
			job := t.Labels["job"]
			if job != "kubelet" && job != "kubelets" && job != "kube-state-metrics" {
				continue
			}
			if t.Health != "up" || t.LastError != "" {
				return fmt.Errorf("%v is %s: %s", t.Labels, t.Health, t.LastError)
			}
			up[t.Labels["node"]+t.Labels["metrics_path"]] = true
		}
		for _, node := range nodes.Items {
			for _, path := range append(kubeletPaths, "") {
				if !up[node.Name+path] {
					return fmt.Errorf("%s%s was not scraped: %v", node.Name, path, up)
				}
			}
		}
		failed, err := p.query(ctx, `container_scrape_error != 0`)
		if err == nil && len(failed) > 0 {
			err = fmt.Errorf("%v", failed)
		}
		return err
	})
}

// complete checks that the virtual node reports the usage of exactly its own pods. Pods that are not in stable may be missing.
func (k *kubelets) complete(ctx context.Context, ns string, stable map[container]corev1.Pod) error {
	for _, metric := range []string{"container_memory_working_set_bytes", "container_cpu_usage_seconds_total", "container_start_time_seconds"} {
		all, err := k.rome.query(ctx, metric+`{`+virtual+`}`)
		if err != nil {
			return err
		}
		found := map[container]bool{}
		for _, s := range all {
			key := container{s.Labels["pod"], s.Labels["container"]}
			if _, is := stable[key]; (!is && !strings.HasPrefix(key.pod, "churn-")) || s.Labels["namespace"] != ns {
				return fmt.Errorf("the virtual node reports %s of %v", metric, s.Labels)
			}
			found[key] = true
		}
		for key := range stable {
			if !found[key] {
				return fmt.Errorf("the virtual node reports no %s of %s", metric, key.pod)
			}
		}
	}
	return nil
}

// onceEach checks that no container of rome is reported by both the virtual node and a real one.
func (k *kubelets) onceEach() {
	k.Helper()
	twice, err := k.rome.query(k.Context(), `count by (namespace, pod, container) (container_memory_working_set_bytes{`+cadvisor+`}) > 1`)
	k.Must(err)
	if len(twice) > 0 {
		k.Errorf("reported more than once are %v", twice)
	}
}

// onlyOwn checks that the real node of rome reports its own pod of the namespace, and no pod of the virtual node.
func (k *kubelets) onlyOwn(ctx context.Context, ns string) error {
	own, err := k.rome.byLabel(ctx, "pod", fmt.Sprintf(`container_memory_working_set_bytes{%s,node=%q,namespace=%q}`, cadvisor, k.Rome.Node(), ns))
	if got := slices.Collect(maps.Keys(own)); err == nil && !slices.Equal(got, []string{"home"}) {
		err = fmt.Errorf("the real node of rome reports %v in namespace %s, want its own pod only", got, ns)
	}
	return err
}

// labelled checks that series have the same labels as those of the provider's kubelet. The label id, which names the cgroup, is excepted.
func (k *kubelets) labelled(ctx context.Context, ns string, stable map[container]corev1.Pod) error {
	var problems []error
	for _, metric := range []string{"container_memory_working_set_bytes", "container_cpu_usage_seconds_total", "container_start_time_seconds"} {
		there, err := k.milan.query(ctx, fmt.Sprintf(`%s{%s,namespace=%q}`, metric, cadvisor, story.Twin(ns)))
		if err != nil {
			return err
		}
		here, err := k.rome.query(ctx, metric+`{`+virtual+`}`)
		if err != nil {
			return err
		}
		want := map[container]map[string]string{}
		for _, s := range there {
			want[container{s.Labels["pod"], s.Labels["container"]}] = s.Labels
		}
		found := map[container]bool{}
		for _, s := range here {
			key := container{s.Labels["pod"], s.Labels["container"]}
			pod, is := stable[key]
			if !is {
				continue
			}
			found[key] = true
			of := maps.Clone(want[key])
			delete(of, "id")
			if got, want := slices.Sorted(maps.Keys(s.Labels)), slices.Sorted(maps.Keys(of)); !slices.Equal(got, want) {
				problems = append(problems, fmt.Errorf("%s of %s has the labels %v, the provider's kubelet gives it %v", metric, key.pod, got, want))
			}
			_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
			if s.Labels["name"] != id || of["name"] != id || s.Labels["cpu"] != of["cpu"] || s.Labels["image"] == "" {
				problems = append(problems, fmt.Errorf("%s of %s has the labels %v, the provider's kubelet gives it %v", metric, key.pod, s.Labels, of))
			}
		}
		if len(found) != len(stable) {
			problems = append(problems, fmt.Errorf("the virtual node reports %s of %d containers, want %d", metric, len(found), len(stable)))
		}
	}
	return errors.Join(problems...)
}

// memory compares the memory usage that the virtual node and the provider's kubelet report for each pod.
func (k *kubelets) memory(ctx context.Context, ns string, stable map[container]corev1.Pod) error {
	here, err := k.rome.byLabel(ctx, "pod", `container_memory_working_set_bytes{`+virtual+`}`)
	if err != nil {
		return err
	}
	there, err := k.milan.byLabel(ctx, "pod", fmt.Sprintf(`container_memory_working_set_bytes{%s,namespace=%q}`, cadvisor, story.Twin(ns)))
	if err != nil {
		return err
	}
	for key := range stable {
		got, want := here[key.pod], there[key.pod]
		if want == 0 || max(got, want)-min(got, want) > max(2<<20, want*memoryOff) || key.pod == "computes" && got < 16<<20 {
			return fmt.Errorf("%s uses %.0f bytes in rome and %.0f in milan", key.pod, got, want)
		}
	}
	return nil
}

// cpu compares the CPU time that the virtual node and the provider's kubelet report for the computing pod between the same times. It reads the samples of the
// guide's job, because their timestamps are the times of the measurements.
func (k *kubelets) cpu(ctx context.Context, ns string) error {
	counted := func(p prometheus, namespace string) ([]point, error) {
		all, err := p.ranged(ctx, fmt.Sprintf(`container_cpu_usage_seconds_total{job="kubelets",namespace=%q,pod="computes",container="main"}[5m]`, namespace))
		if err == nil && (len(all) != 1 || len(all[0].points) < 2) {
			err = fmt.Errorf("%s has counted %+v", p.c.ID, all)
		}
		if err != nil {
			return nil, err
		}
		return all[0].points, nil
	}
	here, err := counted(k.rome, ns)
	if err != nil {
		return err
	}
	there, err := counted(k.milan, story.Twin(ns))
	if err != nil {
		return err
	}
	// Compare only the time for which both rome and milan have samples.
	here = slices.DeleteFunc(here, func(p point) bool { return p.began.Before(there[0].began) || p.began.After(there[len(there)-1].began) })
	if len(here) < 2 {
		return fmt.Errorf("rome has measured %d times while milan did", len(here))
	}
	first, last := here[0], here[len(here)-1]
	span := last.began.Sub(first.began).Seconds()
	got, want := (last.value-first.value)/span, (at(there, last.began)-at(there, first.began))/span
	if got < want*(1-usageOff) || got > want*(1+usageOff) || got < 0.01 {
		return fmt.Errorf("in %.1f s, pod computes used %.3f CPUs in rome and %.3f in milan", span, got, want)
	}
	fmt.Printf("             in %.1f s, pod computes used %.3f CPUs, %.3f by the provider's kubelet\n", span, got, want)
	return nil
}

// at interpolates the value of a counter at a time between two samples.
func at(points []point, moment time.Time) float64 {
	i := slices.IndexFunc(points, func(p point) bool { return !p.began.Before(moment) })
	if i <= 0 || points[i].began.Equal(moment) {
		return points[max(i, 0)].value
	}
	before, after := points[i-1], points[i]
	return before.value + (after.value-before.value)*float64(moment.Sub(before.began))/float64(after.began.Sub(before.began))
}

// recorded checks that the recording rules of kube-prometheus have results for each pod on the virtual node.
func (k *kubelets) recorded(ns string, stable map[container]corev1.Pod) {
	k.Helper()
	for rule, least := range map[string]float64{
		"node_namespace_pod_container:container_memory_working_set_bytes": 16 << 20, "node_namespace_pod_container:container_cpu_usage_seconds_total:sum_irate": 0.01,
	} {
		k.Eventually(measured, "a value of "+rule+" for each pod", func(ctx context.Context) error {
			all, err := k.rome.query(ctx, fmt.Sprintf(`%s{namespace=%q,node="milan",container="main"}`, rule, ns))
			if err != nil {
				return err
			}
			found := map[container]float64{}
			for _, s := range all {
				found[container{s.Labels["pod"], s.Labels["container"]}] += s.Value
			}
			for key := range stable {
				if _, is := found[key]; !is || key.pod == "computes" && found[key] < least {
					return fmt.Errorf("of %s it is %g: %v", key.pod, found[key], found)
				}
			}
			return nil
		})
	}
}

// runningPods checks that each scrape since began counted the running pods of the virtual node as they were at that time.
func (k *kubelets) runningPods(l *load, began time.Time) {
	k.Helper()
	var all []series
	k.Eventually(start, "two scrapes of the virtual node", func(ctx context.Context) (err error) {
		all, err = k.rome.since(ctx, began, `kubelet_running_pods{job="kubelet",metrics_path="/metrics",node="milan"}`)
		if err == nil && (len(all) != 1 || len(all[0].points) < 2) {
			err = fmt.Errorf("the virtual node reports its running pods as %+v", all)
		}
		return err
	})
	for _, one := range all[0].points {
		truth := l.around(one)
		if !slices.ContainsFunc(truth, func(pods map[string]float64) bool { return pods[string(corev1.PodRunning)] == one.value }) {
			k.Errorf("at %s the virtual node reports %v running pods, and they were %v", one.began, one.value, truth)
		}
	}
}

// noBadSamples checks that Prometheus has rejected no sample because it contradicts another one.
func (p prometheus) noBadSamples() {
	p.Helper()
	request, err := http.NewRequestWithContext(p.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
	p.Must(err)
	response, err := p.client.Do(request)
	p.Must(err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	p.Must(err)
	for _, kind := range []string{"duplicate_timestamp", "out_of_order", "out_of_bounds"} {
		if want := "\nprometheus_target_scrapes_sample_" + kind + "_total 0\n"; !strings.Contains(string(text), want) {
			p.Errorf("Prometheus of %s refused samples: %s", p.c.ID, regexp.MustCompile(`(?m)^prometheus_target_scrapes_sample_.*$`).FindAllString(string(text), -1))
		}
	}
}

// replace writes a file of targets atomically, so that Prometheus never reads half of it.
func replace(file string, targets []target) error {
	text, err := json.Marshal(targets)
	if err != nil {
		return err
	}
	fresh := file + ".new"
	if err := os.WriteFile(fresh, text, 0o644); err != nil {
		return err
	}
	return os.Rename(fresh, file)
}
