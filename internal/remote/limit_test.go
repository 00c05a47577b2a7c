package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func configMap(name string, size int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Data: map[string]string{"a": strings.Repeat("x", size)}}
}

// TestCachesOfPeersAreLimited: whatever another cluster sends, in pages of a list, in a list by watch or in events, no more than the limits reaches the cache.
func TestCachesOfPeersAreLimited(t *testing.T) {
	limits := Limits{Objects: 4, Bytes: 20_000}
	yes := true
	type try struct {
		pages  [][]runtime.Object
		events []watch.Event
		// byWatch starts with a watch that sends all objects.
		byWatch bool
		refused string
	}
	objects := func(from, to, size int) (out []runtime.Object) {
		for i := from; i < to; i++ {
			out = append(out, configMap(fmt.Sprint(i), size))
		}
		return out
	}
	events := func(kind watch.EventType, objects []runtime.Object) (out []watch.Event) {
		for _, o := range objects {
			out = append(out, watch.Event{Type: kind, Object: o})
		}
		return out
	}
	many, huge := "there are more than 4 objects", "the objects have more than 20000 bytes"
	for name, row := range map[string]try{
		"as many as allowed":   {pages: [][]runtime.Object{objects(0, 2, 10), objects(2, 4, 10)}},
		"too many in one page": {pages: [][]runtime.Object{objects(0, 5, 10)}, refused: many},
		"too many pages":       {pages: [][]runtime.Object{objects(0, 3, 10), objects(3, 5, 10)}, refused: many},
		"too large":            {pages: [][]runtime.Object{objects(0, 3, 9000)}, refused: huge},
		"too many events":      {pages: [][]runtime.Object{objects(0, 3, 10)}, events: events(watch.Added, objects(3, 5, 10)), refused: many},
		"a complete list by watch": {byWatch: true, events: append(events(watch.Added, objects(0, 4, 10)), watch.Event{Type: watch.Bookmark, Object: &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}})},
		"a list by watch":        {byWatch: true, events: events(watch.Added, objects(0, 5, 10)), refused: many},
		"an object that grows":   {pages: [][]runtime.Object{objects(0, 1, 10)}, events: events(watch.Modified, []runtime.Object{configMap("0", 30_000)}), refused: huge},
		"changes of few objects": {pages: [][]runtime.Object{objects(0, 4, 4000)}, events: append(events(watch.Modified, objects(0, 4, 4000)), events(watch.Modified, objects(0, 4, 4000))...)},
		"objects that replace others": {pages: [][]runtime.Object{objects(0, 4, 4000)}, events: append(events(watch.Deleted, objects(0, 4, 4000)),
			events(watch.Added, objects(10, 14, 4000))...)},
	} {
		t.Run(name, func(t *testing.T) {
			source := watch.NewFakeWithChanSize(100, false)
			var reports []error
			complete := 0
			page := 0
			lw := cache.ToListerWatcherWithContext(LimitCache(&cache.ListWatch{
				ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
					list := &corev1.ConfigMapList{}
					for _, o := range row.pages[page] {
						list.Items = append(list.Items, *o.(*corev1.ConfigMap))
					}
					if page++; page < len(row.pages) {
						list.Continue = "more"
					}
					return list, nil
				},
				WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return source, nil },
			}, limits, func(err error) {
				if err == nil {
					complete++
				} else {
					reports = append(reports, err)
				}
			}))
			var err error
			for round := 0; round < 2 && err == nil && len(row.pages) > 0; round++ { // a second list replaces the first one
				page = 0
				for i := range row.pages {
					options := metav1.ListOptions{}
					if i > 0 {
						options.Continue = "more"
					}
					if _, err = lw.ListWithContext(t.Context(), options); err != nil {
						break
					}
				}
			}
			if err == nil {
				options := metav1.ListOptions{}
				if row.byWatch {
					options.SendInitialEvents = &yes
				}
				w, failed := lw.WatchWithContext(t.Context(), options)
				if failed != nil {
					t.Fatal(failed)
				}
				for _, event := range row.events {
					source.Action(event.Type, event.Object)
				}
				source.Stop()
				for event := range w.ResultChan() {
					switch {
					case err != nil:
						t.Errorf("event %s after the error", event.Type)
					case event.Type == watch.Error:
						err = errors.New(event.Object.(*metav1.Status).Message)
					}
				}
			}
			if (err != nil) != (row.refused != "") || err != nil && !strings.Contains(err.Error(), row.refused) {
				t.Errorf("got %v, want %q", err, row.refused)
			}
			if want := min(1, len(row.refused)); len(reports) != want {
				t.Errorf("%d reports, want %d", len(reports), want)
			}
			lists := 2
			if row.byWatch {
				lists = 1
			}
			if row.refused == "" && complete != lists {
				t.Errorf("%d complete lists, want %d", complete, lists)
			}
		})
	}
}

// TestResponsesOfPeersAreLimited: a response without an end is cut off, and a watch is not.
func TestResponsesOfPeersAreLimited(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 100 {
			if _, err := w.Write(make([]byte, 1000)); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	cfg := &rest.Config{Host: server.URL}
	LimitResponses(cfg, 50_000, 0, time.Minute)
	c, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{"/api/v1/configmaps": errTooLarge, "/api/v1/configmaps?watch=true": nil} {
		response, err := c.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, response.Body); !errors.Is(err, want) || want != nil && n > 50_000 {
			t.Errorf("%s: %d bytes, %v; want %v", path, n, err, want)
		}
		response.Body.Close()
	}
}

// TestListsOfPeersAreLimited: a list whose pages never end is cut off, also if it uses the limit together with others. A list that is read again counts once, and
// a watch is no list.
func TestListsOfPeersAreLimited(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(make([]byte, 1000)) }))
	defer server.Close()
	for name, row := range map[string]struct {
		requests []string // %d is the number of the round
		rounds   int      // the round that fails, 0 if none of 100 does
	}{
		"endless pages":          {[]string{"/api/v1/pods?limit=500&continue=%d"}, 51},
		"two kinds":              {[]string{"/api/v1/pods?limit=500&continue=%d", "/api/v1/nodes?limit=500&continue=%d"}, 26},
		"two selectors":          {[]string{"/api/v1/pods?limit=500&continue=%d", "/api/v1/pods?limit=500&labelSelector=a", "/api/v1/pods?limit=500&labelSelector=b"}, 49},
		"the same list again":    {[]string{"/api/v1/pods?limit=500&resourceVersion=%d", "/api/v1/pods?limit=500&continue=%d"}, 0},
		"watches and one object": {[]string{"/api/v1/pods?watch=1&limit=500&resourceVersion=%d", "/api/v1/nodes/%d"}, 0},
	} {
		cfg := &rest.Config{Host: server.URL}
		LimitResponses(cfg, 50_000, 50_000, time.Minute)
		c, err := rest.HTTPClientFor(cfg)
		if err != nil {
			t.Fatal(err)
		}
		failed := 0
		for round := 1; round <= 100 && failed == 0; round++ {
			for _, request := range row.requests {
				response, err := c.Get(server.URL + strings.ReplaceAll(request, "%d", strconv.Itoa(round)))
				if err != nil {
					t.Fatal(err)
				}
				_, err = io.Copy(io.Discard, response.Body)
				response.Body.Close()
				if err != nil && failed == 0 {
					failed = round
					if text := err.Error(); !errors.Is(err, errListsTooLarge) || !strings.Contains(text, "/api/v1/") || !strings.Contains(text, "more than 50000 together") {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
		}
		if failed != row.rounds {
			t.Errorf("%s: round %d failed, want %d", name, failed, row.rounds)
		}
	}
}

// TestSlowResponsesOfPeersEnd: a peer that sends a byte now and then makes no response last, though each byte arrives in time. A watch goes on. The error says that
// it took too long, and a cache reports that.
func TestSlowResponsesOfPeersEnd(t *testing.T) {
	const within = 500 * time.Millisecond
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for began := time.Now(); time.Since(began) < 5*within; {
			if _, err := w.Write([]byte(" ")); err != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
			time.Sleep(within / 20)
		}
	}))
	defer server.Close()
	cfg := &rest.Config{Host: server.URL}
	LimitResponses(cfg, 50_000, 0, within)
	c, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/api/v1/configmaps?watch=true", "/api/v1/configmaps"} {
		response, err := c.Get(server.URL + path)
		if errors.Is(err, errTooSlow) && strings.HasSuffix(path, "configmaps") {
			continue // on a busy machine, even the header comes too late
		}
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, response.Body)
		if watch := strings.HasSuffix(path, "true"); n == 0 || watch && err != nil || !watch && !errors.Is(err, errTooSlow) {
			t.Errorf("%s: %d bytes, %v", path, n, err)
		}
		response.Body.Close()
	}
	var reports []error
	slow := cache.ToListerWatcherWithContext(LimitCache(&cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return nil, fmt.Errorf("listing: %w", errTooSlow)
		},
	}, Limits{}, func(err error) { reports = append(reports, err) }))
	if _, err := slow.ListWithContext(t.Context(), metav1.ListOptions{}); !errors.Is(err, errTooSlow) || len(reports) != 1 || !errors.Is(reports[0], errTooSlow) {
		t.Errorf("%v, reported %v", err, reports)
	}
}

// TestOnlyCommandsInPodsAreStreams: a peer can call an object "exec". Reads of it are limited like all others.
func TestOnlyCommandsInPodsAreStreams(t *testing.T) {
	for path, want := range map[string]bool{
		"/api/v1/namespaces/blog/pods/web/exec":                    true,
		"/k8s/clusters/c-1/api/v1/namespaces/blog/pods/web/exec":   true,
		"/api/v1/namespaces/blog/secrets/exec":                     false,
		"/api/v1/namespaces/blog/pods/exec":                        false,
		"/apis/liqo.io/v1/namespaces/blog/gatewayservers/web/exec": false,
		"/exec": false,
	} {
		if got := IsExec(path); got != want {
			t.Errorf("%s: %t", path, got)
		}
	}
}
