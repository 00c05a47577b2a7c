package cli

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

// reasons are the conditions that are not true, for the end of a message; empty when there is none.
func reasons(conditions []metav1.Condition) string {
	var out []string
	for _, condition := range conditions {
		if condition.Status != metav1.ConditionTrue {
			out = append(out, fmt.Sprintf("%s=%s, %s: %s", condition.Type, condition.Status, condition.Reason, condition.Message))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, "; ") + ")"
}

// current tells whether the conditions speak of this generation; without conditions nothing says otherwise.
func current(conditions []metav1.Condition, generation int64) bool {
	for _, condition := range conditions {
		if condition.ObservedGeneration != 0 && condition.ObservedGeneration < generation {
			return false
		}
		if condition.Type == "Ready" && condition.Status == metav1.ConditionFalse {
			return false
		}
	}
	return true
}

// sliceCondition is the provider's verdict of a type; nil when there is none yet.
func sliceCondition(slice *authv1beta1.ResourceSlice, of authv1beta1.ResourceSliceConditionType) *authv1beta1.ResourceSliceCondition {
	for i := range slice.Status.Conditions {
		if slice.Status.Conditions[i].Type == of {
			return &slice.Status.Conditions[i]
		}
	}
	return nil
}
