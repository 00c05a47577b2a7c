package inspect

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/session"
)

// shortcuts maps short queries to their full paths.
var shortcuts = map[string]string{"clusterid": "local.clusterID"}

// printQuery prints the value at a dotted path. Keys are case-insensitive, and list items are selected by index.
func printQuery(c *session.Cluster, info any, query string) error {
	data, err := json.Marshal(info)
	if err != nil {
		return fmt.Errorf("reading %s: %w", query, err)
	}
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return fmt.Errorf("reading %s: %w", query, err)
	}
	path := strings.Trim(query, ".")
	if full, ok := shortcuts[strings.ToLower(path)]; ok {
		path = full
	}
	value, err = lookUp(value, path)
	if err != nil {
		return fmt.Errorf("--get %s: %w", query, err)
	}
	switch value.(type) {
	case map[string]any, []any:
		return cmdline.Write(c.Out(), value, "yaml")
	}
	_, err = fmt.Fprintln(c.Out(), value)
	return err
}

// lookUp follows a dotted path through maps and lists. A key may itself contain dots, so lookUp tries the longest match first.
func lookUp(value any, path string) (any, error) {
	if path == "" {
		return value, nil
	}
	parts := strings.Split(path, ".")
	var known []string
	switch at := value.(type) {
	case map[string]any:
		for n := len(parts); n > 0; n-- {
			key := strings.Join(parts[:n], ".")
			for name, below := range at {
				if strings.EqualFold(name, key) {
					return lookUp(below, strings.Join(parts[n:], "."))
				}
			}
		}
		for name := range at {
			known = append(known, name)
		}
		slices.Sort(known)
	case []any:
		if index, err := strconv.Atoi(parts[0]); err == nil && index >= 0 && index < len(at) {
			return lookUp(at[index], strings.Join(parts[1:], "."))
		}
		known = append(known, fmt.Sprintf("0 to %d", len(at)-1))
	}
	return nil, fmt.Errorf("there is no %q, known here: %s", parts[0], strings.Join(known, ", "))
}
