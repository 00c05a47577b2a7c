package remote

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// consistentFor is how long lists are consistent reads after a watch was refused. maxRemembered is the number of watched sets
// above which unused ones are dropped.
const (
	consistentFor = time.Minute
	maxRemembered = 1000
)

// RelistAfterOutages makes each watch with cfg start with a list if the previous watch was cut off or could not be started.
//
// Clients resume a watch at the last resource version that they received. After a restore of etcd from a backup, that version
// lies in the future or belongs to another history. Then the API server sends no events until its own version passes it. It
// never reports the differences between the histories, so a cache keeps objects that do not exist. Kubernetes requires all API servers to be stopped for a
// restore, so the connections of clients break. A watch that ended in order resumes as usual.
func RelistAfterOutages(cfg *rest.Config) {
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return &relister{next: rt, now: time.Now, sets: map[string]*watchedSet{}}
	})
}

// relister is the transport that RelistAfterOutages adds.
type relister struct {
	next http.RoundTripper
	now  func() time.Time

	mu   sync.Mutex
	sets map[string]*watchedSet
}

// watchedSet is the state of the watches of one set of objects: a path with its selectors. Several caches of a process may watch
// the same set.
type watchedSet struct {
	// running is the number of open watches, most the highest number so far.
	running, most int
	// broken is the number of watches that were cut off and have not been refused since.
	broken int
	// consistentUntil is the time until which lists must not name a minimum resource version, because that version may belong to
	// another history.
	consistentUntil time.Time
}

// WrappedRoundTripper returns the wrapped transport, for callers that search for a transport of a certain type.
func (r *relister) WrappedRoundTripper() http.RoundTripper { return r.next }

// RoundTrip implements http.RoundTripper.
func (r *relister) RoundTrip(req *http.Request) (*http.Response, error) {
	query := req.URL.Query()
	if req.Method != http.MethodGet || !query.Has("resourceVersion") && !query.Has("watch") {
		return r.next.RoundTrip(req)
	}
	key := req.URL.Path + "?" + query.Get("labelSelector") + "&" + query.Get("fieldSelector")
	version := query.Get("resourceVersion")
	watches := query.Get("watch") == "true" || query.Get("watch") == "1"
	// A watch that first sends all objects (sendInitialEvents) counts as a list.
	lists := !watches || query.Get("sendInitialEvents") == "true"
	if !lists && version != "" && version != "0" && r.refuse(key) {
		return expired(req, version), nil
	}
	if lists && r.consistent(key) {
		query.Del("resourceVersion")
		if !watches {
			query.Del("resourceVersionMatch")
		}
		req = req.Clone(req.Context())
		req.URL.RawQuery = query.Encode()
	}
	resp, err := r.next.RoundTrip(req)
	if !watches {
		return resp, err
	}
	switch {
	case err != nil || resp.StatusCode >= http.StatusInternalServerError:
		if req.Context().Err() == nil {
			r.broke(key)
		}
	case resp.StatusCode == http.StatusOK:
		r.started(key)
		resp.Body = &watchBody{ReadCloser: resp.Body, req: req, ended: func(cut bool) { r.ended(key, cut) }}
	}
	return resp, err
}

// set returns the state of the watches of key, and creates it if necessary. The caller must hold the lock.
func (r *relister) set(key string) *watchedSet {
	if r.sets[key] == nil {
		if len(r.sets) >= maxRemembered {
			for name, s := range r.sets {
				if s.running == 0 && s.broken == 0 {
					delete(r.sets, name)
				}
			}
		}
		r.sets[key] = &watchedSet{}
	}
	return r.sets[key]
}

// refuse reports whether a watch must start with a list.
func (r *relister) refuse(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sets[key]
	if s == nil || s.broken == 0 {
		return false
	}
	s.broken--
	s.consistentUntil = r.now().Add(consistentFor)
	return true
}

// consistent reports whether a list must be a consistent read.
func (r *relister) consistent(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sets[key]
	return s != nil && r.now().Before(s.consistentUntil)
}

func (r *relister) started(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.set(key)
	s.running++
	s.most = max(s.most, s.running)
}

func (r *relister) ended(key string, cut bool) {
	r.mu.Lock()
	r.set(key).running--
	r.mu.Unlock()
	if cut {
		r.broke(key)
	}
}

// broke records that one more watch must start with a list. The number is limited, because the same watch may fail many times
// before it reaches the API server.
func (r *relister) broke(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.set(key)
	s.broken = min(s.broken+1, max(s.most, 1))
}

// expired returns the response by which API servers refuse to resume a watch (410 Gone). Clients then list.
func expired(req *http.Request, version string) *http.Response {
	status := apierrors.NewResourceExpired(fmt.Sprintf("the connection to the API server was lost since resource version %s", version)).Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	body, _ := json.Marshal(status) // cannot fail: strings and numbers only
	return &http.Response{
		Status: http.StatusText(http.StatusGone), StatusCode: http.StatusGone, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}
}

// watchBody calls ended when a watch ends. cut is true if the connection was lost, false if the server ended the response or the client closed or cancelled it.
type watchBody struct {
	io.ReadCloser
	req   *http.Request
	once  sync.Once
	ended func(cut bool)
}

func (b *watchBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.once.Do(func() { b.ended(err != io.EOF && b.req.Context().Err() == nil) })
	}
	return n, err
}

func (b *watchBody) Close() error {
	b.once.Do(func() { b.ended(false) })
	return b.ReadCloser.Close()
}
