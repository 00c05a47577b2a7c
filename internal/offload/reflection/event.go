package reflection

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds"
)

// EventKind is the Kind.Name of Events.
const EventKind = "Event"

// eventsPerSecond limits the writes for a provider's Events in this cluster, however many Events the provider has.
const eventsPerSecond = 20

// Events returns the Kind that copies the provider's Events about our reflected objects into this cluster.
func Events(workers int, options func() kinds.CopyOptions) Kind {
	o := options()
	return Kind{
		Name: EventKind, Workers: workers, Mapped: true, PerSecond: eventsPerSecond, LowPriority: true,
		Local:  Resource{Object: &corev1.Event{}, Labels: labels.Set{api.LabelOrigin: o.Destination, api.LabelDestination: o.Origin}.String()},
		Remote: []Resource{{Object: &corev1.Event{}}},
		About: func(remote client.Object) (string, string) {
			event, ok := remote.(*corev1.Event)
			if !ok {
				return "", ""
			}
			return kinds.Involved(event)
		},
		Next: func(f Facts) offload.Step {
			local, _ := f.Local.(*corev1.Event)
			remote, _ := f.Remote[0].(*corev1.Event)
			return offload.NextEvent(offload.EventFacts{
				Local: local, Remote: remote, About: object(f.About), RemoteObject: object(f.Counterpart), Mapping: f.Mapping, Synced: f.RemoteSynced,
			}, options())
		},
	}
}
