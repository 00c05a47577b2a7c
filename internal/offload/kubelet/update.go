package kubelet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/offload"
)

// annotationSpecHash, on the Deployment of a virtual kubelet, holds the hash of the specification that was last applied.
const annotationSpecHash = "liqo.io/specification-hash"

// UpdateDeployment updates the existing Deployment to the wanted one. It does not change the specification if the wanted one is applied already. It
// keeps values that the API server defaulted, and labels and annotations that others set.
func UpdateDeployment(have, want *appsv1.Deployment) {
	hash := hashOf(want.Spec)
	have.Labels, have.Annotations = api.Layered(have.Labels, want.Labels), api.Layered(have.Annotations, want.Annotations)
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

// hashOf returns a short hash of the value's JSON encoding.
func hashOf(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("marshalling %T: %v", value, err)) // API types always marshal
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:2*offload.HashLength]
}
