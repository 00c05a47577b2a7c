package preview

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/kube"
)

// Placeholder stands for a value that only the API server assigns to a persisted object, such as the resource version.
const Placeholder = "planned"

// DryRun is a client for dry runs. The API server validates each write but does not persist it. Later reads return the result as if the writes
// had been persisted, so that a command can run to its end: a created object exists afterwards, and a deleted object does not.
type DryRun struct {
	client.Client // a dry-run client: its writes are only validated
	watcher       client.WithWatch
	out           *console.Console
	changes       *atomic.Int32

	mu      sync.Mutex
	waits   []string
	planned map[plannedKey]*plannedObject
}

type plannedKey struct {
	schema.GroupKind
	client.ObjectKey
}

type plannedObject struct {
	content map[string]any
	// gone means that the dry run has deleted the object. made means that the dry run has created the object, so the API server does not have it.
	gone, made bool
}

// NewDryRun returns a client that sends its reads, and its writes for validation, to c. It prints each write to out, and counts them in changes.
func NewDryRun(c client.WithWatch, out *console.Console, changes *atomic.Int32) *DryRun {
	return &DryRun{Client: client.NewDryRunClient(c), watcher: c, out: out, changes: changes, planned: map[plannedKey]*plannedObject{}}
}

func (c *DryRun) key(object client.Object, key client.ObjectKey) (plannedKey, error) {
	gvk, err := apiutil.GVKForObject(object, c.Scheme())
	return plannedKey{gvk.GroupKind(), key}, err
}

// WaitsFor prints what the command would wait for, once for each text.
func (c *DryRun) WaitsFor(what string) {
	c.mu.Lock()
	printed := slices.Contains(c.waits, what)
	c.waits = append(c.waits, what)
	c.mu.Unlock()
	if !printed {
		c.out.Info("It would wait for %s", what)
	}
}

// wrote prints a write and increments the number of writes.
func (c *DryRun) wrote(format string, args ...any) {
	c.changes.Add(1)
	c.out.Info("%s", fmt.Sprintf(format, args...))
}

// PrintTo makes the client print to another console.
func (c *DryRun) PrintTo(out *console.Console) { c.out = out }

// at returns the planned state of an object, or nil if it has none. It returns a NotFound error if the object would be deleted.
func (c *DryRun) at(object client.Object, name client.ObjectKey) (*plannedObject, error) {
	key, err := c.key(object, name)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if planned := c.planned[key]; planned != nil && !planned.gone {
		return planned, nil
	} else if planned != nil || c.without(name.Namespace) {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: key.Group, Resource: key.Kind}, name.Name)
	}
	return nil, nil
}

// without reports whether a namespace would be deleted with all its objects. The caller must hold the lock.
func (c *DryRun) without(namespace string) bool {
	planned := c.planned[plannedKey{schema.GroupKind{Kind: "Namespace"}, client.ObjectKey{Name: namespace}}]
	return planned != nil && planned.gone
}

// making reports whether the dry run would create a namespace.
func (c *DryRun) making(namespace string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	planned := c.planned[plannedKey{schema.GroupKind{Kind: "Namespace"}, client.ObjectKey{Name: namespace}}]
	return planned != nil && planned.made
}

// Remember stores the planned state of the object. made means that the API server does not have the object.
func (c *DryRun) Remember(object client.Object, made bool) error {
	key, err := c.key(object, client.ObjectKeyFromObject(object))
	if err != nil {
		return err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.planned[key] = &plannedObject{content: content, made: made}
	return nil
}

// Forget records the object as deleted.
func (c *DryRun) Forget(object client.Object) error {
	key, err := c.key(object, client.ObjectKeyFromObject(object))
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.planned[key] = &plannedObject{gone: true}
	return nil
}

// Get reads the planned state of an object, or else the object itself.
func (c *DryRun) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	planned, err := c.at(object, key)
	switch {
	case err != nil:
		return err
	case planned != nil:
		return runtime.DefaultUnstructuredConverter.FromUnstructured(planned.content, object)
	}
	return c.Client.Get(ctx, key, object, options...)
}

// List reads objects as they would be after the planned writes.
func (c *DryRun) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := c.Client.List(ctx, list, options...); err != nil {
		return err
	}
	gvk, err := apiutil.GVKForObject(list, c.Scheme())
	if err != nil {
		return err
	}
	kind := schema.GroupKind{Group: gvk.Group, Kind: strings.TrimSuffix(gvk.Kind, "List")}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := slices.DeleteFunc(items, func(item runtime.Object) bool {
		object, ok := item.(client.Object)
		return ok && (c.planned[plannedKey{kind, client.ObjectKeyFromObject(object)}] != nil || c.without(object.GetNamespace()))
	})
	var wanted client.ListOptions
	wanted.ApplyOptions(options)
	for _, key := range slices.SortedFunc(maps.Keys(c.planned), func(a, b plannedKey) int { return strings.Compare(a.ObjectKey.String(), b.ObjectKey.String()) }) {
		planned := c.planned[key]
		if key.GroupKind != kind || planned.gone || !matches(&wanted, planned.content) {
			continue
		}
		item, err := newItem(list)
		if err != nil {
			return err
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(planned.content, item); err != nil {
			return err
		}
		kept = append(kept, item)
	}
	return meta.SetList(list, kept)
}

func matches(wanted *client.ListOptions, content map[string]any) bool {
	object := unstructured.Unstructured{Object: content}
	return (wanted.Namespace == "" || wanted.Namespace == object.GetNamespace()) &&
		(wanted.LabelSelector == nil || wanted.LabelSelector.Matches(labels.Set(object.GetLabels()))) &&
		(wanted.FieldSelector == nil || wanted.FieldSelector.Matches(fields.Set{"metadata.name": object.GetName(), "metadata.namespace": object.GetNamespace()}))
}

// newItem creates an empty item of a list.
func newItem(list client.ObjectList) (runtime.Object, error) {
	items, err := meta.GetItemsPtr(list)
	if err != nil {
		return nil, err
	}
	item, ok := reflect.New(reflect.TypeOf(items).Elem().Elem()).Interface().(runtime.Object)
	if !ok {
		return nil, fmt.Errorf("%T holds no objects", list)
	}
	return item, nil
}

// Watch calls the client. A dry run does not wait for changes.
func (c *DryRun) Watch(ctx context.Context, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
	return c.watcher.Watch(ctx, list, options...)
}

// Create lets the API server validate the object, if its namespace exists there. It sends a SelfSubjectAccessReview unchanged.
func (c *DryRun) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if _, asks := object.(*authorizationv1.SelfSubjectAccessReview); asks {
		return c.Client.Create(ctx, object, options...)
	}
	planned, err := c.at(object, client.ObjectKeyFromObject(object))
	again := err != nil // the dry run has deleted the object before, but the API server still has it
	if planned != nil {
		return apierrors.NewAlreadyExists(schema.GroupResource{Resource: kube.Called(c, object)}, object.GetName())
	}
	unchecked := ""
	err = c.Client.Create(ctx, object, options...)
	switch {
	case apierrors.IsNotFound(err) && c.making(object.GetNamespace()):
		unchecked = ", which can be checked once its namespace exists"
	case again && apierrors.IsAlreadyExists(err):
	case err != nil:
		return err
	}
	if object.GetResourceVersion() == "" {
		object.SetResourceVersion(Placeholder)
	}
	if object.GetUID() == "" {
		object.SetUID(Placeholder)
	}
	c.wrote("%s would be created%s", kube.Called(c, object), unchecked)
	return c.Remember(object, true)
}

// Update has the API server validate the object.
func (c *DryRun) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	return c.change(object, "", func() error { return c.Client.Update(ctx, object, options...) })
}

// Patch has the API server validate the change.
func (c *DryRun) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	return c.change(object, changedFields(data), func() error { return c.Client.Patch(ctx, object, patch, options...) })
}

// change stores the wanted state of an object after the API server has validated it. An object that the API server does not have is not
// validated.
func (c *DryRun) change(object client.Object, what string, check func() error) error {
	planned, err := c.at(object, client.ObjectKeyFromObject(object))
	if err != nil {
		return err
	}
	wanted := object.DeepCopyObject()
	if planned == nil || !planned.made {
		if err := check(); err != nil {
			return err
		}
	}
	if planned != nil { // the API server's response lacks the earlier planned changes
		kube.Overwrite(object, wanted)
	}
	if what != "" {
		what = ": " + what
	}
	c.wrote("%s would be changed%s", kube.Called(c, object), what)
	return c.Remember(object, planned != nil && planned.made)
}

// changedFields lists the fields that a merge patch changes.
func changedFields(patch []byte) string {
	var content map[string]any
	if err := json.Unmarshal(patch, &content); err != nil {
		return ""
	}
	var out []string
	var walk func(path string, at map[string]any)
	walk = func(path string, at map[string]any) {
		for field, value := range at {
			below := path + "." + field
			if strings.ContainsAny(field, "./") {
				below = path + "[" + field + "]"
			}
			if under, isMap := value.(map[string]any); isMap && len(under) > 0 {
				walk(below, under)
			} else if below != ".metadata.resourceVersion" {
				out = append(out, strings.TrimPrefix(below, "."))
			}
		}
	}
	walk("", content)
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// Delete has the API server check whether the object can be deleted.
func (c *DryRun) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	planned, err := c.at(object, client.ObjectKeyFromObject(object))
	if err != nil {
		return err
	}
	if planned == nil || !planned.made {
		if err := c.Client.Delete(ctx, object, options...); err != nil {
			return err
		}
	}
	c.wrote("%s would be deleted", kube.Called(c, object))
	return c.Forget(object)
}

// SubResource returns a client for a subresource, whose updates are only validated too.
func (c *DryRun) SubResource(of string) client.SubResourceClient {
	return &plannedPart{SubResourceClient: c.Client.SubResource(of), dryRunClient: c, of: of}
}

type plannedPart struct {
	client.SubResourceClient
	dryRunClient *DryRun
	of           string
}

// Update has the API server validate the subresource.
func (p *plannedPart) Update(ctx context.Context, object client.Object, options ...client.SubResourceUpdateOption) error {
	return p.dryRunClient.change(object, p.of, func() error { return p.SubResourceClient.Update(ctx, object, options...) })
}
