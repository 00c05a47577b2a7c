package kube

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pods serves pages of pods, as an API server does. Each page has at most size pods.
type pods struct {
	client.Reader
	number, size int
	requests     int
}

func (p *pods) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(options)
	p.requests++
	if o.Limit <= 0 || o.Namespace != "demo" {
		return fmt.Errorf("limit %d in namespace %q", o.Limit, o.Namespace)
	}
	begin, _ := strconv.Atoi(o.Continue)
	out := list.(*corev1.PodList)
	for i := begin; i < min(p.number, begin+p.size); i++ {
		out.Items = append(out.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: strconv.Itoa(i)}})
	}
	if begin+p.size < p.number {
		out.Continue = strconv.Itoa(begin + p.size)
	}
	return nil
}

// TestListPages: all pages together are the list, each object once and in order. A server that never ends its list does not fill the memory.
func TestListPages(t *testing.T) {
	for _, number := range []int{0, 1, 7, 8, 20} {
		server, list := &pods{number: number, size: 7}, corev1.PodList{}
		if err := ListPages(t.Context(), server, &list, client.InNamespace("demo")); err != nil || len(list.Items) != number {
			t.Errorf("%d of %d pods, error %v", len(list.Items), number, err)
		}
		for i, pod := range list.Items {
			if pod.Name != strconv.Itoa(i) {
				t.Errorf("of %d, number %d is %s", number, i, pod.Name)
			}
		}
	}
	endless := &pods{number: 1 << 30, size: 1}
	if err := ListPages(t.Context(), endless, &corev1.PodList{}, client.InNamespace("demo")); err == nil || !strings.Contains(err.Error(), "more than 200000 objects") || endless.requests != maxPages {
		t.Errorf("after %d requests, error %v", endless.requests, err)
	}
}
