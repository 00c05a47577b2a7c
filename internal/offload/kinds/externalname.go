package kinds

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// OriginAPIServer is the name by which pods in other clusters reach the API server of their origin cluster. The API server's certificate is valid for
// it, and host aliases of the pods resolve it.
const OriginAPIServer = "kubernetes.default"

// privateDomains are top-level domains that each cluster, cloud or network resolves to its own hosts: Services, cloud metadata services
// (metadata.google.internal), and local hosts. Sources: RFC 6761, RFC 6762, RFC 8375, and ICANN's reservation of internal.
var privateDomains = []string{"arpa", "cluster", "corp", "home", "internal", "intranet", "invalid", "lan", "local", "localdomain", "localhost", "onion", "pod", "private", "svc", "test"}

// number matches a last DNS label that makes a name an IPv4 address, in one of the notations that clients accept (10.0.0.1, 127.1, 0x7f000001).
var number = regexp.MustCompile(`^(0x[0-9a-f]*|[0-9]+)$`)

// externalName translates the target name of a Service of type ExternalName for the provider, or returns why the provider must not get it. Proxies of
// the provider, such as Ingress controllers, connect to the name with the network access of the provider. The argument remoteNamespace returns the
// remote namespace of a local namespace, false if it has none. The chart's admission policy liqo-copies-service enforces the same rules against
// malicious consumers.
func externalName(name, destination string, remoteNamespace func(namespace string) (string, bool)) (string, error) {
	refuse := func(why string) (string, error) {
		return "", fmt.Errorf("spec.externalName %q is refused in cluster %s: %s", name, destination, why)
	}
	labels := strings.Split(strings.ToLower(strings.TrimSuffix(name, ".")), ".")
	last := labels[len(labels)-1]
	switch {
	case number.MatchString(last):
		return refuse("it is an address; use a Service without selector, with an EndpointSlice for the address and an IP object that exposes it to peers")
	case len(labels) == 1:
		return refuse("a name without a domain is another host in each cluster; use the name with its domain")
	}
	if slices.Index(labels, "svc") != lastIndex(labels, "svc") {
		return refuse("it is not the name of a Service: it contains svc twice")
	}
	service := false
	for i := 2; i < len(labels); i++ {
		switch namespace := labels[i-1]; labels[i] {
		case "pod":
			return refuse("it is the DNS name of a pod's address; use the name of a Service")
		case "svc":
			if namespace == "default" && labels[i-2] == "kubernetes" {
				return refuse("it is the API server; pods reach that of their own cluster as " + OriginAPIServer)
			}
			remote, found := "", false
			if remoteNamespace != nil {
				remote, found = remoteNamespace(namespace)
			}
			if !found {
				return refuse(fmt.Sprintf("namespace %s is not offloaded to that cluster, where a namespace of that name is another one: offload it (liqoctl offload namespace %s), or keep the Service here with annotation %s",
					namespace, namespace, AnnotationSkip))
			}
			labels[i-1], service = remote, true
		}
	}
	if !service && slices.Contains(privateDomains, last) {
		return refuse("names below ." + last + " are private to each cluster and its network; use a public name, or keep the Service here with annotation " + AnnotationSkip)
	}
	if !service {
		// The trailing dot makes the name absolute. Without it, proxies try the search domains of their own cluster first, where vault.vault could be
		// a Service.
		return strings.TrimSuffix(name, ".") + ".", nil
	}
	return strings.Join(labels, "."), nil
}

func lastIndex(list []string, item string) int {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i] == item {
			return i
		}
	}
	return -1
}
