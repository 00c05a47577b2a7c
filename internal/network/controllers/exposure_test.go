package controllers

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
)

// TestWaitForALoadBalancer: the waiting time starts when the gateway becomes not ready, but not before its Service exists.
func TestWaitForALoadBalancer(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	ready := func(status metav1.ConditionStatus, since time.Duration) []metav1.Condition {
		return []metav1.Condition{{Type: kube.ConditionReady, Status: status, LastTransitionTime: ago(since)}}
	}
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		service    time.Duration
		want       time.Duration
	}{
		"the first time":                {nil, time.Minute, 0},
		"an endpoint is lost right now": {ready(metav1.ConditionTrue, time.Hour), time.Hour, 0},
		"not ready for a while":         {ready(metav1.ConditionFalse, 10*time.Second), time.Minute, 10 * time.Second},
		"the Service is new":            {ready(metav1.ConditionFalse, time.Hour), time.Minute, time.Minute},
	} {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: ago(test.service)}}
		if got := waited(test.conditions, service, now); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	for _, test := range [][3]time.Duration{{0, 0, 0}, {0, 5, 5}, {5, 0, 5}, {3, 5, 3}, {5, 3, 3}} {
		if got := shorter(test[0], test[1]); got != test[2] {
			t.Errorf("the sooner of %d and %d is %d, want %d", test[0], test[1], got, test[2])
		}
	}
}

// TestGatewayReportsWhatItWaitsFor: the message for the peer says why a gateway has no address.
func TestGatewayReportsWhatItWaitsFor(t *testing.T) {
	for want, conditions := range map[string][]metav1.Condition{
		"":                     nil,
		" (waiting for a pod)": {{Type: networkingv1beta1.ConditionConnected, Status: metav1.ConditionFalse}, {Type: kube.ConditionReady, Status: metav1.ConditionFalse, Message: "waiting for a pod"}},
	} {
		if got := whyNot(conditions); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := whyNot([]metav1.Condition{{Type: kube.ConditionReady, Status: metav1.ConditionTrue, Message: "all is well"}}); got != "" {
		t.Errorf("of a gateway that is ready: %q", got)
	}
}
