package offload

import (
	"time"

	"liqo.io/liqo/internal/offload/kinds"
)

// refusedRetry is how often an object looks whether the foreign one that has its name in the provider is gone: such ones are not watched.
const refusedRetry = 30 * time.Second

// Copy is what the rules of a kind make of one object.
type Copy struct {
	// Want is what the provider should have, nil for nothing.
	Want Object
	// Why is why there is nothing, one clause for the log.
	Why string
	// Problem is what the user should know, beside; nil for nothing.
	Problem error
}

// CopyRules are those of a kind of which a copy follows the local object, and nothing comes back.
type CopyRules struct {
	// Options at this moment.
	Options kinds.CopyOptions
	// Copy returns what the provider should have, in namespace, for a local object that is not nil.
	Copy func(local Object, namespace string) Copy
	// Merge compares what the provider has with what Copy wants.
	Merge func(have, want Object) (Object, kinds.Change)
}

// NextCopy decides what to do about an object and its copy in the provider, for every kind that has CopyRules; local and remote may be nil,
// and remote somebody else's. The laws are those of Next: the same facts give the same step, steps come to an end, an unreachable provider
// is never read as an absent copy, and nothing that another one made is touched.
//
// A copy of an object that is gone is removed, but what follows a namespace goes with it: without a twin there is nothing to do.
func NextCopy(local, remote Object, mapping Mapping, synced bool, r CopyRules) Step {
	switch {
	case r.Options.Waiting != "":
		return Step{Why: r.Options.Waiting}
	case mapping.State != Mapped:
		return Step{Why: "its namespace has no twin"}
	case !synced:
		return Step{Why: "the provider does not answer, or what both sides have was not read yet"}
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
		return Step{Why: "the copy is on its way out"}
	case c.Want == nil:
		return Step{Action: DeleteRemote, Object: remote, Why: c.Why, Confirm: true}
	}
	switch merged, change := r.Merge(remote, c.Want); change {
	case kinds.Update:
		return Step{Action: PatchRemote, Object: merged, Old: remote, Why: "the object changed"}
	case kinds.Replace:
		return Step{Action: DeleteRemote, Object: remote, Why: "what changed can't be changed in place", Confirm: true}
	default:
		return Step{Why: "the copy is right"}
	}
}
