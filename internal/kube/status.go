package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PatchStatus writes the status of obj if it differs from the status of before, which is the object as it was read. It returns no error if the object
// no longer exists.
func PatchStatus(ctx context.Context, c client.Client, obj, before client.Object) error {
	if equality.Semantic.DeepEqual(statusOf(obj), statusOf(before)) {
		return nil
	}
	patch := client.MergeFrom(before)
	if reflect.ValueOf(statusOf(before)).IsZero() {
		// The object may have no status yet. Then a patch of the differences would omit required fields whose value is false, zero or empty.
		whole, err := json.Marshal(map[string]any{"status": statusOf(obj)})
		if err != nil {
			return fmt.Errorf("marshalling the status of %s: %w", describe(c, obj), err)
		}
		patch = client.RawPatch(types.MergePatchType, whole)
	}
	if err := c.Status().Patch(ctx, obj, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of %s: %w", describe(c, obj), err)
	}
	return nil
}

// statusOf returns the Status field of a kind's Go type, nil for kinds without one.
func statusOf(obj client.Object) any {
	field := reflect.ValueOf(obj).Elem().FieldByName("Status")
	if !field.IsValid() {
		return nil
	}
	return field.Interface()
}
