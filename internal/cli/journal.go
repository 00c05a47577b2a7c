package cli

import (
	"context"
	"fmt"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// fewChanges are told of a command that failed; the rest is counted.
const fewChanges = 6

// journal remembers what a command changed, to tell it when the command fails after that.
type journal struct {
	mu      sync.Mutex
	changes []string
	// undone is that of a command that takes back itself what it changed.
	undone bool
}

func (j *journal) note(change string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.changes = append(j.changes, change)
}

// takenBack is called by a command that leaves nothing behind when it fails, or tells itself what it leaves.
func (j *journal) takenBack() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.undone = true
}

// told adds to an error what was changed before it. Every command can be run again at any point, so that is the cure.
func (j *journal) told(err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.changes) == 0 || j.undone {
		return err
	}
	changes := j.changes
	more := ""
	if len(changes) > fewChanges {
		more = fmt.Sprintf(", and %d more", len(changes)-fewChanges)
		changes = changes[:fewChanges]
	}
	return fmt.Errorf("%w\nDone before and left so: %s%s. The same command goes on from there", err, strings.Join(changes, ", "), more)
}

// journaled is a client that notes what it changed.
type journaled struct {
	client.WithWatch
	journal *journal
	scope   string
}

func (c *journaled) note(err error, object client.Object, what string) error {
	if _, asks := object.(*authorizationv1.SelfSubjectAccessReview); err != nil || asks {
		return err
	}
	kind := fmt.Sprintf("%T", object)
	if gvk, err := apiutil.GVKForObject(object, c.Scheme()); err == nil {
		kind = gvk.Kind
	}
	name := strings.TrimPrefix(client.ObjectKeyFromObject(object).String(), "/")
	if c.scope != "" {
		what += " (" + c.scope + ")"
	}
	c.journal.note(fmt.Sprintf("%s %s %s", kind, name, what))
	return nil
}

// Create is that of the client, noted.
func (c *journaled) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	return c.note(c.WithWatch.Create(ctx, object, options...), object, "created")
}

// Update is that of the client, noted.
func (c *journaled) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	return c.note(c.WithWatch.Update(ctx, object, options...), object, "changed")
}

// Patch is that of the client, noted.
func (c *journaled) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	return c.note(c.WithWatch.Patch(ctx, object, patch, options...), object, "changed")
}

// SubResource is that of the client, whose updates are noted.
func (c *journaled) SubResource(of string) client.SubResourceClient {
	return &journaledPart{SubResourceClient: c.WithWatch.SubResource(of), journal: c}
}

type journaledPart struct {
	client.SubResourceClient
	journal *journaled
}

// Update is that of the client, noted.
func (p *journaledPart) Update(ctx context.Context, object client.Object, options ...client.SubResourceUpdateOption) error {
	return p.journal.note(p.SubResourceClient.Update(ctx, object, options...), object, "changed")
}

// Delete is that of the client, noted.
func (c *journaled) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	return c.note(c.WithWatch.Delete(ctx, object, options...), object, "deleted")
}
