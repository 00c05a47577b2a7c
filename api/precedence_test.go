package api

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCompareAge: age decides, then the namespace, then the name. The order is the same from both sides.
func TestCompareAge(t *testing.T) {
	at := func(second int64, namespace, name string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Unix(second, 0)), Namespace: namespace, Name: name}
	}
	ordered := []*metav1.ObjectMeta{at(1, "z", "z"), at(2, "a", "b"), at(2, "a", "c"), at(2, "b", "a"), at(3, "a", "a")}
	for i, a := range ordered {
		for j, b := range ordered {
			if got := CompareAge(a, b); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%v and %v: %d", a, b, got)
			}
		}
	}
}
