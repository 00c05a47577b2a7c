package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Documents are what the page shows: JSON by key. The first part of a key is the kind of its document: cluster, peering, node, namespace, pod,
// claim, event or diagnosis. The other parts name the object. Documents must not be changed.
type Documents map[string]json.RawMessage

// Compute returns the documents of a state. They depend on the state only, and not on the order of its objects.
func Compute(state *State) Documents {
	out := Documents{}
	out.clusters(state)
	out.peerings(state)
	out.nodes(state)
	out.namespaces(state)
	out.events(state)
	out.add(diagnosisOf(state), "diagnosis")
	return out
}

// add stores a document under the key that the parts form.
func (d Documents) add(document any, key ...string) {
	data, err := json.Marshal(document)
	if err != nil {
		panic(fmt.Sprintf("document %v: %v", key, err)) // a programming error: documents are plain structures
	}
	d[strings.Join(key, "/")] = data
}

// Patch is the difference between two sets of documents.
type Patch struct {
	// Set has the documents that are new or have changed.
	Set Documents `json:"set,omitempty"`
	// Removed has the keys of the documents that are gone, in order.
	Removed []string `json:"removed,omitempty"`
}

// Empty reports whether the patch changes nothing.
func (p Patch) Empty() bool { return len(p.Set) == 0 && len(p.Removed) == 0 }

// Diff returns the patch that leads from one set of documents to another.
func Diff(before, after Documents) Patch {
	patch := Patch{Set: Documents{}}
	for key, document := range after {
		if had, there := before[key]; !there || !bytes.Equal(had, document) {
			patch.Set[key] = document
		}
	}
	for key := range before {
		if _, there := after[key]; !there {
			patch.Removed = append(patch.Removed, key)
		}
	}
	slices.Sort(patch.Removed)
	return patch
}

// Apply returns the documents with a patch applied. The page does the same.
func (p Patch) Apply(to Documents) Documents {
	out := maps.Clone(to)
	if out == nil {
		out = Documents{}
	}
	maps.Copy(out, p.Set)
	for _, key := range p.Removed {
		delete(out, key)
	}
	return out
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
