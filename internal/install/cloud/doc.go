// Package cloud asks the APIs of clouds about their clusters, with the clouds' own libraries: which address ranges a cluster has and how its
// API server is reached. It only reads, takes the credentials that the tools of each cloud use, and never repeats them.
package cloud

import "strings"

// labelRegion tells where a cluster is; virtual nodes carry it.
const labelRegion = "topology.kubernetes.io/region"

// location is the label for a region; none for an unknown one.
func location(region string) map[string]string {
	if region == "" {
		return nil
	}
	return map[string]string{labelRegion: region}
}

// compact is the list without what is empty or there already.
func compact(items ...string) []string {
	var out []string
	seen := map[string]bool{}
	for _, item := range items {
		if item = strings.TrimSpace(item); item != "" && !seen[item] {
			seen[item] = true
			out = append(out, item)
		}
	}
	return out
}
