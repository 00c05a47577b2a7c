package offload

import (
	"time"

	"liqo.io/liqo/internal/offload/kinds"
)

// refusedRetry is the requeue interval for an object whose name is taken in the provider by a foreign object, since foreign objects are not watched.
const refusedRetry = 30 * time.Second

// Copy is the result of a kind's copy rules for one object.
type Copy struct {
	// Want is the desired object in the provider, nil for none.
	Want Object
	// Why is the reason why Want is nil: one clause for the log.
	Why string
	// Problem is an additional message for the user; nil for none.
	Problem error
}

// CopyRules are the rules for a kind that is only copied to the provider: the copy follows the local object, and nothing is copied back.
type CopyRules struct {
	// Options are the current options of the kind.
	Options kinds.CopyOptions
	// Copy returns the copy of local (not nil) that should exist in the given namespace of the provider.
	Copy func(local Object, namespace string) Copy
	// Merge compares the provider's object with the object that Copy wants. It returns the merged object and the change that is needed.
	Merge func(have, want Object) (Object, kinds.Change)
}

// NextCopy decides what to do about an object and its copy in the provider, for every kind that has CopyRules. local and remote may be nil, and
// remote may belong to another owner.
//
// The guarantees are those of Next. The same facts give the same step, and the sequence of steps is finite. An unreachable provider is never treated
// as a missing copy, and objects of other owners are never changed.
//
// NextCopy deletes the copy when the local object was deleted. When the remote namespace was deleted, NextCopy does nothing, because the copies were
// deleted with it.
func NextCopy(local, remote Object, mapping Mapping, synced bool, r CopyRules) Step {
	switch {
	case r.Options.Waiting != "":
		return Step{Why: r.Options.Waiting}
	case mapping.State != Mapped:
		return Step{Why: "its namespace has no remote namespace"}
	case !synced:
		return Step{Why: "the provider is unreachable, or the objects of both clusters were not read yet"}
	}
	c := Copy{Why: "the object is gone"}
	if local != nil && local.GetDeletionTimestamp() != nil {
		c.Why = "the object is being deleted"
	} else if local != nil {
		c = r.Copy(local, mapping.Namespace)
	}
	s := nextCopy(remote, c, r)
	if c.Problem != nil && s.Warning == "" {
		s.Warning = c.Problem.Error()
	}
	return s
}

func nextCopy(remote Object, c Copy, r CopyRules) Step {
	ours := remote != nil && kinds.Owns(remote, r.Options)
	switch {
	case c.Want == nil && !ours:
		return Step{Why: c.Why}
	case remote == nil:
		return Step{Action: CreateRemote, Object: c.Want, Why: "the provider has no copy"}
	case !ours:
		return Step{Why: "the name is taken", After: refusedRetry, Warning: "an object of that name exists in cluster " + r.Options.Destination +
			", namespace " + remote.GetNamespace() + ", and is not a copy of this one: it is left alone"}
	case remote.GetDeletionTimestamp() != nil:
		return Step{Why: "the copy is being deleted"}
	case c.Want == nil:
		return Step{Action: DeleteRemote, Object: remote, Why: c.Why, Confirm: true}
	}
	switch merged, change := r.Merge(remote, c.Want); change {
	case kinds.Update:
		return Step{Action: PatchRemote, Object: merged, Old: remote, Why: "the object changed"}
	case kinds.Replace:
		return Step{Action: DeleteRemote, Object: remote, Why: "the change affects an immutable field", Confirm: true}
	default:
		return Step{Why: "the copy is up to date"}
	}
}
