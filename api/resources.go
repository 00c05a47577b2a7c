package api

import corev1 "k8s.io/api/core/v1"

// AddResources adds each amount of more to sum.
func AddResources(sum, more corev1.ResourceList) {
	for name, quantity := range more {
		total := sum[name]
		total.Add(quantity)
		sum[name] = total
	}
}
