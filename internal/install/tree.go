package install

import (
	"fmt"
	"maps"
	"math"
	"reflect"
)

// Merge merges maps key by key; a later map overrides an earlier one. Lists and plain values are replaced as a whole. The arguments are not
// changed.
func Merge(layers ...map[string]any) map[string]any {
	out := map[string]any{}
	for _, layer := range layers {
		for key, value := range layer {
			below, isMap := out[key].(map[string]any)
			over, overIsMap := value.(map[string]any)
			switch {
			case isMap && overIsMap:
				out[key] = Merge(below, over)
			case overIsMap:
				out[key] = maps.Clone(over)
			default:
				out[key] = value
			}
		}
	}
	return out
}

// DropNulls returns the values with only those nulls that remove a default of the chart: Helm needs them. The other nulls only removed keys of
// earlier layers. Helm would pass them to the chart, which refuses them.
func DropNulls(values, defaults map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range values {
		if below, isMap := value.(map[string]any); isMap {
			defaultsBelow, _ := defaults[key].(map[string]any)
			if kept := DropNulls(below, defaultsBelow); len(kept) > 0 || len(below) == 0 {
				out[key] = kept
			}
		} else if value != nil || defaults[key] != nil {
			out[key] = value
		}
	}
	return out
}

// setting returns a tree with the value at the path. It returns nil for an empty value.
func setting(value any, path ...string) map[string]any {
	if v := reflect.ValueOf(value); v.IsZero() || ((v.Kind() == reflect.Map || v.Kind() == reflect.Slice) && v.Len() == 0) {
		return nil
	}
	return put(value, path...)
}

// put returns a tree with the value at the path.
func put(value any, path ...string) map[string]any {
	for i := len(path) - 1; i > 0; i-- {
		value = map[string]any{path[i]: value}
	}
	return map[string]any{path[0]: value}
}

// at returns the value at the path of the tree, or nil if there is none.
func at(tree map[string]any, path ...string) any {
	var found any = tree
	for _, key := range path {
		below, _ := found.(map[string]any)
		found = below[key]
	}
	return found
}

func text(tree map[string]any, path ...string) string {
	value, _ := at(tree, path...).(string)
	return value
}

func texts(tree map[string]any, path ...string) []string {
	values, _ := at(tree, path...).([]any)
	var out []string
	for _, value := range values {
		out = append(out, fmt.Sprint(value))
	}
	return out
}

// number reads a port from an integer or a float. It returns 0 if the value is not a valid port.
func number(tree map[string]any, path ...string) int32 {
	value := reflect.ValueOf(at(tree, path...))
	switch {
	case value.CanInt() && value.Int() > 0 && value.Int() <= math.MaxUint16:
		return int32(value.Int())
	case value.CanFloat() && value.Float() > 0 && value.Float() <= math.MaxUint16:
		return int32(value.Float())
	}
	return 0
}

func list(items []string) []any {
	out := make([]any, 0, len(items))
	for _, item := range items {
		out = append(out, item)
	}
	return out
}

func mapping(items map[string]string) map[string]any {
	out := make(map[string]any, len(items))
	for key, value := range items {
		out[key] = value
	}
	return out
}
