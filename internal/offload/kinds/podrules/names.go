package podrules

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/offload/kinds"
)

// serviceName matches the name of a Service with its namespace in a text: the Service, the namespace, and the domain after svc with its leading dot.
var serviceName = regexp.MustCompile(`([-a-z0-9]+)\.([-a-z0-9]+)\.svc((?:\.[-a-z0-9]+)*)\.?(?:$|[^-a-z0-9.])`)

// maxNames is the maximum number of names in a message.
const maxNames = 5

// nameList collects names for a message. It counts those beyond maxNames and does not keep them, because a single pod can contain very many, in very long fields.
type nameList struct {
	names []string
	more  int
}

func (l *nameList) add(format string, values ...any) {
	if len(l.names) == maxNames {
		l.more++
		return
	}
	l.names = append(l.names, fmt.Sprintf(format, values...))
}

func (l *nameList) String() string {
	if l.more > 0 {
		return fmt.Sprintf("%s, %d more", strings.Join(l.names, ", "), l.more)
	}
	return strings.Join(l.names, ", ")
}

// ForeignNames returns one sentence, with fields, values and cure, about names of Services in a Pod that lead elsewhere in the provider: their
// namespace has another name there, or is not offloaded there. Values of variables and arguments are the user's, so they are not changed.
func ForeignNames(local *corev1.Pod, o Options) []string {
	if o.RemoteNamespace == nil {
		return nil
	}
	var found nameList
	reported := map[string]bool{}
	add := func(field, name, namespace string) {
		remote, offloaded := o.RemoteNamespace(namespace)
		if reported[name] || offloaded && remote == namespace {
			return
		}
		reported[name] = true
		why := "namespace " + namespace + " is " + remote + " there"
		if !offloaded {
			why = "namespace " + namespace + " is not offloaded there"
		}
		found.add("%s in %s (%s)", name, field, why)
	}
	search := func(field, text string) {
		for _, match := range serviceName.FindAllStringSubmatch(text, -1) {
			service, namespace, domain := match[1], match[2], match[3]
			if name := service + "." + namespace; name != kinds.OriginAPIServer && o.clusterDomain(strings.TrimPrefix(domain, ".")) {
				add(field, name+".svc"+domain, namespace)
			}
		}
	}
	for _, list := range [][]corev1.Container{local.Spec.InitContainers, local.Spec.Containers} {
		for i := range list {
			of := " of container " + list[i].Name
			for _, e := range list[i].Env {
				search("env "+e.Name+of, e.Value)
			}
			for _, text := range list[i].Command {
				search("command"+of, text)
			}
			for _, text := range list[i].Args {
				search("args"+of, text)
			}
		}
	}
	if dns := local.Spec.DNSConfig; dns != nil {
		for i, domain := range dns.Searches {
			if namespace, _, ok := o.searchNamespace(domain); ok {
				if _, offloaded := o.RemoteNamespace(namespace); !offloaded {
					add(fmt.Sprintf("spec.dnsConfig.searches[%d]", i), domain, namespace)
				}
			}
		}
	}
	if len(found.names) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("in cluster %s these names lead to no Service, or to another one: %s; use the name without a namespace for Services of the pod's own namespace, "+
		"or offload the namespaces under their own names (liqoctl offload namespace --namespace-mapping-strategy EnforceSameName)", o.Destination, &found)}
}

// NamespaceValues returns one sentence, with fields and cure, about values of a Pod that contain the name of its namespace by the downward API: variables in
// commands, arguments and other variables, and files. The provider fills in the name of the remote namespace. That is right in names of Services, so these are
// not reported. The variables themselves are not reported either: pods need them to find Services. The values are the user's, so they are not changed.
func NamespaceValues(local *corev1.Pod, o Options) []string {
	if o.RemoteNamespace == nil {
		return nil
	}
	remote, _ := o.RemoteNamespace(local.Namespace)
	if remote == local.Namespace || remote == "" {
		return nil
	}
	var found nameList
	for _, list := range [][]corev1.Container{local.Spec.InitContainers, local.Spec.Containers} {
		for i := range list {
			namespaceReferences(&list[i], &found)
		}
	}
	if !asksOrigin(local) { // otherwise Problems reports the files
		for i := range local.Spec.Volumes {
			for _, file := range filesOfTheProvider(&local.Spec.Volumes[i]) {
				found.add("%s", file)
			}
		}
	}
	if len(found.names) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("in cluster %s, these have the name of the remote namespace, %s: %s; write %s in their place if the value must be the same in both clusters, like a path "+
		"to data, or offload the namespace under its own name (liqoctl offload namespace --namespace-mapping-strategy EnforceSameName)", o.Destination, remote, &found, local.Namespace)}
}

// namespaceReferences adds the references to variables with the namespace in a container, each once per field, except for those in names of Services.
func namespaceReferences(c *corev1.Container, found *nameList) {
	namespaces := map[string]bool{}
	search := func(field string, texts ...string) {
		reported := map[string]bool{}
		for _, text := range texts {
			for r := range references(text) {
				if namespaces[r.name] && !reported[r.name] && !ofService(text[:r.start], text[r.end:]) {
					reported[r.name] = true
					found.add("$(%s) in %s of container %s", r.name, field, c.Name)
				}
			}
		}
	}
	for i := range c.Env {
		search("env "+c.Env[i].Name, c.Env[i].Value) // only variables before it can be in it
		namespaces[c.Env[i].Name] = isNamespace(&c.Env[i])
	}
	search("command", c.Command...)
	search("args", c.Args...)
}

// ofService reports whether the name of a namespace between two texts is part of the name of a Service, like db.NAMESPACE or NAMESPACE.svc.
func ofService(before, after string) bool {
	name, dot := strings.CutSuffix(before, ".")
	return dot && name != "" && !strings.HasSuffix(name, "/") || strings.HasPrefix(after, ".svc")
}

// clusterDomain reports whether the part of a Service's name after svc belongs to a cluster, and not to a public domain.
func (o *Options) clusterDomain(domain string) bool {
	return domain == "" || domain == "cluster.local" || domain == o.APIServer.Domain
}

// searchNamespace returns the namespace in a DNS search domain of a namespace's Services, like shop.svc.cluster.local, and the part after it.
func (o *Options) searchNamespace(domain string) (namespace, rest string, ok bool) {
	namespace, rest, ok = strings.Cut(strings.TrimSuffix(domain, "."), ".svc")
	return namespace, ".svc" + rest, ok && !strings.Contains(namespace, ".") && (rest == "" || rest[0] == '.') && o.clusterDomain(strings.TrimPrefix(rest, "."))
}

// Kubernetes' limits for the search domains of a pod. The API server rejects a pod that exceeds them.
const (
	searchesLength = 2048 // of all domains, with a space between them
	searchLength   = 253  // of one domain
)

// remoteSearches replaces the local namespaces in search domains by the remote ones, whose names may be longer. The domains in dropped can't be in
// the remote Pod: those that are too long, and the last ones beyond the limit of the whole list.
func (o *Options) remoteSearches(domains []string) (kept, dropped []string) {
	length := 0
	for _, domain := range domains {
		namespace, rest, ok := o.searchNamespace(domain)
		if remote, offloaded := o.RemoteNamespace(namespace); ok && offloaded {
			domain = remote + rest
		}
		next := length + len(domain)
		if len(kept) > 0 {
			next++
		}
		if len(strings.TrimSuffix(domain, ".")) > searchLength || next > searchesLength {
			dropped = append(dropped, domain)
			continue
		}
		kept, length = append(kept, domain), next
	}
	return kept, dropped
}

// searches translates the search domains of a remote DNS configuration.
func searches(in *corev1.PodDNSConfig, o Options) *corev1.PodDNSConfig {
	if in != nil && o.RemoteNamespace != nil {
		in.Searches, _ = o.remoteSearches(in.Searches)
	}
	return in
}

// LongSearches returns a warning, with field, values and cure, about search domains that are left out of a Pod in the provider. With the names of the
// remote namespaces, they exceed the limits of Kubernetes.
func LongSearches(local *corev1.Pod, o Options) []string {
	if local.Spec.DNSConfig == nil || o.RemoteNamespace == nil {
		return nil
	}
	_, dropped := o.remoteSearches(local.Spec.DNSConfig.Searches)
	if len(dropped) == 0 {
		return nil
	}
	if more := len(dropped) - maxNames; more > 0 {
		dropped = append(dropped[:maxNames], fmt.Sprintf("%d more", more))
	}
	return []string{fmt.Sprintf("in cluster %s, spec.dnsConfig.searches contains the names of remote namespaces and exceeds the limits of Kubernetes (%d characters in all, %d in "+
		"one domain). These domains are left out there: %s. Remove search domains, or offload the namespaces under their own names (liqoctl offload namespace "+
		"--namespace-mapping-strategy EnforceSameName)", o.Destination, searchesLength, searchLength, strings.Join(dropped, ", "))}
}
