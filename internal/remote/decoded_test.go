package remote

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
)

// answering returns a client of a cluster that answers every request with body, and LimitResponses with the limit. accepted receives the types that it requests.
func answering(t *testing.T, limit int64, kind string, body []byte) (c client.WithWatch, accepted *string) {
	accepted = new(string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*accepted = r.Header.Get("Accept")
		w.Header()["Content-Type"] = []string{kind}
		if kind == "" {
			w.Header()["Content-Type"] = nil
		}
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	cfg := &rest.Config{Host: server.URL, QPS: -1}
	LimitResponses(cfg, limit, 0, time.Minute)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: kube.NewScheme(), Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	return c, accepted
}

// podList returns a list in JSON of number times each item.
func podList(number int, item string) []byte {
	return []byte(`{"apiVersion":"v1","kind":"PodList","metadata":{},"items":[` + strings.TrimSuffix(strings.Repeat(item+",", number), ",") + "]}")
}

// entries returns the entries of a map in JSON.
func entries(number int) string {
	var all []string
	for i := range number {
		all = append(all, fmt.Sprintf(`"%s":"1"`, strconv.FormatInt(int64(i), 36)))
	}
	return strings.Join(all, ",")
}

// TestDecodedResponsesAreLimited: however small the items of a response are, it does not use more memory than a multiple of the limit of its bytes. Without that, an
// empty object of three bytes is decoded to a Pod of more than a KiB.
func TestDecodedResponsesAreLimited(t *testing.T) {
	const limit = 1 << 20
	for what, item := range map[string]string{
		"empty items": "{}", "null items": "null", "items with a space": " {  } ",
		"numbers": "1", "texts": `""`, "booleans": "true", "arrays": "[]",
		"numbers as containers": `{"spec":{"containers":[` + strings.TrimSuffix(strings.Repeat("1,", 1000), ",") + "]}}",
		"containers":            `{"spec":{"containers":[` + strings.TrimSuffix(strings.Repeat("{},", 1000), ",") + "]}}",
		"init containers":       `{"spec":{"initContainers":[` + strings.TrimSuffix(strings.Repeat("null,", 1000), ",") + "]}}",
		"ephemeral":             `{"spec":{"ephemeralContainers":[` + strings.TrimSuffix(strings.Repeat("{},", 1000), ",") + "]}}",
		"statuses":              `{"status":{"containerStatuses":[` + strings.TrimSuffix(strings.Repeat("{},", 1000), ",") + "]}}",
		"finalizers":            `{"metadata":{"finalizers":[` + strings.TrimSuffix(strings.Repeat(`"",`, 1000), ",") + "]}}",
		"labels":                `{"metadata":{"labels":{` + entries(1000) + "}}}",
		"limits":                `{"spec":{"overhead":{` + entries(1000) + "}}}",
		"managed fields":        `{"metadata":{"managedFields":[` + strings.TrimSuffix(strings.Repeat(`{},`, 1000), ",") + "]}}",
	} {
		accepted := 0
		for number := limit / (len(item) + 1); number > 0 && accepted == 0; number = number * 9 / 10 { // the largest response that is accepted
			c, _ := answering(t, limit, "application/json", podList(number, item))
			var before, after runtime.MemStats
			list := &corev1.PodList{}
			runtime.ReadMemStats(&before)
			err := c.List(t.Context(), list)
			runtime.ReadMemStats(&after)
			used := float64(after.TotalAlloc-before.TotalAlloc) / limit
			if used > 4*decodedFactor {
				t.Errorf("%s: %d items use %.0f times the limit, want at most %d times: %v", what, number, used, 4*decodedFactor, err)
				break
			}
			if !errors.Is(err, errTooLarge) { // a value of another type is an error after it was decoded
				accepted = len(list.Items)
				t.Logf("%s: %d items are accepted, and use %.1f times the limit", what, accepted, used)
			}
		}
	}
}

// TestLargeHonestListsAreDecoded: a list of 10,000 pods, as clusters have them, fits into the limits of liqoctl. This test has a tenth of both.
func TestLargeHonestListsAreDecoded(t *testing.T) {
	pod := `{"metadata":{"name":"web-7d4b9c6f5-x2x7v","namespace":"shop","labels":{"app":"web","pod-template-hash":"7d4b9c6f5"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-7d4b9c6f5","uid":"11111111-1111-1111-1111-111111111111","controller":true}],
"managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:env":{".":{},"k:{\"name\":\"A\"}":{".":{},"f:name":{}}}}}}}},{"manager":"kubelet"}]},
"spec":{"nodeName":"node-1","tolerations":[{"key":"node.kubernetes.io/not-ready"},{"key":"node.kubernetes.io/unreachable"}],"volumes":[{"name":"kube-api-access","projected":{"sources":[{"serviceAccountToken":{}},{"configMap":{"items":[{"key":"ca.crt","path":"ca.crt"}]}},{"downwardAPI":{"items":[{"path":"namespace"}]}}]}}],
"containers":[{"name":"web","image":"registry.example.org/shop/web:1.2.3","args":["--listen=:8080","--verbose"],"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],"ports":[{"containerPort":8080}],"volumeMounts":[{"name":"kube-api-access","mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}]}]},
"status":{"phase":"Running","podIPs":[{"ip":"10.0.0.1"}],"hostIPs":[{"ip":"192.168.0.1"}],"conditions":[{"type":"Ready","status":"True"},{"type":"Initialized","status":"True"},{"type":"ContainersReady","status":"True"},{"type":"PodScheduled","status":"True"},{"type":"PodReadyToStartContainers","status":"True"}],
"containerStatuses":[{"name":"web","ready":true,"state":{"running":{"startedAt":"2026-01-01T00:00:00Z"}},"imageID":"registry.example.org/shop/web@sha256:0123456789012345678901234567890123456789012345678901234567890123"}]}}`
	c, _ := answering(t, 128<<20/10, "application/json", podList(1000, strings.ReplaceAll(pod, "\n", "")))
	list := &corev1.PodList{}
	if err := c.List(t.Context(), list); err != nil || len(list.Items) != 1000 {
		t.Errorf("%d pods, error %v", len(list.Items), err)
	}
}

// TestResponsesOfPeersAreJSON: the size of decoded objects is known only in JSON. So no other encoding is requested, and none is decoded that is sent all the same.
func TestResponsesOfPeersAreJSON(t *testing.T) {
	list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: make([]corev1.Pod, 3)}
	var encoded strings.Builder
	if err := protobuf.NewSerializer(kube.NewScheme(), kube.NewScheme()).Encode(list, &encoded); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		kind, body string
		want       error
	}{
		{k8sruntime.ContentTypeJSON, string(podList(3, "{}")), nil},
		{"application/json; charset=utf-8", string(podList(3, "{}")), nil},
		{"", string(podList(3, "{}")), nil},
		{k8sruntime.ContentTypeProtobuf, encoded.String(), errNotJSON},
		{k8sruntime.ContentTypeYAML, string(podList(3, "{}")), errNotJSON},
		{"application/json; ;", string(podList(3, "{}")), errNotJSON},
	} {
		c, accepted := answering(t, 1<<20, row.kind, []byte(row.body))
		got := &corev1.PodList{}
		if err := c.List(t.Context(), got); !errors.Is(err, row.want) || row.want == nil && len(got.Items) != 3 {
			t.Errorf("%q: %d pods, %v; want %v", row.kind, len(got.Items), err, row.want)
		}
		if !strings.Contains(*accepted, "json") || strings.Contains(*accepted, "protobuf") {
			t.Errorf("%q: requested %q", row.kind, *accepted)
		}
	}
	for accepted, want := range map[string]string{
		"": "", "*/*": "*/*", k8sruntime.ContentTypeProtobuf: "application/json", "application/vnd.kubernetes.protobuf;as=Table;v=v1,application/json;as=Table;v=v1": "application/json;as=Table;v=v1,application/json",
	} {
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		if accepted != "" {
			req.Header.Set("Accept", accepted)
		}
		if got := requestJSON(req).Header.Get("Accept"); got != want {
			t.Errorf("%q: requested %q, want %q", accepted, got, want)
		}
	}
}

// TestEventsOfWatchesAreLimited: the limit holds for each event of a watch, and not for all of them together.
func TestEventsOfWatchesAreLimited(t *testing.T) {
	small := `{"type":"ADDED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"}}}`
	c, _ := answering(t, 1<<10, k8sruntime.ContentTypeJSON, []byte(strings.Repeat(small, 100)))
	w, err := c.Watch(t.Context(), &corev1.PodList{})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for e := range w.ResultChan() {
		if pod, is := e.Object.(*corev1.Pod); is && pod.Name == "web" {
			seen++
		}
	}
	if seen != 100 {
		t.Errorf("%d events, want 100", seen)
	}
	event := func(containers int) string {
		return fmt.Sprintf(`{"type":"ADDED","object":{"apiVersion":"v1","kind":"Pod","spec":{"containers":[%s]}}}`+"\n", strings.TrimSuffix(strings.Repeat("{},", containers), ","))
	}
	read := func(body string) error {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", k8sruntime.ContentTypeJSON)
			_, _ = io.WriteString(w, body)
		}))
		defer server.Close()
		cfg := &rest.Config{Host: server.URL}
		LimitResponses(cfg, 20*nestedItem/decodedFactor, 0, time.Minute)
		c, err := rest.HTTPClientFor(cfg)
		if err != nil {
			t.Fatal(err)
		}
		response, err := c.Get(server.URL + "/api/v1/pods?watch=true")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, response.Body)
		return err
	}
	if err := read(strings.Repeat(event(8), 1000)); err != nil {
		t.Errorf("small events: %v", err)
	}
	if err := read(event(8) + event(20)); !errors.Is(err, errTooMany) {
		t.Errorf("a large event: %v", err)
	}
	if err := read(`{"type":"ADDED","object":` + string(podList(6, "{}")) + "}"); !errors.Is(err, errTooMany) {
		t.Errorf("an event with a list: %v", err)
	}
	if err := read(strings.Repeat("[", deepest+1)); !errors.Is(err, errTooMany) {
		t.Errorf("a deep event: %v", err)
	}
}

// TestPagesOfListsAreDecodedWithinALimit: a server that sends small pages of many small items fills the memory as little as one that sends large pages.
func TestPagesOfListsAreDecodedWithinALimit(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", k8sruntime.ContentTypeJSON)
		_, _ = w.Write(podList(100, "{}"))
	}))
	defer server.Close()
	cfg := &rest.Config{Host: server.URL}
	LimitResponses(cfg, 1<<20, 1<<20, time.Minute)
	c, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	pages := 0
	for ; err == nil && pages < 1000; pages++ {
		response, failed := c.Get(server.URL + "/api/v1/pods?limit=100&continue=more")
		if failed != nil {
			t.Fatal(failed)
		}
		_, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	if most := pagesFactor<<20/(100*listItem) + 1; !errors.Is(err, errListsTooLarge) || pages > most {
		t.Errorf("%d pages of 100 items, want at most %d: %v", pages, most, err)
	}
}
