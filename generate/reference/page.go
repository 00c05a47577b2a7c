package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const head = `<!-- Made by "make generate" from charts/liqo/values.yaml, values.schema.json and files/without-effect.yaml. -->

# Values of the chart

For ` + "`helm install --set key=value`, `liqoctl install --set key=value` and `--values FILE`" + `. Keys that are not in these tables are refused, and so are values of
another type.
`

// page returns the documentation page in Markdown: a table for the top-level values that are not objects, and one for each top-level object.
func page(schema, values *yaml.Node, unused []ignored) (string, error) {
	var b strings.Builder
	b.WriteString(head)
	b.WriteString("\n## Everywhere\n\n| key | type | default | what it does |\n|---|---|---|---|\n")
	var sections []int
	for i := 0; i < len(values.Content); i += 2 {
		if values.Content[i+1].Kind == yaml.MappingNode {
			sections = append(sections, i)
			continue
		}
		if err := rows(&b, schema, values.Content[i:i+2], schema, ""); err != nil {
			return "", err
		}
	}
	for _, i := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n| key | type | default | what it does |\n|---|---|---|---|\n", values.Content[i].Value)
		if err := rows(&b, schema, values.Content[i:i+2], schema, ""); err != nil {
			return "", err
		}
	}
	b.WriteString("\n## Values of other versions\n\nThey are accepted and do nothing; whoever sets one to something else than what happens anyway is told so.\n\n| key | why, and what to set instead |\n|---|---|\n")
	for _, entry := range unused {
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.Join(entry.Keys, "`, `"), cell(entry.Reason))
	}
	return b.String(), nil
}

// rows writes the table rows of values, which alternates keys and values. schema is the schema of the object that contains them, and path
// the key of that object.
func rows(b *strings.Builder, schema *yaml.Node, values []*yaml.Node, root *yaml.Node, path string) error {
	for i := 0; i < len(values); i += 2 {
		key := strings.TrimPrefix(path+"."+values[i].Value, ".")
		sub := get(get(schema, "properties"), values[i].Value)
		resolved, err := resolve(sub, root)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		description := commented(values[i])
		if shared := get(sub, "description"); description == "" && shared != nil {
			description = shared.Value
		}
		if get(resolved, "properties") != nil {
			if description != "" {
				fmt.Fprintf(b, "| `%s.*` | | | %s |\n", key, cell(description))
			}
			if err := rows(b, resolved, values[i+1].Content, root, key); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", key, cell(kind(sub, resolved)), cell(standard(values[i+1])), cell(description))
	}
	return nil
}

// kind describes in words the values that a schema accepts. sub is the schema before, and resolved after its reference is resolved.
func kind(sub, resolved *yaml.Node) string {
	if list := get(resolved, "enum"); list != nil {
		var out []string
		for _, item := range list.Content {
			out = append(out, code(quoted(item.Value)))
		}
		return strings.Join(out, ", ")
	}
	if reference := get(sub, "$ref"); reference != nil {
		if title := get(resolved, "title"); title != nil {
			return title.Value
		}
	}
	types := get(resolved, "type")
	if types == nil {
		return "any"
	}
	name := types.Value
	for _, item := range types.Content {
		if item.Value != "null" {
			name = item.Value
		}
	}
	switch name {
	case "array":
		name = "list"
	case "integer":
		name = "number"
		minimum, maximum := get(resolved, "minimum"), get(resolved, "maximum")
		if minimum != nil && maximum != nil {
			name += " from " + minimum.Value + " to " + maximum.Value
		} else if minimum != nil {
			name += ", at least " + minimum.Value
		}
	}
	return name
}

// longest is the maximum length, in bytes, of a default that the page shows in full.
const longest = 60

// standard returns a default as JSON. Of one that is too long it returns the number of entries, or of characters if it is a single value.
func standard(value *yaml.Node) string {
	var b strings.Builder
	switch err := write(&b, value, "", false); {
	case err == nil && b.Len() <= longest:
		return code(b.String())
	case value.Kind == yaml.ScalarNode:
		return fmt.Sprintf("%d characters, see values.yaml", utf8.RuneCountInString(value.Value))
	default:
		return fmt.Sprintf("%d entries, see values.yaml", entries(value))
	}
}

// code returns a text as a code span. A text with a backquote gets two of them as its limits, because one would end at that backquote.
func code(text string) string {
	if strings.Contains(text, "`") {
		return "`` " + text + " ``"
	}
	return "`" + text + "`"
}

func entries(value *yaml.Node) int {
	if value.Kind == yaml.MappingNode {
		return len(value.Content) / 2
	}
	return len(value.Content)
}

// cell escapes a text so that it stays inside a table cell.
func cell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "|", `\|`), "\n", " ")
}
