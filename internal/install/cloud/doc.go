// Package cloud reads facts about clusters from the APIs of cloud providers: the address ranges and the URL of the API server. It uses the
// providers' own libraries and the credentials of their command line tools. It never writes to the cloud and never prints credentials.
package cloud

import "strings"

// labelRegion is the label with the region of a cluster. The virtual nodes for the cluster carry it.
const labelRegion = "topology.kubernetes.io/region"

// location returns the label for a region, or nil if the region is unknown.
func location(region string) map[string]string {
	if region == "" {
		return nil
	}
	return map[string]string{labelRegion: region}
}

// compact trims the items, and removes empty items and duplicates.
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
