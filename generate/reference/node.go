package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// get returns the value of a key in a mapping, nil if the mapping lacks the key or the node is no mapping.
func get(mapping *yaml.Node, key string) *yaml.Node {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// set sets the value of a key in a mapping. It appends a new key at the end.
func set(mapping *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			mapping.Content[i+1] = value
			return
		}
	}
	mapping.Content = append(mapping.Content, text(key), value)
}

// drop removes a key from a mapping.
func drop(mapping *yaml.Node, key string) {
	for i := 0; i < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			mapping.Content = append(mapping.Content[:i:i], mapping.Content[i+2:]...)
			return
		}
	}
}

func text(value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
}

func mapping() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"} }

// commented returns the comment before a key, joined to one line.
func commented(key *yaml.Node) string {
	var words []string
	for line := range strings.Lines(key.HeadComment) {
		words = append(words, strings.Fields(strings.TrimLeft(strings.TrimSpace(line), "#"))...)
	}
	return strings.Join(words, " ")
}

// write writes a node as JSON, with the keys in their present order. If open is true, each key gets its own line, and so do the keys of nested
// schemas that have properties. Everything else is written on one line.
func write(b *strings.Builder, node *yaml.Node, indent string, open bool) error {
	switch node.Kind {
	case yaml.MappingNode:
		separator, end := ", ", "}"
		if open {
			separator, end = ",\n"+indent+"  ", "\n"+indent+"}"
			b.WriteString("{\n" + indent + "  ")
		} else {
			b.WriteString("{")
		}
		for i := 0; i < len(node.Content); i += 2 {
			if i > 0 {
				b.WriteString(separator)
			}
			key, value := node.Content[i].Value, node.Content[i+1]
			fmt.Fprintf(b, "%s: ", quoted(key))
			if err := write(b, value, indent+"  ", open && (key == "properties" || key == "$defs" || get(value, "properties") != nil)); err != nil {
				return err
			}
		}
		b.WriteString(end)
	case yaml.SequenceNode:
		b.WriteString("[")
		for i, item := range node.Content {
			if i > 0 {
				b.WriteString(", ")
			}
			if err := write(b, item, indent, false); err != nil {
				return err
			}
		}
		b.WriteString("]")
	case yaml.ScalarNode:
		if node.Tag == "!!str" {
			b.WriteString(quoted(node.Value))
		} else {
			b.WriteString(node.Value)
		}
	default:
		return fmt.Errorf("writing line %d of the schema: neither object, list nor value", node.Line)
	}
	return nil
}

// quoted returns a text as a JSON string, without escapes for HTML characters.
func quoted(value string) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // a string can always be encoded
	return strings.TrimSuffix(b.String(), "\n")
}
