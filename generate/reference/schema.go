package main

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ignored is an entry of the chart's files/without-effect.yaml: values of other versions that have no effect in this one.
type ignored struct {
	Keys   []string `yaml:"keys"`
	Same   []any    `yaml:"same"`
	Reason string   `yaml:"reason"`
}

// without is the start of the description of every value without effect.
const without = "Accepted for compatibility. Without effect: "

// describe updates a schema: it sets the descriptions to the comments of the values, requires every section, and replaces the values without
// effect by those in unused. It returns an error that names the position if a value has no description, or if an object with known keys accepts
// other keys.
func describe(schema, values *yaml.Node, unused []ignored) error {
	forget(schema)
	if err := explain(schema, values, schema, "", false); err != nil {
		return err
	}
	for _, entry := range unused {
		for _, key := range entry.Keys {
			if err := accept(schema, key, without+entry.Reason+"."); err != nil {
				return err
			}
		}
	}
	return nil
}

// forget removes the values without effect from a schema, and the objects that contain nothing else.
func forget(schema *yaml.Node) {
	properties := get(schema, "properties")
	if properties == nil {
		return
	}
	for i := len(properties.Content) - 2; i >= 0; i -= 2 {
		name, sub := properties.Content[i].Value, properties.Content[i+1]
		below := get(sub, "properties") != nil
		forget(sub)
		description := get(sub, "description")
		if description != nil && strings.HasPrefix(description.Value, without) || below && len(get(sub, "properties").Content) == 0 {
			drop(properties, name)
		}
	}
}

// explain sets the descriptions of the values and the required sections, and returns an error for a value that is not in the schema. path is the key of
// the object that contains the values. If shared is true, several values refer to that part of the schema, so its own descriptions stay.
func explain(schema, values, root *yaml.Node, path string, shared bool) error {
	if add := get(schema, "additionalProperties"); add == nil || add.Value != "false" {
		return fmt.Errorf("%s: the schema does not say additionalProperties: false", at(path))
	}
	var sections []*yaml.Node
	for i := 0; i < len(values.Content); i += 2 {
		key, value := values.Content[i], values.Content[i+1]
		below := strings.TrimPrefix(path+"."+key.Value, ".")
		sub := get(get(schema, "properties"), key.Value)
		if sub == nil {
			return fmt.Errorf("%s has a default in values.yaml and is not in values.schema.json", below)
		}
		comment := commented(key)
		if !shared {
			drop(sub, "description")
			if comment != "" {
				set(sub, "description", text(comment))
			}
		}
		resolved, err := resolve(sub, root)
		if err != nil {
			return fmt.Errorf("%s: %w", below, err)
		}
		if get(resolved, "properties") != nil {
			if value.Kind == yaml.MappingNode {
				sections = append(sections, text(key.Value))
			}
			if err := explain(resolved, value, root, below, shared || resolved != sub); err != nil {
				return err
			}
			continue
		}
		if comment == "" && get(sub, "description") == nil {
			return fmt.Errorf("%s: nothing in values.yaml says what it does: write a comment before it", below)
		}
	}
	require(schema, sections)
	for _, name := range names(get(schema, "properties")) {
		if get(values, name) == nil && get(get(get(schema, "properties"), name), "description") == nil {
			return fmt.Errorf("%s.%s is in values.schema.json and has no default in values.yaml", at(path), name)
		}
	}
	return nil
}

// require sets the sections that a schema requires. Helm removes a section that a user sets to null: the schema then names it, before a template fails.
func require(schema *yaml.Node, sections []*yaml.Node) {
	if len(sections) == 0 {
		drop(schema, "required")
		return
	}
	set(schema, "required", &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: sections})
}

// resolve returns the definition that a schema refers to, or the schema itself if it has no reference.
func resolve(schema, root *yaml.Node) (*yaml.Node, error) {
	reference := get(schema, "$ref")
	if reference == nil {
		return schema, nil
	}
	name, ok := strings.CutPrefix(reference.Value, "#/$defs/")
	found := get(get(root, "$defs"), name)
	if !ok || found == nil {
		return nil, fmt.Errorf("there is no %s in the schema", reference.Value)
	}
	return found, nil
}

// accept adds a value of any type to a schema, and the objects that contain it. It returns an error if the schema has the value already.
func accept(schema *yaml.Node, key, description string) error {
	path := strings.Split(key, ".")
	for i, name := range path {
		properties := get(schema, "properties")
		if properties == nil {
			return fmt.Errorf("%s is listed as without effect: %s has keys of any name", key, strings.Join(path[:i], "."))
		}
		sub := get(properties, name)
		if i == len(path)-1 {
			if sub != nil {
				return fmt.Errorf("%s is listed as without effect, but the schema knows it", key)
			}
			leaf := mapping()
			set(leaf, "description", text(description))
			set(properties, name, leaf)
			return nil
		}
		if sub == nil {
			sub = mapping()
			set(sub, "type", text("object"))
			set(sub, "additionalProperties", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "false"})
			set(sub, "properties", mapping())
			set(properties, name, sub)
		}
		schema = sub
	}
	return nil
}

func names(mapping *yaml.Node) []string {
	var out []string
	if mapping != nil {
		for i := 0; i < len(mapping.Content); i += 2 {
			out = append(out, mapping.Content[i].Value)
		}
	}
	slices.Sort(out)
	return out
}

func at(path string) string {
	if path == "" {
		return "the top level"
	}
	return path
}
