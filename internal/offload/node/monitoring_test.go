package node

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/remote"
)

// twoPods is a node with the pod shop/web, which runs, and the pod shop/job, which has ended.
type twoPods struct{ onePod }

func (twoPods) Local(string) []client.Object {
	container := func(name string, state corev1.ContainerState) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: name, Image: "example.org/" + name + ":1", ContainerID: "containerd://id-of-" + name, State: state,
		}}}
	}
	web := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	web.Status = container("c", corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Unix(1000, 0)}})
	web.Status.Phase = corev1.PodRunning
	web.Spec.Containers = []corev1.Container{{Name: "c"}}
	web.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}}
	web.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{
		Name: "debug", Image: "example.org/debug:1", ContainerID: "containerd://id-of-debug",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Unix(2000, 0)}},
	}}
	job := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "job"}}
	job.Status = container("j", corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}})
	job.Status.Phase = corev1.PodSucceeded
	job.Spec.Containers = []corev1.Container{{Name: "j"}}
	return []client.Object{web, job}
}

// monitored is the kubelet API of twoPods, without authorization. The provider reports pods of this node and of another node, or fails if broken is true.
func monitored(t *testing.T, broken bool) http.Handler {
	t.Helper()
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if broken {
			http.Error(w, "no such thing", http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, `{"items":[
			{"metadata":{"name":"web"},"timestamp":"2026-01-01T00:00:00Z","window":"15s","containers":[{"name":"c","usage":{"cpu":"200m","memory":"4Ki"}}]},
			{"metadata":{"name":"elsewhere"},"timestamp":"2026-01-01T00:00:00Z","window":"15s","containers":[{"name":"c","usage":{"cpu":"7","memory":"1Gi"}}]}]}`)
	}))
	t.Cleanup(provider.Close)
	s, err := NewServer(remote.IdentityOf(&rest.Config{Host: provider.URL}), twoPods{}, "milan", "Pod", StatsAge, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s.Handler()
}

// TestMonitoringOfANode: a virtual node responds to the requests that monitoring sends to every kubelet. It reports its own pods, with the labels that
// dashboards use.
func TestMonitoringOfANode(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	identity := `image="example.org/c:1",name="id-of-c",namespace="shop",pod="web"}`
	labels := `{container="c",` + identity
	for _, row := range []struct {
		path   string
		broken bool
		want   []string
		not    []string
	}{
		{"/metrics", true, []string{
			"# TYPE kubelet_running_pods gauge\n", "kubelet_node_name{node=\"milan\"} 1\n", "kubelet_running_pods 1\n",
			"kubelet_running_containers{container_state=\"exited\"} 1\n", "kubelet_running_containers{container_state=\"running\"} 2\n",
		}, nil},
		{"/metrics/cadvisor", false, []string{
			fmt.Sprintf("container_cpu_usage_seconds_total{container=\"c\",cpu=\"total\",%s 3.001 %d\n", identity, at),
			fmt.Sprintf("container_memory_working_set_bytes%s 4096 %d\n", labels, at),
			"container_start_time_seconds" + labels + " 1000\n", "container_scrape_error 0\n",
		}, []string{"elsewhere"}},
		{"/metrics/cadvisor", true, []string{"container_scrape_error 1\n"}, []string{`pod="`}},
		{"/metrics/resource", false, []string{
			fmt.Sprintf("pod_cpu_usage_seconds_total{namespace=\"shop\",pod=\"web\"} 3.001 %d\n", at),
			fmt.Sprintf("pod_memory_working_set_bytes{namespace=\"shop\",pod=\"web\"} 4096 %d\n", at),
			"container_start_time_seconds{container=\"c\",namespace=\"shop\",pod=\"web\"} 1000\n",
		}, []string{"elsewhere"}},
		{"/metrics/probes", true, nil, []string{"prober"}},
		{"/metrics/slis", true, nil, []string{"kubernetes_healthcheck"}},
	} {
		answer := httptest.NewRecorder()
		monitored(t, row.broken).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, row.path, nil))
		text := answer.Body.String()
		if answer.Code != http.StatusOK || !strings.HasPrefix(answer.Header().Get("Content-Type"), "text/plain; version=0.0.4") {
			t.Errorf("%s: %d, %v", row.path, answer.Code, answer.Header())
		}
		if problems, err := promlint.New(strings.NewReader(text)).Lint(); err != nil || len(problems) > 0 {
			t.Errorf("promtool would say about %s: %v, %v", row.path, problems, err)
		}
		for _, want := range row.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q:\n%s", row.path, want, text)
			}
		}
		for _, not := range row.not {
			if strings.Contains(text, not) {
				t.Errorf("%s has %q:\n%s", row.path, not, text)
			}
		}
	}
}

// TestHostileNamesBreakNoScrape: a provider chooses the image and the ID that it reports of a container. Whatever they contain, Prometheus reads the
// same.
func TestHostileNamesBreakNoScrape(t *testing.T) {
	web, _ := twoPods{}.Local("")[0].(*corev1.Pod)
	key := client.ObjectKeyFromObject(web)
	const hostile = "\x00\x1b\u200b\"} 7\nevil 1\\é"
	web.Status.ContainerStatuses[0].Image, web.Status.ContainerStatuses[0].ContainerID = hostile, "containerd://"+hostile
	u := usage{}
	u.take([]sample{{pod: key, container: "c", at: time.Now(), cores: 1, bytes: 1}}, time.Now())
	var out exposition
	out.cadvisor(&u, map[types.NamespacedName]*corev1.Pod{key: web}, false)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(out.text.String()))
	if err != nil || families["evil"] != nil {
		t.Fatalf("%v, %v:\n%s", families["evil"], err, out.text.String())
	}
	for _, label := range families["container_memory_working_set_bytes"].GetMetric()[0].GetLabel() {
		if name := label.GetName(); (name == "image" || name == "name") && label.GetValue() != hostile {
			t.Errorf("label %s is %q, want %q", name, label.GetValue(), hostile)
		}
	}
}

// TestEphemeralContainersHaveAStatus: a container that kubectl debug added is shown with its image and start, as the others.
func TestEphemeralContainersHaveAStatus(t *testing.T) {
	web, _ := twoPods{}.Local("")[0].(*corev1.Pod)
	u := usage{}
	u.take([]sample{{pod: client.ObjectKeyFromObject(web), container: "debug", at: time.Now(), cores: 1, bytes: 1}}, time.Now())
	var out exposition
	out.cadvisor(&u, map[types.NamespacedName]*corev1.Pod{client.ObjectKeyFromObject(web): web}, false)
	want := `container_start_time_seconds{container="debug",image="example.org/debug:1",name="id-of-debug",namespace="shop",pod="web"} 2000` + "\n"
	if text := out.text.String(); !strings.Contains(text, want) {
		t.Errorf("%q is missing in\n%s", want, text)
	}
}

// TestMonitoringNeedsItsPermission: each path needs permission for its subresource of this very node. Everybody else is refused.
func TestMonitoringNeedsItsPermission(t *testing.T) {
	users := []string{"metrics", "stats", "healthz", "configz", "pods", "log", "proxy", "nothing"} // each user has permission for the subresource that the user is named after
	reviewer := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
			switch review := object.(type) {
			case *authenticationv1.TokenReview:
				review.Status.Authenticated = slices.Contains(users, review.Spec.Token)
				review.Status.User.Username = review.Spec.Token
			case *authorizationv1.SubjectAccessReview:
				asked := review.Spec.ResourceAttributes
				if asked.Name != "milan" || asked.Resource != "nodes" || asked.Group != "" || asked.Verb != "get" {
					t.Errorf("the review is about %+v", asked)
				}
				review.Status.Allowed = asked.Subresource == review.Spec.User
			}
			return nil
		},
	}).Build()
	authorizer := NewAuthorizer(reviewer, "milan", clock.RealClock{}).Wrap(monitored(t, false))
	status := func(path, token string) int {
		request := httptest.NewRequest(http.MethodGet, path, nil)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		answer := httptest.NewRecorder()
		authorizer.ServeHTTP(answer, request)
		return answer.Code
	}
	for path, allowed := range map[string][]string{
		"/metrics": {"metrics"}, "/metrics/cadvisor": {"metrics"}, "/metrics/probes": {"metrics"}, "/metrics/resource": {"metrics"},
		"/metrics/slis":  {"metrics"},
		"/stats/summary": {"stats"}, "/healthz": {"healthz", "proxy"}, "/configz": {"configz", "proxy"}, "/pods": {"pods", "proxy"},
	} {
		for _, token := range []string{"", "forged"} {
			if got := status(path, token); got != http.StatusUnauthorized {
				t.Errorf("%s with token %q: %d", path, token, got)
			}
		}
		for _, user := range users {
			want := http.StatusForbidden
			if slices.Contains(allowed, user) {
				want = http.StatusOK
			}
			if got := status(path, user); got != want {
				t.Errorf("%s by a user with nodes/%s: %d, want %d", path, user, got, want)
			}
		}
	}
}
