package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// memory is an API server in this process: it stores, lists, watches and patches objects of the kinds that it is told of, and collects what has
// lost its owner. It checks nothing; an API server does that in the tests that boot one.
type memory struct {
	kinds map[string]servedKind // by group/version/resource
	id    string                // what its UIDs begin with

	mu sync.Mutex
	// discovered are the answers to discovery, by path.
	discovered map[string][]byte
	objects    map[string]map[string]any // by path; an object is replaced, never changed
	version    int
	events     []memoryEvent
	changed    chan struct{}  // closed by the next change
	touched    map[string]int // the version of the last change, by resource
	// without are the resources that this server does not know, as group/version/resource.
	without map[string]bool
}

type servedKind struct {
	group, version, resource, kind string
	namespaced                     bool
}

type memoryEvent struct {
	version int
	kind    string // ADDED, MODIFIED, DELETED
	of      string // group/version/resource
	object  map[string]any
}

// memoryPath is the parsed path of a request.
type memoryPath struct {
	of, namespace, name, sub string
}

func (p memoryPath) key() string { return p.of + " " + p.namespace + "/" + p.name }

func parsePath(path string) (memoryPath, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var out memoryPath
	switch {
	case parts[0] == "api" && len(parts) > 2:
		out.of, parts = "/"+parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		out.of, parts = parts[1]+"/"+parts[2], parts[3:]
	default:
		return out, false
	}
	if parts[0] == "namespaces" && len(parts) > 2 && !slices.Contains([]string{"status", "finalize"}, parts[2]) {
		out.namespace, parts = parts[1], parts[2:]
	}
	out.of += "/" + parts[0]
	if len(parts) > 1 {
		out.name = parts[1]
	}
	if len(parts) > 2 {
		out.sub = parts[2]
	}
	return out, true
}

// memorySnapshot is the content of a server, for another start from it.
type memorySnapshot struct {
	objects map[string]map[string]any
	version int
}

func (m *memory) snapshot() memorySnapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return memorySnapshot{maps.Clone(m.objects), m.version}
}

// restore starts from a snapshot. It recreates the channels, because the bubble of a test cannot use those of another one.
func (m *memory) restore(at memorySnapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects, m.events, m.changed, m.without = map[string]map[string]any{}, nil, make(chan struct{}), map[string]bool{}
	m.touched = map[string]int{}
	maps.Copy(m.objects, at.objects)
	m.version = at.version
}

// serve answers a request.
func (m *memory) serve(r *http.Request) *http.Response {
	if response := m.discover(r); response != nil {
		return response
	}
	path, ok := parsePath(r.URL.Path)
	kind, known := m.kinds[path.of]
	m.mu.Lock()
	defer m.mu.Unlock()
	if !ok || !known || m.without[path.of] {
		return answer(http.StatusNotFound, nil)
	}
	query := r.URL.Query()
	if r.Method == http.MethodGet && path.name == "" {
		if query.Get("watch") != "" {
			return m.watch(r, path, query.Get("resourceVersion"))
		}
		return m.list(r, path, kind)
	}
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	have := m.objects[path.key()]
	if have == nil && path.name != "" && (r.Method != http.MethodPatch || r.Header.Get("Content-Type") != string(types.ApplyPatchType)) {
		return refusal(http.StatusNotFound, metav1.StatusReasonNotFound, path, kind, fmt.Sprintf("%s %q not found", groupResource(kind), path.name))
	}
	if r.Method == http.MethodGet {
		return answer(http.StatusOK, have)
	}
	return m.change(r.Method, path, kind, isDry(query, r.Method, body), r.Header.Get("Content-Type"), have, body)
}

func (m *memory) change(method string, path memoryPath, kind servedKind, dry bool, contentType string, have map[string]any, body []byte) *http.Response {
	var given map[string]any
	if len(body) > 0 {
		if err := yaml.Unmarshal(body, &given); err != nil {
			return refusal(http.StatusBadRequest, metav1.StatusReasonBadRequest, path, kind, err.Error())
		}
	}
	if method == http.MethodDelete {
		u := unstructured.Unstructured{Object: have}
		if uid, _, _ := unstructured.NestedString(given, "preconditions", "uid"); uid != "" && uid != string(u.GetUID()) {
			return refusal(http.StatusConflict, metav1.StatusReasonConflict, path, kind, "the UID is another one")
		}
		if !dry {
			m.remove(path)
		}
		return answer(http.StatusOK, have)
	}
	var wanted map[string]any
	switch {
	case method == http.MethodPost:
		if kind.kind == "SelfSubjectAccessReview" {
			given["status"] = map[string]any{"allowed": true}
			return answer(http.StatusCreated, given)
		}
		wanted = given
		u := unstructured.Unstructured{Object: wanted}
		if path.name = u.GetName(); path.name == "" {
			path.name = fmt.Sprintf("%s%d", u.GetGenerateName(), m.version)
			u.SetName(path.name)
		}
		if have = m.objects[path.key()]; have != nil {
			return refusal(http.StatusConflict, metav1.StatusReasonAlreadyExists, path, kind, fmt.Sprintf("%s %q already exists", groupResource(kind), path.name))
		}
		if strings.Contains(kind.group, "liqo.io") {
			delete(wanted, "status")
		}
		if spec, _ := wanted["spec"].(map[string]any); kind.kind == "Tenant" && spec["tenantCondition"] == nil {
			spec["tenantCondition"] = "Active" // its default, on which commands depend
		}
	case method == http.MethodPut && path.sub == "":
		wanted = given
		if have["status"] != nil {
			wanted["status"] = have["status"]
		}
	case method == http.MethodPut: // of a subresource
		wanted = maps.Clone(have)
		wanted["status"] = given["status"]
	case contentType == string(types.JSONPatchType):
		return refusal(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, path, kind, contentType)
	default:
		if have == nil {
			wanted = given
		} else {
			wanted = merge(have, given)
		}
	}
	if kind.namespaced && m.objects["/v1/namespaces /"+path.namespace] == nil {
		return refusal(http.StatusNotFound, metav1.StatusReasonNotFound, memoryPath{name: path.namespace}, servedKind{resource: "namespaces"}, fmt.Sprintf("namespaces %q not found", path.namespace))
	}
	if dry {
		return answer(http.StatusOK, wanted)
	}
	status := http.StatusOK
	if have == nil {
		status = http.StatusCreated
	} else if sameJSON(content(have), content(wanted)) {
		return answer(http.StatusOK, have)
	}
	return answer(status, m.store(path, kind, have, wanted))
}

// content is an object without what the server keeps of it.
func content(object map[string]any) map[string]any {
	out := maps.Clone(object)
	metadata, _ := out["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	delete(metadata, "resourceVersion")
	delete(metadata, "managedFields")
	out["metadata"] = metadata
	return out
}

// isDry tells whether a request is to change nothing; a deletion says so in its body.
func isDry(query url.Values, method string, body []byte) bool {
	return query.Get("dryRun") != "" || method == http.MethodDelete && bytes.Contains(body, []byte(`"dryRun":["All"]`))
}

// merge is a JSON merge patch.
func merge(to, patch map[string]any) map[string]any {
	out := maps.Clone(to)
	for key, value := range patch {
		below, isMap := value.(map[string]any)
		at, hasMap := out[key].(map[string]any)
		switch {
		case value == nil:
			delete(out, key)
		case isMap && hasMap:
			out[key] = merge(at, below)
		default:
			out[key] = value
		}
	}
	return out
}

// store stores an object with the fields that a server sets. The caller holds the lock, as for all functions below.
func (m *memory) store(path memoryPath, kind servedKind, have, wanted map[string]any) map[string]any {
	m.version++
	object := maps.Clone(wanted)
	metadata, _ := object["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	object["metadata"] = metadata
	u := unstructured.Unstructured{Object: object}
	u.SetKind(kind.kind)
	u.SetAPIVersion(strings.TrimPrefix(kind.group+"/"+kind.version, "/"))
	u.SetName(path.name)
	u.SetNamespace(path.namespace)
	u.SetResourceVersion(strconv.Itoa(m.version))
	old := unstructured.Unstructured{Object: have}
	event := "MODIFIED"
	if have == nil {
		event = "ADDED"
		u.SetUID(types.UID(fmt.Sprintf("%s-%d", m.id, m.version)))
		u.SetGeneration(1)
		u.SetCreationTimestamp(metav1.Now())
	} else {
		u.SetUID(old.GetUID())
		u.SetGeneration(old.GetGeneration())
		u.SetCreationTimestamp(old.GetCreationTimestamp())
		if !sameJSON(have["spec"], object["spec"]) {
			u.SetGeneration(old.GetGeneration() + 1)
		}
	}
	metadata["managedFields"] = []any{map[string]any{"manager": "liqoctl", "operation": "Update", "time": time.Now().UTC().Format(time.RFC3339)}}
	m.objects[path.key()] = object
	m.tell(event, path.of, object)
	if u.GetDeletionTimestamp() != nil && len(u.GetFinalizers()) == 0 {
		m.remove(path)
	}
	return object
}

func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// remove deletes an object without finalizers, and the objects that it owns.
func (m *memory) remove(path memoryPath) {
	u := unstructured.Unstructured{Object: m.objects[path.key()]}
	if u.Object == nil {
		return
	}
	if len(u.GetFinalizers()) > 0 {
		if u.GetDeletionTimestamp() == nil {
			going := unstructured.Unstructured{Object: maps.Clone(u.Object)}
			metadata, _ := u.Object["metadata"].(map[string]any)
			going.Object["metadata"] = maps.Clone(metadata)
			now := metav1.Now()
			going.SetDeletionTimestamp(&now)
			m.version++
			m.objects[path.key()] = going.Object
			m.tell("MODIFIED", path.of, going.Object)
		}
		return
	}
	delete(m.objects, path.key())
	m.version++
	m.tell("DELETED", path.of, u.Object)
	for _, key := range slices.Sorted(maps.Keys(m.objects)) {
		other := unstructured.Unstructured{Object: m.objects[key]}
		of, _, _ := strings.Cut(key, " ")
		owned := slices.ContainsFunc(other.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == u.GetUID() })
		if other.Object != nil && (owned || path.of == "/v1/namespaces" && other.GetNamespace() == path.name) {
			m.remove(memoryPath{of: of, namespace: other.GetNamespace(), name: other.GetName()})
		}
	}
}

func (m *memory) tell(kind, of string, object map[string]any) {
	m.events = append(m.events, memoryEvent{m.version, kind, of, object})
	m.touched[of[strings.LastIndex(of, "/")+1:]] = m.version
	close(m.changed)
	m.changed = make(chan struct{})
}

// chosen tells whether a request is about an object.
func chosen(r *http.Request, path memoryPath) func(map[string]any) bool {
	byLabel, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		panic(err)
	}
	byField, err := fields.ParseSelector(r.URL.Query().Get("fieldSelector"))
	if err != nil {
		panic(err)
	}
	return func(object map[string]any) bool {
		u := unstructured.Unstructured{Object: object}
		if path.namespace != "" && u.GetNamespace() != path.namespace || !byLabel.Matches(labels.Set(u.GetLabels())) {
			return false
		}
		name, named := byField.RequiresExactMatch("metadata.name")
		return !named || u.GetName() == name
	}
}

func (m *memory) list(r *http.Request, path memoryPath, kind servedKind) *http.Response {
	items := []any{}
	matches := chosen(r, path)
	for _, key := range slices.Sorted(maps.Keys(m.objects)) {
		if of, _, _ := strings.Cut(key, " "); of == path.of && matches(m.objects[key]) {
			items = append(items, m.objects[key])
		}
	}
	apiVersion, list := strings.TrimPrefix(kind.group+"/"+kind.version, "/"), kind.kind+"List"
	if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
		apiVersion, list = "meta.k8s.io/v1", "PartialObjectMetadataList"
	}
	return answer(http.StatusOK, map[string]any{
		"apiVersion": apiVersion, "kind": list, "metadata": map[string]any{"resourceVersion": strconv.Itoa(m.version)}, "items": items,
	})
}

// watch sends every change since a version until the client stops reading.
func (m *memory) watch(r *http.Request, path memoryPath, since string) *http.Response {
	from, err := strconv.Atoi(since)
	if err != nil {
		from = m.version
	}
	matches := chosen(r, path)
	reader, writer := io.Pipe()
	gone := make(chan struct{})
	go func() {
		defer func() { _ = writer.Close() }()
		for at := 0; ; {
			m.mu.Lock()
			events, changed := m.events, m.changed
			m.mu.Unlock()
			for ; at < len(events); at++ {
				event := events[at]
				if event.version <= from || event.of != path.of || !matches(event.object) {
					continue
				}
				frame, err := json.Marshal(map[string]any{"type": event.kind, "object": event.object})
				if err != nil {
					panic(err)
				}
				if _, err := writer.Write(append(frame, '\n')); err != nil {
					return
				}
			}
			select {
			case <-changed:
			case <-gone:
				return
			case <-r.Context().Done():
				_ = writer.CloseWithError(r.Context().Err())
				return
			}
		}
	}()
	response := answer(http.StatusOK, nil)
	response.Body = &watchBody{PipeReader: reader, gone: gone}
	return response
}

type watchBody struct {
	*io.PipeReader
	once sync.Once
	gone chan struct{}
}

func (b *watchBody) Close() error {
	b.once.Do(func() { close(b.gone) })
	return b.PipeReader.Close()
}

func groupResource(kind servedKind) string {
	return strings.TrimSuffix(kind.resource+"."+kind.group, ".")
}

func answer(status int, object any) *http.Response {
	body := []byte("404 page not found\n")
	contentType := "text/plain; charset=utf-8"
	if object != nil {
		var err error
		if body, err = json.Marshal(object); err != nil {
			panic(err)
		}
		contentType = "application/json"
	} else if status == http.StatusOK {
		contentType = "application/json"
	}
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: -1,
	}
}

// refusal returns the error response of an API server.
func refusal(code int, reason metav1.StatusReason, path memoryPath, kind servedKind, message string) *http.Response {
	return answer(code, &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
		Details: &metav1.StatusDetails{Name: path.name, Group: kind.group, Kind: kind.resource},
	})
}
