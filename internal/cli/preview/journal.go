package preview

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// fewChanges is the number of changes that the error of a failed command lists. Further changes are only counted.
const fewChanges = 6

// Journal records the changes that a command makes, so that the command can list them if it fails later.
type Journal struct {
	mu      sync.Mutex
	changes []string
	// undone means that the command rolls back its changes itself.
	undone bool
}

func (j *Journal) note(change string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.changes = append(j.changes, change)
}

// RollsBack records that the command itself rolls back its changes after a failure, or reports the remaining changes.
func (j *Journal) RollsBack() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.undone = true
}

// WithChanges appends the recorded changes to an error, and the advice to run the command again, which every command permits at any point.
func (j *Journal) WithChanges(err error) error {
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
	return fmt.Errorf("%w\nApplied before the failure: %s%s. Run the command again to resume", err, strings.Join(changes, ", "), more)
}

// Recording returns the client with each of its successful writes recorded. scope names the cluster in the records, and is empty if there is only one.
func (j *Journal) Recording(c client.WithWatch, scope string) client.WithWatch {
	return &journaled{WithWatch: c, journal: j, scope: scope}
}

// Unrecorded returns the client of Recording as it was before. It returns other clients unchanged.
func Unrecorded(c client.WithWatch) client.WithWatch {
	if recording, ok := c.(*journaled); ok {
		return recording.WithWatch
	}
	return c
}

// Changes returns the recorded changes.
func (j *Journal) Changes() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.changes)
}

// journaled is a client that records its successful writes in the journal.
type journaled struct {
	client.WithWatch
	journal *Journal
	scope   string
}

// note records a write, unless it has failed or changed nothing, and returns err unchanged. dryRun is the option of the request.
func (c *journaled) note(dryRun []string, err error, object client.Object, what string) error {
	if _, asks := object.(*authorizationv1.SelfSubjectAccessReview); err != nil || asks || len(dryRun) > 0 {
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

// Create calls the client and records the change.
func (c *journaled) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	dryRun := (&client.CreateOptions{}).ApplyOptions(options).DryRun
	return c.note(dryRun, c.WithWatch.Create(ctx, object, options...), object, "created")
}

// Update calls the client and records the change.
func (c *journaled) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	dryRun := (&client.UpdateOptions{}).ApplyOptions(options).DryRun
	return c.note(dryRun, c.WithWatch.Update(ctx, object, options...), object, "changed")
}

// Patch calls the client and records the change.
func (c *journaled) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	dryRun := (&client.PatchOptions{}).ApplyOptions(options).DryRun
	return c.note(dryRun, c.WithWatch.Patch(ctx, object, patch, options...), object, "changed")
}

// SubResource returns a client for a subresource, whose updates are recorded too.
func (c *journaled) SubResource(of string) client.SubResourceClient {
	return &journaledPart{SubResourceClient: c.WithWatch.SubResource(of), journal: c}
}

type journaledPart struct {
	client.SubResourceClient
	journal *journaled
}

// Update calls the client and records the change.
func (p *journaledPart) Update(ctx context.Context, object client.Object, options ...client.SubResourceUpdateOption) error {
	dryRun := (&client.SubResourceUpdateOptions{}).ApplyOptions(options).DryRun
	return p.journal.note(dryRun, p.SubResourceClient.Update(ctx, object, options...), object, "changed")
}

// Delete calls the client and records the change.
func (c *journaled) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	dryRun := (&client.DeleteOptions{}).ApplyOptions(options).DryRun
	return c.note(dryRun, c.WithWatch.Delete(ctx, object, options...), object, "deleted")
}
