package api

import "maps"

// Layered merges maps into a new one. Later maps take precedence. It returns nil if there are no entries.
func Layered(all ...map[string]string) map[string]string {
	var result map[string]string
	for _, m := range all {
		if len(m) > 0 && result == nil {
			result = map[string]string{}
		}
		maps.Copy(result, m)
	}
	return result
}
