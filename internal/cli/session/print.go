package session

import (
	"encoding/json"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"liqo.io/liqo/internal/cli/cmdline"
)

// PrintObject writes the manifest of an object to the output stream.
func PrintObject(c *Cluster, object client.Object, format string) error {
	gvk, err := apiutil.GVKForObject(object, c.Scheme())
	if err != nil {
		return err
	}
	c.Mark(object)
	object.GetObjectKind().SetGroupVersionKind(gvk)
	data, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("writing %s: %w", c.Name(object), err)
	}
	// Fields that the server sets do not belong in a manifest.
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return fmt.Errorf("writing %s: %w", c.Name(object), err)
	}
	delete(fields, "status")
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		delete(metadata, "creationTimestamp")
	}
	return cmdline.Write(c.Out(), fields, format)
}
