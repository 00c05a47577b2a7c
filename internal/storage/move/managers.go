package move

import (
	"bytes"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Manager is the field manager of the command that moves volumes. Kubernetes derives it from the user agent of the command's client.
//
// A command that creates or changes a field becomes its manager. If the field belonged to a GitOps tool that uses server-side apply, the next apply of that tool
// conflicts with the command. So a move records the managers, and handedBack returns the fields to them. See Server-Side Apply in the documentation of Kubernetes.
const Manager = "liqoctl"

// managersOf returns what the other field managers of an object have, without fields of its subresources.
func managersOf(obj metav1.Object) (out []metav1.ManagedFieldsEntry) {
	for _, entry := range obj.GetManagedFields() {
		if entry.Manager != Manager && entry.Subresource == "" {
			out = append(out, entry)
		}
	}
	return out
}

// managersOfField returns the other field managers of an object that have one field, with that field alone.
func managersOfField(obj metav1.Object, path ...any) (out []metav1.ManagedFieldsEntry, err error) {
	field := fieldpath.NewSet(fieldpath.MakePathOrDie(path...))
	for _, entry := range managersOf(obj) {
		fields, err := fieldsOf(obj, &entry)
		if err != nil {
			return nil, err
		}
		if fields.Intersection(field).Empty() {
			continue
		}
		if err := setFields(obj, &entry, field); err != nil {
			return nil, err
		}
		out = append(out, entry)
	}
	return out, nil
}

// handedBack returns the field managers of an object after the fields of the command were returned to the managers that they had before. due is false if the
// command has none of these fields. A field that another manager has taken meanwhile stays with it.
func handedBack(obj metav1.Object, before []metav1.ManagedFieldsEntry) (out []metav1.ManagedFieldsEntry, due bool, err error) {
	now := slices.Clone(obj.GetManagedFields())
	mine, err := ownFields(obj)
	if err != nil {
		return nil, false, err
	}
	given := fieldpath.NewSet()
	for i := range before {
		fields, err := fieldsOf(obj, &before[i])
		if err != nil {
			return nil, false, err
		}
		if fields = fields.Intersection(mine); fields.Empty() {
			continue
		}
		given = given.Union(fields)
		at := slices.IndexFunc(now, func(e metav1.ManagedFieldsEntry) bool { return sameManager(&e, &before[i]) })
		if at < 0 {
			at, now = len(now), append(now, before[i])
		} else {
			has, err := fieldsOf(obj, &now[at])
			if err != nil {
				return nil, false, err
			}
			fields = fields.Union(has)
		}
		if err := setFields(obj, &now[at], fields); err != nil {
			return nil, false, err
		}
	}
	if given.Empty() {
		return nil, false, nil
	}
	for _, entry := range now {
		if isOwn(&entry) {
			fields, err := fieldsOf(obj, &entry)
			if err != nil {
				return nil, false, err
			}
			if fields = fields.Difference(given); fields.Empty() {
				continue
			}
			if err := setFields(obj, &entry, fields); err != nil {
				return nil, false, err
			}
		}
		out = append(out, entry)
	}
	return out, true, nil
}

// isOwn reports whether an entry has fields that the command has written.
func isOwn(entry *metav1.ManagedFieldsEntry) bool {
	return entry.Manager == Manager && entry.Operation == metav1.ManagedFieldsOperationUpdate && entry.Subresource == ""
}

// ownFields returns the fields that the command has written.
func ownFields(obj metav1.Object) (*fieldpath.Set, error) {
	out := fieldpath.NewSet()
	for _, entry := range obj.GetManagedFields() {
		if !isOwn(&entry) {
			continue
		}
		fields, err := fieldsOf(obj, &entry)
		if err != nil {
			return nil, err
		}
		out = out.Union(fields)
	}
	return out, nil
}

func sameManager(a, b *metav1.ManagedFieldsEntry) bool {
	return a.Manager == b.Manager && a.Operation == b.Operation && a.APIVersion == b.APIVersion && a.Subresource == b.Subresource
}

func fieldsOf(obj metav1.Object, entry *metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	out := fieldpath.NewSet()
	if entry.FieldsV1 == nil {
		return out, nil
	}
	if err := out.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())); err != nil {
		return nil, fmt.Errorf("metadata.managedFields of %s in namespace %s: the fields of manager %s: %w", obj.GetName(), obj.GetNamespace(), entry.Manager, err)
	}
	return out, nil
}

func setFields(obj metav1.Object, entry *metav1.ManagedFieldsEntry, fields *fieldpath.Set) error {
	text, err := fields.ToJSON()
	if err != nil {
		return fmt.Errorf("metadata.managedFields of %s in namespace %s: the fields of manager %s: %w", obj.GetName(), obj.GetNamespace(), entry.Manager, err)
	}
	entry.FieldsV1 = metav1.NewFieldsV1(string(text))
	return nil
}

// handBack returns the fields of the claim to the managers that they had before the move. due is false once that is done.
func (m *move) handBack(phase Phase) (step Step, due bool) {
	if m.Claim == nil || m.Claim.DeletionTimestamp != nil {
		return Step{}, false
	}
	managers, due, err := handedBack(m.Claim, m.record.Managers)
	if err != nil {
		return Step{Err: err}, true
	}
	if !due {
		return Step{}, false
	}
	next := m.Claim.DeepCopy()
	next.ManagedFields = managers
	return Step{Action: Patch, Object: next, Old: m.Claim, Phase: phase, Why: "returning the fields of the claim to their managers"}, true
}
