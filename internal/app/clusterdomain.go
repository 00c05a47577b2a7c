package app

import (
	"os"
	"strings"
)

// resolverConfig is where the kubelet tells a pod of the cluster's domain.
const resolverConfig = "/etc/resolv.conf"

// clusterDomain returns the domain of this cluster's DNS names as this pod searches them; empty if it does not say.
func clusterDomain() string {
	text, err := os.ReadFile(resolverConfig)
	if err != nil {
		return ""
	}
	return searchedDomain(string(text))
}

// searchedDomain returns the domain below which a resolv.conf (man resolv.conf) searches Services: that of svc.DOMAIN, empty if there is none. The last
// search line counts.
func searchedDomain(text string) string {
	domain := ""
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "search" {
			continue
		}
		domain = ""
		for _, word := range words[1:] {
			if found, ok := strings.CutPrefix(strings.TrimSuffix(word, "."), "svc."); ok && domain == "" {
				domain = found
			}
		}
	}
	return domain
}
