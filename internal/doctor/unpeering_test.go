package doctor

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// TestHalfDoneUnpeer: an unpeer that waits for the provider is found, once for each provider, with what holds it and both ways out; one that has just
// begun is not.
func TestHalfDoneUnpeer(t *testing.T) {
	for name, test := range map[string]struct {
		since time.Duration
		want  bool
	}{"waits": {10 * time.Minute, true}, "has just begun": {10 * time.Second, false}} {
		deleted := metav1.NewTime(now.Add(-test.since))
		c := cluster(t, "rome", "milan", "10.1.0.0/16")
		c.VirtualNodes = []offloadingv1beta1.VirtualNode{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan", DeletionTimestamp: &deleted, Finalizers: []string{"liqo.io/held"}},
			Spec:       offloadingv1beta1.VirtualNodeSpec{ClusterID: "milan"},
		}}
		c.Identities[0].DeletionTimestamp = &deleted
		var found []Finding
		for _, finding := range Examine(&Facts{Now: now, Client: "v1", Local: c}) {
			if finding.Check == "unpeering" {
				found = append(found, finding)
			}
		}
		if (len(found) == 1) != test.want || len(found) > 1 {
			t.Errorf("%s: %+v", name, found)
			continue
		}
		if !test.want {
			continue
		}
		for _, want := range []string{"unpeer of cluster milan is half done: VirtualNode milan in namespace liqo-tenant-milan is being deleted since", "liqo.io/held"} {
			if !strings.Contains(found[0].Evidence, want) {
				t.Errorf("no %q in %q", want, found[0].Evidence)
			}
		}
		for _, want := range []string{"liqoctl unpeer milan", "liqoctl force unpeer milan"} {
			if !strings.Contains(found[0].Cure, want) {
				t.Errorf("no %q in %q", want, found[0].Cure)
			}
		}
	}
}
