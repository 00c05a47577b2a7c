package session

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

// Unmet lists the conditions that are not true, as a suffix for a message. It is empty if there is none.
func Unmet(conditions []metav1.Condition) string {
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

// Current reports whether the status of an object is up to date: no condition is from an older generation, and Ready is not false.
func Current(conditions []metav1.Condition, generation int64) bool {
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

// SliceCondition returns the condition of the given type, which the provider sets. It is nil if there is none yet.
func SliceCondition(slice *authv1beta1.ResourceSlice, of authv1beta1.ResourceSliceConditionType) *authv1beta1.ResourceSliceCondition {
	for i := range slice.Status.Conditions {
		if slice.Status.Conditions[i].Type == of {
			return &slice.Status.Conditions[i]
		}
	}
	return nil
}
