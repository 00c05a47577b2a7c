package main

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func node(t *testing.T, text string) *yaml.Node {
	t.Helper()
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	return document.Content[0]
}

const (
	valuesText = `
# How many pods.
replicas: 1
image:
  name: x
  # Of this one, its tag.
  version: ""
`
	schemaText = `{"type": "object", "additionalProperties": false, "properties": {
  "gone": {"description": "Accepted for compatibility. Without effect: x."},
  "replicas": {"type": "integer", "minimum": 0, "description": "What it was."},
  "image": {"$ref": "#/$defs/image"}
}, "$defs": {"image": {"type": "object", "additionalProperties": false, "properties": {
  "name": {"type": "string", "description": "Image."}, "version": {"type": "string", "description": "Its tag."}
}}}}`
)

// TestReference: comments become descriptions, sections are required, the page lists all accepted values, and a second pass changes nothing.
func TestReference(t *testing.T) {
	unused := []ignored{{Keys: []string{"old.key"}, Reason: "set replicas"}}
	schema, values := node(t, schemaText), node(t, valuesText)
	before := ""
	for range 2 {
		if err := describe(schema, values, unused); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := write(&b, schema, "", true); err != nil {
			t.Fatal(err)
		}
		for text, want := range map[string]bool{
			`"replicas": {"type": "integer", "minimum": 0, "description": "How many pods."}`:      true,
			`"key": {"description": "Accepted for compatibility. Without effect: set replicas."}`: true,
			`"required": ["image"]`: true, `"gone"`: false, `"version": {"type": "string", "description": "Its tag."}`: true,
		} {
			if strings.Contains(b.String(), text) != want {
				t.Errorf("there is %s: %t, want %t in\n%s", text, !want, want, b.String())
			}
		}
		if before != "" && b.String() != before {
			t.Errorf("a second pass changes it to\n%s", b.String())
		}
		before = b.String()
		schema = node(t, before)
	}
	text, err := page(schema, values, unused)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{"| `replicas` | number, at least 0 | `1` | How many pods. |", "| `image.version` | string | `\"\"` | Of this one, its tag. |", "| `old.key` | set replicas |"} {
		if !strings.Contains(text, row) {
			t.Errorf("no row %s in\n%s", row, text)
		}
	}
}

func TestMissingDescriptions(t *testing.T) {
	for name, row := range map[string]struct {
		values, schema string
		unused         []ignored
		want           string
	}{
		"no comment":       {"a: 1", `{"additionalProperties": false, "properties": {"a": {"type": "integer"}}}`, nil, "a: nothing in values.yaml says what it does"},
		"no schema":        {"# x\na: 1", `{"additionalProperties": false, "properties": {}}`, nil, "a has a default in values.yaml and is not"},
		"no default":       {"# x\na: 1", `{"additionalProperties": false, "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}`, nil, ".b is in values.schema.json and has no default"},
		"open":             {"# x\na: 1", `{"properties": {"a": {"type": "integer"}}}`, nil, "additionalProperties: false"},
		"no such shape":    {"# x\na: 1", `{"additionalProperties": false, "properties": {"a": {"$ref": "#/$defs/x"}}}`, nil, "there is no #/$defs/x"},
		"both":             {"# x\na: 1", `{"additionalProperties": false, "properties": {"a": {"type": "integer"}}}`, []ignored{{Keys: []string{"a"}, Reason: "y"}}, "a is listed as without effect, but the schema knows it"},
		"below any values": {"# x\na: {}", `{"additionalProperties": false, "properties": {"a": {"type": "object"}}}`, []ignored{{Keys: []string{"a.b"}, Reason: "y"}}, "a has keys of any name"},
	} {
		err := describe(node(t, row.schema), node(t, row.values), row.unused)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", name, err, row.want)
		}
	}
}

// TestRows: the row of any default has four cells, and shows the default or its length.
func TestRows(t *testing.T) {
	long := strings.Repeat("x", longest)
	for name, row := range map[string]struct{ value, want string }{
		"a short text":        {"fine", "| `a` | any | `\"fine\"` | x |"},
		"a long text":         {long, "| `a` | any | 60 characters, see values.yaml | x |"},
		"a long text in full": {"|-\n  " + long + "\n  ü", "| `a` | any | 62 characters, see values.yaml | x |"},
		"a text of two lines": {`"b\nc"`, "| `a` | any | `\"b\\nc\"` | x |"},
		"a bar":               {`"b|c"`, "| `a` | any | `\"b\\|c\"` | x |"},
		"a backquote":         {`"b` + "`" + `c"`, "| `a` | any | `` \"b`c\" `` | x |"},
		"a long list":         {"[" + long + ", b]", "| `a` | any | 2 entries, see values.yaml | x |"},
	} {
		var b strings.Builder
		if err := rows(&b, node(t, `{"properties": {"a": {}}}`), node(t, "# x\na: "+row.value).Content, nil, ""); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSuffix(b.String(), "\n"); got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
	text, err := page(node(t, "{}"), node(t, "{}"), []ignored{{Keys: []string{"old"}, Reason: "one|two\nthree"}})
	if want := "| `old` | one\\|two three |"; err != nil || !strings.Contains(text, want) {
		t.Errorf("%v, no row %s in %s", err, want, text)
	}
}
