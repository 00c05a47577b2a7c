package move

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/storage"
)

// TestAMoveFitsIntoTheQuotas: before its first change, a move to this cluster is refused if a ResourceQuota of the storage namespace has room for each of its two
// backing claims, but not for both.
func TestAMoveFitsIntoTheQuotas(t *testing.T) {
	const ofStandard, ofFast = "standard.storageclass.storage.k8s.io/", "fast.storageclass.storage.k8s.io/"
	for name, row := range map[string]struct {
		limit, hard, used string
		change            func(*State)
		refused           bool
	}{
		"room for both":                 {"requests.storage", "12Gi", "1Gi", nil, false},
		"room for each":                 {"requests.storage", "7Gi", "1Gi", nil, true},
		"room for two claims":           {"persistentvolumeclaims", "3", "1", nil, false},
		"room for one claim":            {"persistentvolumeclaims", "2", "1", nil, true},
		"room for one object":           {"count/persistentvolumeclaims", "2", "1", nil, true},
		"the size of the class":         {ofStandard + "requests.storage", "10Gi", "0", nil, true},
		"the number of the class":       {ofStandard + "persistentvolumeclaims", "1", "0", nil, true},
		"another class":                 {ofFast + "requests.storage", "0", "0", nil, false},
		"the class of the namespace":    {ofFast + "requests.storage", "0", "0", func(s *State) { s.Home.Annotations = map[string]string{api.AnnotationRealStorageClass: "fast"} }, true},
		"the class of the installation": {ofFast + "requests.storage", "0", "0", func(s *State) { s.RealClass = "fast" }, true},
		"another resource":              {"requests.cpu", "0", "0", nil, false},
		"a quota for pods of a scope": {"requests.storage", "0", "0", func(s *State) {
			s.Quotas[0].Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}
		}, false},
		"a move to a provider":         {"requests.storage", "0", "0", func(s *State) { s.Node = "milan" }, false},
		"no quota":                     {"requests.storage", "0", "0", func(s *State) { s.Quotas = nil }, false},
		"a quota that was not counted": {"requests.storage", "0", "0", func(s *State) { s.Quotas[0].Status = corev1.ResourceQuotaStatus{} }, false},
	} {
		s := bound(func(s *State) {
			larger(s)
			s.Node = "n1"
			s.Volumes[0].Spec.NodeAffinity = storage.NodesOf("naples")
			fast := *s.Classes[2].DeepCopy()
			fast.Name, fast.Annotations = "fast", nil
			s.Classes = append(s.Classes, fast)
			amount := func(text string) corev1.ResourceList {
				return corev1.ResourceList{corev1.ResourceName(row.limit): resource.MustParse(text)}
			}
			s.Quotas = []corev1.ResourceQuota{{
				ObjectMeta: metav1.ObjectMeta{Namespace: storageNS, Name: "q"}, Status: corev1.ResourceQuotaStatus{Hard: amount(row.hard), Used: amount(row.used)},
			}}
			if row.change != nil {
				row.change(s)
			}
		})
		step := Next(s)
		if (step.Err != nil) != row.refused || (step.Action == Nothing) != row.refused {
			t.Errorf("%s: %s: %v", name, step.Action, step.Err)
		}
		for _, part := range []string{"--target-node n1", "ResourceQuota q in namespace liqo-storage", row.limit, "volume of 5Gi", "Raise spec.hard"} {
			if row.refused && step.Err != nil && !strings.Contains(step.Err.Error(), part) {
				t.Errorf("%s: no %q in %v", name, part, step.Err)
			}
		}
	}
}
