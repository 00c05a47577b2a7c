package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"
)

// remoteConfig holds the connection flags of the remote cluster.
type remoteConfig = genericclioptions.ConfigFlags

// exactlyOne requires one argument. Its error names the missing argument.
func exactlyOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("want one argument, %s, got %d: %s", what, len(args), cmd.UseLine())
		}
		return nil
	}
}

// required marks flags as required.
func required(command *cobra.Command, names ...string) {
	for _, name := range names {
		if err := command.MarkFlagRequired(name); err != nil {
			panic(fmt.Sprintf("command %s has no flag %s", command.Name(), name)) // a programming error
		}
	}
}

// printObject writes the manifest of an object to the output stream.
func printObject(c *cluster, object client.Object, format string) error {
	gvk, err := apiutil.GVKForObject(object, c.Scheme())
	if err != nil {
		return err
	}
	addTo(object.GetLabels, object.SetLabels, c.labels)
	addTo(object.GetAnnotations, object.SetAnnotations, c.annotations)
	object.GetObjectKind().SetGroupVersionKind(gvk)
	data, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("writing %s: %w", c.name(object), err)
	}
	// Fields that the server sets do not belong in a manifest.
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return fmt.Errorf("writing %s: %w", c.name(object), err)
	}
	delete(fields, "status")
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		delete(metadata, "creationTimestamp")
	}
	return write(c.Out(), fields, format)
}

// write prints data as JSON or YAML.
func write(w io.Writer, data any, format string) error {
	var text []byte
	var err error
	if strings.EqualFold(format, "json") {
		if text, err = json.MarshalIndent(data, "", "  "); err == nil {
			text = append(text, '\n')
		}
	} else {
		text, err = yaml.Marshal(data)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", format, err)
	}
	_, err = w.Write(text)
	return err
}
