package offload

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// annotationSpecHash, on the Deployment of a virtual kubelet, tells which specification it was last given.
const annotationSpecHash = "liqo.io/specification-hash"

// UpdateKubelet turns the Deployment that exists into the wanted one, and changes nothing when it already follows from it: values that the
// API server filled in, and entries of labels and annotations that others made, stay.
func UpdateKubelet(have, want *appsv1.Deployment) {
	hash := hashOf(want.Spec)
	have.Labels, have.Annotations = merged(have.Labels, want.Labels), merged(have.Annotations, want.Annotations)
	if have.Annotations[annotationSpecHash] == hash && equality.Semantic.DeepDerivative(want.Spec, have.Spec) {
		return
	}
	have.Annotations[annotationSpecHash] = hash
	selector := have.Spec.Selector
	have.Spec = *want.Spec.DeepCopy()
	if selector != nil && want.Spec.Selector == nil {
		have.Spec.Selector = selector
	}
}

// hashOf is short and differs for values that differ in JSON.
func hashOf(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("marshalling %T: %v", value, err)) // API types always marshal
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:2*hashLength]
}
