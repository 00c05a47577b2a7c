package provider

import (
	"os"
	"strings"
)

// resolverConfig is the file in which the kubelet gives a pod the DNS domain of the cluster.
const resolverConfig = "/etc/resolv.conf"

// ClusterDomain returns the DNS domain of this cluster, taken from the search list of this pod; empty if the list does not
// contain it.
func ClusterDomain() string {
	text, err := os.ReadFile(resolverConfig)
	if err != nil {
		return ""
	}
	return searchedDomain(string(text))
}

// searchedDomain returns the DNS domain of the cluster from the text of a resolv.conf (man resolv.conf): DOMAIN in the search
// entry svc.DOMAIN, empty if there is none. As in resolvers, the last search line takes effect.
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
