package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Limits are the limits of a cache of another cluster's objects.
type Limits struct {
	// Objects is the number of objects.
	Objects int
	// Bytes is the size of all objects together, in JSON.
	Bytes int
}

// LimitCache wraps lw so that it returns an error instead of an object that exceeds the limits. A cache that uses it then keeps its objects and lists again
// later. Without limits, another cluster could fill the memory of a process that also serves other clusters.
//
// LimitCache calls report with each such error, and if a list exceeds LimitResponses. It calls report with nil after each complete list within the limits.
// report may be nil.
func LimitCache(lw cache.ListerWatcher, limits Limits, report func(error)) cache.ListerWatcher {
	if report == nil {
		report = func(error) {}
	}
	return &limited{next: cache.ToListerWatcherWithContext(lw), limits: limits, report: report, sizes: map[types.NamespacedName]int{}}
}

// limited is the ListerWatcher that LimitCache returns.
type limited struct {
	next   cache.ListerWatcherWithContext
	limits Limits
	report func(error)

	mu sync.Mutex
	// sizes are the sizes of the objects that the cache has, bytes is their sum.
	sizes map[types.NamespacedName]int
	bytes int
}

// List implements cache.ListerWatcher.
func (l *limited) List(options metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), options)
}

// Watch implements cache.ListerWatcher.
func (l *limited) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), options)
}

// ListWithContext implements cache.ListerWatcherWithContext. The limits hold for all pages of a list together.
func (l *limited) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if options.Continue == "" {
		l.reset()
	}
	list, err := l.next.ListWithContext(ctx, options)
	for _, refusal := range []error{errTooMany, errTooLarge, errListsTooLarge, errTooSlow, errNotJSON} { // errTooMany is an errTooLarge
		if errors.Is(err, refusal) {
			l.report(refusal)
			break
		}
	}
	if err != nil {
		return nil, err
	}
	if err := meta.EachListItem(list, l.count); err != nil {
		l.report(err)
		return nil, err
	}
	if of, err := meta.ListAccessor(list); err == nil && of.GetContinue() == "" {
		l.report(nil)
	}
	return list, nil
}

// WatchWithContext implements cache.ListerWatcherWithContext. A watch that exceeds the limits ends with an error.
func (l *limited) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if options.SendInitialEvents != nil && *options.SendInitialEvents {
		l.reset()
	}
	w, err := l.next.WatchWithContext(ctx, options)
	if err != nil {
		return nil, err
	}
	ended := false
	return watch.Filter(w, func(event watch.Event) (watch.Event, bool) {
		if ended {
			return event, false
		}
		var err error
		switch event.Type {
		case watch.Added, watch.Modified:
			err = l.count(event.Object)
		case watch.Deleted:
			l.drop(event.Object)
		case watch.Error:
			if text := apierrors.FromObject(event.Object).Error(); strings.Contains(text, errTooMany.Error()) {
				l.report(errTooMany)
			}
		case watch.Bookmark:
			if endsList(event.Object) {
				l.report(nil)
			}
		}
		if err == nil {
			return event, true
		}
		ended = true
		l.report(err)
		status := apierrors.NewInternalError(err).Status()
		return watch.Event{Type: watch.Error, Object: &status}, true
	}), nil
}

// endsList reports whether a bookmark ends the initial events of a watch, which replace a list.
func endsList(bookmark runtime.Object) bool {
	o, err := meta.Accessor(bookmark)
	return err == nil && o.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}

func (l *limited) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.sizes)
	l.bytes = 0
}

// count adds an object, or its new state. It returns an error if the cache would then exceed the limits.
func (l *limited) count(obj runtime.Object) error {
	key, err := keyOf(obj)
	if err != nil {
		return err
	}
	data, err := json.Marshal(obj)
	if err != nil {
		return fmt.Errorf("measuring %s: %w", key, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes += len(data) - l.sizes[key]
	l.sizes[key] = len(data)
	switch {
	case len(l.sizes) > l.limits.Objects:
		return fmt.Errorf("there are more than %d objects", l.limits.Objects)
	case l.bytes > l.limits.Bytes:
		return fmt.Errorf("the objects have more than %d bytes", l.limits.Bytes)
	}
	return nil
}

func (l *limited) drop(obj runtime.Object) {
	if key, err := keyOf(obj); err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.bytes -= l.sizes[key]
		delete(l.sizes, key)
	}
}

func keyOf(obj runtime.Object) (types.NamespacedName, error) {
	o, err := meta.Accessor(obj)
	if err != nil {
		return types.NamespacedName{}, fmt.Errorf("reading the name of %T: %w", obj, err)
	}
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}, nil
}

// LimitResponses limits the size of each response over cfg, the memory that it uses when it is decoded, and the time from the request to the end of the response.
// Of a watch, which has no end, it limits the memory of each event. It does not limit commands in pods, whose output is a stream.
//
// lists limits the size of the lists that are read in pages: of the latest list of each path and selector, together. 0 means no limit. A limit of each response does
// not suffice for them, because a server can always announce another page.
func LimitResponses(cfg *rest.Config, bytes, lists int64, within time.Duration) {
	pages := &readPages{limit: lists, read: map[string]int64{}} // of all transports of cfg
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &limitedResponses{next, bytes, within, pages} })
}

type limitedResponses struct {
	next   http.RoundTripper
	bytes  int64
	within time.Duration
	pages  *readPages
}

// WrappedRoundTripper returns the wrapped transport, for callers that search for a transport of a certain type.
func (r *limitedResponses) WrappedRoundTripper() http.RoundTripper { return r.next }

// RoundTrip implements http.RoundTripper. The first page of a list replaces the list that was read before.
func (r *limitedResponses) RoundTrip(req *http.Request) (*http.Response, error) {
	if IsExec(req.URL.Path) {
		return r.next.RoundTrip(req)
	}
	query := req.URL.Query()
	body := &limitedBody{left: r.bytes, watch: query.Get("watch") != "", decoded: decoded{limit: r.bytes * decodedFactor}, pages: r.pages, path: req.URL.Path}
	if body.ctx, body.end = req.Context(), func() {}; !body.watch {
		body.ctx, body.end = context.WithTimeoutCause(body.ctx, r.within, errTooSlow)
	}
	response, err := r.next.RoundTrip(requestJSON(req.WithContext(body.ctx)))
	if err != nil {
		err = timely(body.ctx, err)
		body.end()
		return nil, err
	}
	body.ReadCloser, response.Body = response.Body, body
	if body.json, err = isJSON(response); err != nil {
		return nil, errors.Join(err, body.Close())
	}
	if query.Has("limit") && !body.watch && r.pages.limit > 0 {
		body.list = req.URL.Path + " " + query.Get("labelSelector") + " " + query.Get("fieldSelector")
		if query.Get("continue") == "" {
			r.pages.begin(body.list)
		}
	}
	return response, nil
}

// readPages counts the bytes of lists that are read in pages.
type readPages struct {
	limit int64
	mu    sync.Mutex
	// read are the bytes of the pages of each list, total is their sum.
	read  map[string]int64
	total int64
}

// begin forgets the pages of a list, because it is read again.
func (r *readPages) begin(list string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total -= r.read[list]
	delete(r.read, list)
}

// count adds bytes of a list, and reports whether all lists are within the limit.
func (r *readPages) count(list string, bytes int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total += bytes
	r.read[list] += bytes
	return r.total <= r.limit
}

// IsExec reports whether a path is that of a command in a pod. Its response is a stream without an end.
func IsExec(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/") // api/v1/namespaces/NAMESPACE/pods/NAME/exec
	if len(parts) < 7 {
		return false
	}
	parts = parts[len(parts)-7:]
	return parts[0] == "api" && parts[2] == "namespaces" && parts[4] == "pods" && parts[6] == "exec"
}

// The errors of a response that exceeds a limit.
var (
	errTooLarge      = errors.New("the response of the other cluster is too large")
	errTooMany       = fmt.Errorf("%w: it has too many small items", errTooLarge)
	errNotJSON       = errors.New("the response of the other cluster is not JSON, which was requested")
	errListsTooLarge = errors.New("the lists of the other cluster are too large")
	errTooSlow       = errors.New("the response of the other cluster takes too long: the connection is too slow for its size, or the other cluster holds it back")
)

// timely returns errTooSlow in place of an error that the end of the time for a response caused.
func timely(ctx context.Context, err error) error {
	if err != nil && !errors.Is(err, io.EOF) && errors.Is(context.Cause(ctx), errTooSlow) {
		return errTooSlow
	}
	return err
}

type limitedBody struct {
	io.ReadCloser
	left        int64
	watch, json bool
	decoded     decoded // of a response in JSON
	pages       *readPages
	list, path  string          // list is empty unless the response is a page of a list
	ctx         context.Context // the context of the request, which lasts until the response ends
	end         context.CancelFunc
}

// Close implements io.Closer.
func (b *limitedBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	before := b.decoded.used
	b.left -= int64(n)
	switch {
	case b.left < 0 && !b.watch:
		return 0, errTooLarge
	case b.json && !b.decoded.add(p[:n], b.watch):
		return 0, errTooMany
	case b.list != "" && !b.pages.count(b.list, max(int64(n), (b.decoded.used-before)/pagesFactor)):
		return 0, fmt.Errorf("%w: more than %s together; the last one was %s", errListsTooLarge, resource.NewQuantity(b.pages.limit, resource.BinarySI), b.path)
	}
	return n, timely(b.ctx, err)
}
