// Command reference documents the chart's values. The comments of values.yaml are the only source of their descriptions: the command writes
// these into values.schema.json and generates the documentation page from both files. "make generate" runs it.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: reference CHART PAGE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "reference: %v\n", err)
		os.Exit(1)
	}
}

func run(chart, into string) error {
	schema, err := read(filepath.Join(chart, "values.schema.json"))
	if err != nil {
		return err
	}
	values, err := read(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return err
	}
	list, err := read(filepath.Join(chart, "files", "without-effect.yaml"))
	if err != nil {
		return err
	}
	var unused []ignored
	if err := list.Decode(&unused); err != nil {
		return fmt.Errorf("reading the values without effect: %w", err)
	}
	if err := describe(schema, values, unused); err != nil {
		return err
	}
	var text strings.Builder
	if err := write(&text, schema, "", true); err != nil {
		return err
	}
	reference, err := page(schema, values, unused)
	if err != nil {
		return err
	}
	for name, content := range map[string]string{filepath.Join(chart, "values.schema.json"): text.String() + "\n", into: reference} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return fmt.Errorf("creating the folder of %s: %w", name, err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil { //nolint:gosec // anybody may read it
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}

// read parses a YAML file and returns its content. It also reads JSON, because JSON is a subset of YAML.
func read(name string) (*yaml.Node, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if len(document.Content) != 1 {
		return nil, fmt.Errorf("reading %s: it is empty", name)
	}
	return document.Content[0], nil
}
