package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/dashboard"
	"liqo.io/liqo/test/clitest"
)

// opened is a dashboard of two clusters in memory, and the session of a browser that has opened it.
type opened struct {
	*testing.T
	world   *world
	address string
	session string
	stop    func() int // interrupts the command, and returns its exit code
	updates *bufio.Reader
	shown   dashboard.Documents
}

// openDashboard runs the command where rome offloads namespace demo to milan.
func openDashboard(t *testing.T) *opened {
	t.Helper()
	w := installedWorld(t)
	at := w.snapshot()
	for _, command := range lawStates["offloaded"] {
		ran := w.in(t, at, command, nil)
		if ran.code != 0 {
			t.Fatalf("%s: code %d: %s%s", command, ran.code, ran.out, ran.said)
		}
		at = ran.left
	}
	w = newWorld(t, at)
	w.answer = func(_ string, r *http.Request) (*http.Response, error) {
		if r.URL.Query().Has("sendInitialEvents") { // which servers before Kubernetes 1.32 do not know either
			return refusal(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, memoryPath{}, servedKind{}, "sendInitialEvents is forbidden"), nil
		}
		return nil, nil
	}
	reader, writer := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- execute(ctx, w.app(writer, io.Discard), []string{
			"dashboard", "--kubeconfig", filepath.Join(w.dir, "rome"), "--remote-kubeconfig", filepath.Join(w.dir, "milan"),
		})
		_ = writer.Close()
	}()
	printed, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		t.Fatalf("no address is printed, code %d: %v", <-ended, err)
	}
	address, token, _ := strings.Cut(strings.TrimSpace(printed), "#")
	o := &opened{T: t, world: w, address: address, shown: dashboard.Documents{}}
	o.stop = sync.OnceValue(func() int { cancel(); return <-ended })
	response, err := http.Post(address+"api/session", "application/json", strings.NewReader(fmt.Sprintf("{%q:%q}", "token", token)))
	if err != nil {
		t.Fatalf("exchanging the token of %q: %v", printed, err)
	}
	defer response.Body.Close()
	var body struct{ Session string }
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil || body.Session == "" {
		t.Fatalf("exchanging the token of %q: %s, %v", printed, response.Status, err)
	}
	o.session = body.Session
	stream := o.get("api/stream")
	o.updates = bufio.NewReader(stream.Body)
	return o
}

func (o *opened) get(path string) *http.Response {
	o.Helper()
	request, err := http.NewRequestWithContext(o.Context(), http.MethodGet, o.address+path, nil)
	if err != nil {
		o.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+o.session)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		o.Fatal(err)
	}
	return response
}

// until reads the stream until the documents are as wanted.
func (o *opened) until(what string, wanted func(dashboard.Documents) bool) {
	o.Helper()
	late := time.AfterFunc(20*time.Second, func() { o.stop() })
	defer late.Stop()
	for !wanted(o.shown) {
		line, err := o.updates.ReadString('\n')
		if err != nil {
			o.Fatalf("%s is not shown: %v: %s", what, err, o.shown)
		}
		data, is := strings.CutPrefix(line, "data: ")
		if !is {
			continue
		}
		var patch dashboard.Patch
		if err := json.Unmarshal([]byte(data), &patch); err != nil {
			o.Fatal(err)
		}
		o.shown = patch.Apply(o.shown)
	}
}

// TestDashboard: the printed address opens the page of both clusters, the page follows them, and the command ends well when it is interrupted.
func TestDashboard(t *testing.T) {
	o := openDashboard(t)
	o.until("the state of both clusters", func(shown dashboard.Documents) bool {
		for key, part := range map[string]string{
			"cluster/rome": `"local":true,"given":true`, "cluster/milan": `"given":true`,
			"node/rome/milan": `"provider":"milan"`, "namespace/rome/demo": `"cluster":"rome"`, "diagnosis": `"done":true`,
		} {
			if !strings.Contains(string(shown[key]), part) {
				return false
			}
		}
		return true
	})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "new"}, Spec: corev1.PodSpec{NodeName: "rome-1"}}
	clitest.Create(t, o.world.clusters["rome"].client, pod)
	o.until("a new pod", func(shown dashboard.Documents) bool {
		return strings.Contains(string(shown["pod/rome/demo/new"]), `"node":"rome-1"`)
	})
	answer := o.get("api/explain?" + url.Values{"from": {"rome/demo/nobody"}, "to": {"milan/10.2.0.5"}}.Encode())
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(string(text), "there is no pod demo/nobody") {
		t.Errorf("explaining the path of no pod: %s: %s, %v", answer.Status, text, err)
	}
	if code := o.stop(); code != 0 {
		t.Errorf("interrupted it ends with code %d", code)
	}
}

// TestDashboardChangesNothing: it asks the API servers what there is and what it may do, and nothing else.
func TestDashboardChangesNothing(t *testing.T) {
	o := openDashboard(t)
	o.until("the diagnosis", func(shown dashboard.Documents) bool {
		return strings.Contains(string(shown["diagnosis"]), `"done":true`)
	})
	o.stop()
	o.world.mu.Lock()
	defer o.world.mu.Unlock()
	if o.world.wrote != 0 {
		t.Errorf("it changed %d objects", o.world.wrote)
	}
	watched := false
	for _, request := range o.world.seen {
		watched = watched || strings.Contains(request, " WATCH ")
		if mutates(request) && !strings.Contains(request, "/selfsubjectaccessreviews") {
			t.Errorf("it made the request %s", request)
		}
	}
	if !watched {
		t.Error("it watches nothing")
	}
}

// TestDashboardWithoutAPeer: a peer that does not respond is left out with a warning; the page of the others opens.
func TestDashboardWithoutAPeer(t *testing.T) {
	w := installedWorld(t)
	w.answer = func(_ string, r *http.Request) (*http.Response, error) {
		if r.URL.Host == "milan" {
			return nil, context.DeadlineExceeded
		}
		return nil, nil
	}
	reader, writer := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	var said strings.Builder
	go func() {
		ended <- execute(ctx, w.app(writer, &said), []string{
			"dashboard", "--kubeconfig", filepath.Join(w.dir, "rome"), "--remote-kubeconfig", filepath.Join(w.dir, "milan"),
		})
		_ = writer.Close()
	}()
	printed, err := bufio.NewReader(reader).ReadString('\n')
	cancel()
	if code := <-ended; err != nil || code != 0 || !strings.HasPrefix(printed, "http://127.0.0.1:") {
		t.Errorf("it prints %q, %v, and ends with code %d", printed, err, code)
	}
	if !strings.Contains(said.String(), "the page shows what the other clusters report about it") {
		t.Errorf("it says %s", said.String())
	}
}
