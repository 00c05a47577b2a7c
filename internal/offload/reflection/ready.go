package reflection

import (
	"errors"
	"fmt"
	"slices"
)

// Ready returns nil once the first lists of both clusters are complete, and keeps returning nil from then on. Before that, the error says what is
// missing. Ready does not wait for the lists of an unreachable provider, nor for a list that an API server refuses: the status of the Node reports
// both.
func (e *Engine) Ready() error {
	if e.ready.Load() {
		return nil
	}
	if err := e.unlisted(); err != nil {
		return err
	}
	e.ready.Store(true)
	return nil
}

// unlisted returns an error that names a list that is not complete, nil if there is none.
func (e *Engine) unlisted() error {
	for _, r := range e.kinds {
		if !r.Mapped && !r.local.hasSynced() {
			return fmt.Errorf("the objects of kind %s in this cluster were not listed yet", r.Name)
		}
	}
	if !e.nsmap.hasSynced() {
		return fmt.Errorf("NamespaceMap %s/%s was not read yet", e.opts.Namespace, e.opts.Map)
	}
	if !e.opts.Health.State().Known {
		return errors.New("it is not known yet whether the provider is reachable")
	}
	want := e.wanted()
	e.mu.Lock()
	defer e.mu.Unlock()
	for local, at := range want {
		t := e.namespaces[local]
		if t == nil || t.remote != at.Namespace {
			return fmt.Errorf("remote namespace %s is not watched yet", at.Namespace)
		}
		for _, r := range e.kinds {
			if !t.answered(r) {
				return fmt.Errorf("the objects of kind %s in namespace %s and in remote namespace %s were not listed yet", r.Name, local, at.Namespace)
			}
		}
	}
	return nil
}

// answered reports whether all lists of a kind that are watched for this namespace were completed or refused. The caller holds the lock of the
// engine.
func (t *watchedNamespace) answered(r *reflector) bool {
	watched := slices.Clone(t.stores[r])
	if t.copied && r.Mapped {
		watched = append(append(watched, t.dependencies[r]...), t.here[r])
	}
	return !slices.ContainsFunc(watched, func(s *store) bool { return !s.hasAnswer() })
}
