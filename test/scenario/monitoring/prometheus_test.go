package monitoring

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/yaml"

	charts "liqo.io/liqo/charts/liqo"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// interval is the time between two scrapes, and between two evaluations of the rules.
const interval = 2 * time.Second

// address is the address of Prometheus in the network of its node.
const address = "127.0.0.1:9099"

// observers holds a client for the Prometheus of each cluster, which runs in the network of the cluster's node.
type observers map[*playground.Cluster]*http.Client

// observe starts the Prometheus of each cluster. It is Debian's, which is built without service discovery for Kubernetes: the test lists the pods and endpoints
// instead, with the labels that the discovery would set.
func observe(t *testing.T, w *story.World) observers {
	t.Helper()
	all := observers{}
	for _, c := range w.Clusters() {
		folder := folderOf(w, c)
		files, err := configured(w.Root, folder)
		node, missing := playground.InNode(c.Node())
		if err = errors.Join(err, missing, os.Mkdir(folder, 0o755)); err != nil {
			t.Fatal(err)
		}
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		go discover(t.Context(), c, folder)
		var log bytes.Buffer
		program := filepath.Join(w.Root, "bin", "prometheus")
		command := node.Command(t.Context(), program, "--config.file="+filepath.Join(folder, "prometheus.yaml"), "--storage.tsdb.path="+filepath.Join(folder, "data"),
			"--web.listen-address="+address)
		command.Stdout, command.Stderr = &log, &log
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = command.Wait() // it was killed when the test's context ended
			if t.Failed() {
				fmt.Printf("---- Prometheus of %s:\n%s", c.ID, log.String())
			}
		})
		all[c] = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return node.Dial(ctx, "tcp4", address)
		}}}
	}
	return all
}

// folderOf returns the folder with the files of a cluster's Prometheus.
func folderOf(w *story.World, c *playground.Cluster) string {
	return filepath.Join(w.Dir, "prometheus-"+c.ID)
}

// discover keeps the files with the targets up to date. Prometheus watches them.
func discover(ctx context.Context, c *playground.Cluster, folder string) {
	for ; ctx.Err() == nil; pauseFor(ctx, interval/2) {
		var pods corev1.PodList
		var endpoints discoveryv1.EndpointSliceList
		if c.List(ctx, &pods) != nil || c.List(ctx, &endpoints) != nil {
			continue // the API server does not respond: keep the targets, as the discovery of Kubernetes does
		}
		for name, targets := range map[string][]target{"pods": podTargets(pods.Items), "endpoints": endpointTargets(endpoints.Items)} {
			_ = replace(filepath.Join(folder, name+".json"), targets) // after an error, the previous targets stay
		}
	}
}

// target is an entry in a file of targets for Prometheus.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// podTargets returns the container ports as targets, as the discovery role pod finds them.
func podTargets(pods []corev1.Pod) []target {
	all := []target{}
	for _, pod := range pods {
		for _, container := range pod.Spec.Containers {
			for _, port := range container.Ports {
				if pod.Status.PodIP == "" {
					continue
				}
				labels := map[string]string{
					"__meta_kubernetes_namespace": pod.Namespace, "__meta_kubernetes_pod_name": pod.Name, "__meta_kubernetes_pod_container_port_name": port.Name,
				}
				for name, value := range pod.Labels {
					labels["__meta_kubernetes_pod_label_"+unfit.ReplaceAllString(name, "_")] = value
				}
				all = append(all, target{[]string{net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(port.ContainerPort)))}, labels})
			}
		}
	}
	return all
}

// endpointTargets returns the endpoints of Services as targets, as the discovery role endpointslice finds them.
func endpointTargets(slices []discoveryv1.EndpointSlice) []target {
	all := []target{}
	for _, slice := range slices {
		for _, port := range slice.Ports {
			for _, endpoint := range slice.Endpoints {
				if port.Name == nil || port.Port == nil || endpoint.TargetRef == nil {
					continue
				}
				all = append(all, target{[]string{net.JoinHostPort(endpoint.Addresses[0], strconv.Itoa(int(*port.Port)))}, map[string]string{
					"__meta_kubernetes_service_name": slice.Labels[discoveryv1.LabelServiceName], "__meta_kubernetes_endpointslice_port_name": *port.Name,
					"__meta_kubernetes_pod_name": endpoint.TargetRef.Name,
				}})
			}
		}
	}
	return all
}

// unfit matches characters that are not valid in names of Prometheus' labels.
var unfit = regexp.MustCompile(`[^a-zA-Z0-9_]`)

// configured returns the files of Prometheus: the configuration in the guide and the alerts of the chart, with shorter times and with targets from files. An
// additional job scrapes the endpoints of Services, and keeps only the metric up. Further jobs scrape the kubelets while a story requests that.
func configured(root, folder string) (map[string]string, error) {
	guide, err := os.ReadFile(filepath.Join(root, "docs", "guide", "monitoring.md"))
	if err != nil {
		return nil, err
	}
	block := regexp.MustCompile("(?s)\n```yaml\n(scrape_configs:.*?)```").FindSubmatch(guide)
	if block == nil {
		return nil, errors.New("docs/guide/monitoring.md has no scrape_configs")
	}
	alerts, err := charts.Files.ReadFile("files/alerts.yaml")
	if err != nil {
		return nil, err
	}
	waits := regexp.MustCompile(`(?m)^(\s+for:) \S+$`)
	if found := len(waits.FindAll(alerts, -1)); found < 5 {
		return nil, fmt.Errorf("only %d alerts have a duration to shorten", found)
	}
	const discovery = "kubernetes_sd_configs: [{role: pod}]"
	if !strings.Contains(string(block[1]), discovery) {
		return nil, fmt.Errorf("the configuration in docs/guide/monitoring.md has no %s", discovery)
	}
	jobs := strings.ReplaceAll(string(block[1]), discovery, "file_sd_configs: [{files: ["+filepath.Join(folder, "pods.json")+"]}]")
	kubelets, err := guideJob(string(guide), folder)
	if err != nil {
		return nil, err
	}
	return map[string]string{
		"nodes.json": "[]", "states.json": "[]", "rules.yaml": kubeletRules,
		"alerts.yaml": string(waits.ReplaceAll(alerts, []byte("$1 "+(2*interval).String()))),
		"prometheus.yaml": fmt.Sprintf(`global: {scrape_interval: %[1]s, scrape_timeout: %[1]s, evaluation_interval: %[1]s}
rule_files: [alerts.yaml, rules.yaml]
%[2]s
  - job_name: services
    file_sd_configs: [{files: [%[3]s]}]
    relabel_configs:
      - {source_labels: [__meta_kubernetes_service_name], regex: .+-metrics, action: keep}
      - {source_labels: [__meta_kubernetes_endpointslice_port_name], regex: metrics, action: keep}
      - {source_labels: [__meta_kubernetes_pod_name], target_label: pod}
    metric_relabel_configs:
      - {source_labels: [__name__], regex: .+, action: drop}
`, interval, strings.TrimRight(jobs, "\n"), filepath.Join(folder, "endpoints.json")) + kubelets + kubeletJobs(folder),
	}, nil
}

// prometheus is the Prometheus of one cluster.
type prometheus struct {
	*story.Story
	c      *playground.Cluster
	client *http.Client
}

func (o observers) of(s *story.Story, c *playground.Cluster) prometheus {
	return prometheus{s, c, o[c]}
}

// sample is one series of a result. Values that are not numbers are left out.
type sample struct {
	Labels map[string]string
	Value  float64
}

// read decodes a response of the API of Prometheus.
func (p prometheus) read(ctx context.Context, path string, parameters map[string]string, into any) error {
	query := url.Values{}
	for name, value := range parameters {
		query.Set(name, value)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/api/v1/"+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return fmt.Errorf("asking Prometheus of %s: %w", p.c.ID, err)
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("asking Prometheus of %s: %w", p.c.ID, err)
	}
	var answer struct {
		Status string
		Data   json.RawMessage
	}
	if err := json.Unmarshal(said, &answer); err != nil || answer.Status != "success" {
		return fmt.Errorf("asking Prometheus of %s for %s %v: %s, %w", p.c.ID, path, parameters, said, err)
	}
	return json.Unmarshal(answer.Data, into)
}

// query evaluates an expression at the current time.
func (p prometheus) query(ctx context.Context, expression string) ([]sample, error) {
	var data struct {
		ResultType string
		Result     []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
	if err := p.read(ctx, "query", map[string]string{"query": expression}, &data); err != nil {
		return nil, err
	}
	var all []sample
	for _, r := range data.Result {
		text, _ := r.Value[1].(string)
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", expression, err)
		}
		if !math.IsNaN(value) {
			all = append(all, sample{r.Metric, value})
		}
	}
	return all, nil
}

// ranged evaluates an expression that selects the samples of a time range.
func (p prometheus) ranged(ctx context.Context, expression string) ([]series, error) {
	var data struct {
		Result []struct {
			Metric map[string]string
			Values [][2]any
		}
	}
	if err := p.read(ctx, "query", map[string]string{"query": expression}, &data); err != nil {
		return nil, err
	}
	var all []series
	for _, r := range data.Result {
		one := series{labels: r.Metric}
		for _, pair := range r.Values {
			at, _ := pair[0].(float64)
			text, _ := pair[1].(string)
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", expression, err)
			}
			one.points = append(one.points, point{began: time.UnixMilli(int64(math.Round(at * 1000))), value: value})
		}
		all = append(all, one)
	}
	return all, nil
}

// number returns the value of an expression with one series. It retries, because a failed scrape ends the series of its target until the next scrape.
func (p prometheus) number(expression string) (value float64) {
	p.Helper()
	p.Eventually(5*interval, "one series of "+expression+" in "+p.c.ID, func(ctx context.Context) error {
		all, err := p.query(ctx, expression)
		if err == nil && len(all) != 1 {
			err = fmt.Errorf("there are %d: %v", len(all), all)
		}
		if err == nil {
			value = all[0].Value
		}
		return err
	})
	return value
}

// byLabel returns the values of an expression by one of its labels.
func (p prometheus) byLabel(ctx context.Context, label, expression string) (map[string]float64, error) {
	all, err := p.query(ctx, expression)
	found := map[string]float64{}
	for _, s := range all {
		found[s.Labels[label]] = s.Value
	}
	return found, err
}

// scraped waits until at least one pod of each program was scraped, and no target fails.
func (p prometheus) scraped(programs ...string) {
	p.Helper()
	slices.Sort(programs)
	p.Eventually(start, "all of Liqo in "+p.c.ID+" to be scraped", func(ctx context.Context) error {
		found, err := p.byLabel(ctx, "program", `count by (program) (liqo_build_info)`)
		if err != nil {
			return err
		}
		if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, programs) {
			return fmt.Errorf("scraped are %v, want %v", got, programs)
		}
		up, err := p.byLabel(ctx, "pod", `up{job="liqo"}`)
		if err != nil {
			return err
		}
		for pod, value := range up {
			if value != 1 {
				return fmt.Errorf("pod %s can't be scraped", pod)
			}
		}
		return nil
	})
}

// rescraped waits until each pod was scraped after the time of the call.
func (p prometheus) rescraped() {
	p.Helper()
	now := float64(time.Now().UnixMilli()) / 1000
	p.Eventually(start, "Prometheus of "+p.c.ID+" to scrape once more", func(ctx context.Context) error {
		oldest, err := p.query(ctx, `min(timestamp(up{job="liqo"}))`)
		if err == nil && (len(oldest) != 1 || oldest[0].Value < now) {
			err = fmt.Errorf("the oldest scrape is %v, want one after %v", oldest, now)
		}
		return err
	})
}

// alert is an active alert.
type alert struct {
	State  string
	Labels map[string]string
}

func (a alert) String() string { return a.Labels["alertname"] + " " + a.State }

func (p prometheus) alerts(ctx context.Context) ([]alert, error) {
	var data struct{ Alerts []alert }
	err := p.read(ctx, "alerts", nil, &data)
	return data.Alerts, err
}

// is reports whether an alert with these labels fires or, if pending is true, is at least pending. It also returns the active alerts.
func (p prometheus) is(ctx context.Context, name string, pending bool, labels map[string]string) (bool, []alert, error) {
	all, err := p.alerts(ctx)
	return slices.ContainsFunc(all, func(a alert) bool {
		for label, value := range labels {
			if a.Labels[label] != value {
				return false
			}
		}
		return a.Labels["alertname"] == name && (pending || a.State == "firing")
	}), all, err
}

// fires waits until an alert fires, and prints how long that took.
func (p prometheus) fires(within time.Duration, name string, labels map[string]string) {
	p.Helper()
	began := time.Now()
	p.Eventually(within, fmt.Sprintf("%s %v to fire in %s", name, labels, p.c.ID), func(ctx context.Context) error {
		fires, all, err := p.is(ctx, name, false, labels)
		if err == nil && !fires {
			err = fmt.Errorf("active alerts: %v", all)
		}
		return err
	})
	fmt.Printf("             %s fires in %s after %.1f s\n", name, p.c.ID, time.Since(began).Seconds())
}

// resolves waits until no alert of that name is active.
func (p prometheus) resolves(within time.Duration, name string) {
	p.Helper()
	p.Eventually(within, fmt.Sprintf("%s to resolve in %s", name, p.c.ID), func(ctx context.Context) error {
		there, all, err := p.is(ctx, name, true, nil)
		if err == nil && there {
			err = fmt.Errorf("active alerts: %v", all)
		}
		return err
	})
}

// rulesWork checks that Prometheus can evaluate each alert of the chart, and that none is active.
func (p prometheus) rulesWork() {
	p.Helper()
	want, err := chartAlerts()
	p.Must(err)
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError, State string }
		}
	}
	p.Eventually(start, "Prometheus of "+p.c.ID+" to evaluate all rules", func(ctx context.Context) error {
		data.Groups = nil
		if err := p.read(ctx, "rules", map[string]string{"type": "alert"}, &data); err != nil {
			return err
		}
		var found []string
		for _, group := range data.Groups {
			for _, rule := range group.Rules {
				found = append(found, rule.Name)
				if rule.Health != "ok" || rule.State != "inactive" {
					return fmt.Errorf("%s is %s, its health %s %s", rule.Name, rule.State, rule.Health, rule.LastError)
				}
			}
		}
		if slices.Sort(found); !slices.Equal(found, want) {
			return fmt.Errorf("the alerts are %v, want %v", found, want)
		}
		return nil
	})
}

// chartAlerts returns the names of the alerts of the chart, sorted.
func chartAlerts() ([]string, error) {
	text, err := charts.Files.ReadFile("files/alerts.yaml")
	if err != nil {
		return nil, err
	}
	var file struct {
		Groups []struct{ Rules []struct{ Alert string } }
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("reading the alerts of the chart: %w", err)
	}
	var names []string
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			names = append(names, rule.Alert)
		}
	}
	if len(names) == 0 {
		return nil, errors.New("the chart has no alerts")
	}
	slices.Sort(names)
	return names, nil
}

// sameTargets checks that the Services with a port for metrics have as endpoints the pods that Prometheus finds by their labels. The proxy has no such Service.
func (p prometheus) sameTargets() {
	p.Helper()
	p.Eventually(start, "the Services for metrics in "+p.c.ID+" to lead to all pods", func(ctx context.Context) error {
		pods, err := p.byLabel(ctx, "pod", `up{job="liqo"} unless on (pod) liqo_build_info{program="proxy"}`)
		if err != nil {
			return err
		}
		services, err := p.byLabel(ctx, "pod", `up{job="services"}`)
		if err == nil && !maps.Equal(pods, services) {
			err = fmt.Errorf("they lead to %v, want %v", services, pods)
		}
		return err
	})
}
