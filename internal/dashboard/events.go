package dashboard

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
)

// eventLimit is the number of events that the page shows, Warnings first.
const eventLimit = 100

// eventDocument describes an event.
type eventDocument struct {
	Cluster string `json:"cluster"`
	// At is in seconds since 1970.
	At      int64  `json:"at"`
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Object  string `json:"object"`
	Message string `json:"message"`
	Count   int32  `json:"count,omitempty"`
}

// events adds the newest Warnings and other events about Liqo: about its own kinds, the namespaces of the installation and of its peerings, offloaded and remote
// namespaces, and the virtual nodes.
func (d Documents) events(state *State) {
	type keyed struct {
		key string
		eventDocument
	}
	var all []keyed
	for i := range state.Clusters {
		c := &state.Clusters[i]
		namespaces, nodes := map[string]bool{c.Namespace: true}, map[string]bool{}
		for j := range c.Peers {
			namespaces[c.Peers[j].Status.TenantNamespace.Local] = true
		}
		for j := range c.Offloadings {
			namespaces[c.Offloadings[j].Namespace] = true
		}
		for j := range c.Maps {
			for _, remote := range c.Maps[j].Status.CurrentMapping {
				// Copies of a consumer's NamespaceMap name remote namespaces in this cluster. NamespaceMaps of this cluster name its offloaded
				// namespaces.
				if c.Maps[j].Labels[api.LabelOriginID] != "" {
					namespaces[remote.RemoteNamespace] = true
				}
			}
		}
		for j := range c.VirtualNodes {
			nodes[c.VirtualNodes[j].Name] = true
		}
		for j := range c.Events {
			event := &c.Events[j]
			of := event.InvolvedObject
			if !strings.Contains(of.APIVersion, "liqo.io/") && (of.Namespace == "" || !namespaces[of.Namespace]) && (of.Kind != "Node" || !nodes[of.Name]) {
				continue
			}
			object := of.Kind + " " + of.Name
			if of.Namespace != "" {
				object = of.Kind + " " + of.Namespace + "/" + of.Name
			}
			all = append(all, keyed{c.ID + "/" + event.Namespace + "/" + event.Name, eventDocument{
				Cluster: c.ID, At: timeOf(event).Unix(), Type: event.Type, Reason: event.Reason, Object: object, Message: event.Message, Count: countOf(event),
			}})
		}
	}
	slices.SortFunc(all, func(a, b keyed) int {
		return cmp.Or(cmp.Compare(rankOf(a.Type), rankOf(b.Type)), cmp.Compare(b.At, a.At), cmp.Compare(a.key, b.key))
	})
	for _, event := range all[:min(len(all), eventLimit)] {
		d.add(event.eventDocument, "event", event.key)
	}
}

// rankOf orders the types of events: Warnings first.
func rankOf(eventType string) int {
	if eventType == corev1.EventTypeWarning {
		return 0
	}
	return 1
}

// timeOf returns when an event happened last. Each version of the events API has its own field for that.
func timeOf(event *corev1.Event) time.Time {
	out := event.CreationTimestamp.Time
	for _, at := range []time.Time{event.EventTime.Time, event.FirstTimestamp.Time, event.LastTimestamp.Time} {
		if at.After(out) {
			out = at
		}
	}
	if event.Series != nil && event.Series.LastObservedTime.After(out) {
		out = event.Series.LastObservedTime.Time
	}
	return out
}

func countOf(event *corev1.Event) int32 {
	if event.Series != nil {
		return event.Series.Count
	}
	return event.Count
}
