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

// unpaged serves a list of ConfigMaps that ignores the requested size of a page: each page has size of them, and there is always another one if endless is set.
type unpaged struct {
	client.Reader
	size     int
	endless  bool
	requests int
}

func (u *unpaged) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	u.requests++
	out := list.(*corev1.ConfigMapList)
	out.Items, out.ResourceVersion = make([]corev1.ConfigMap, u.size), "7"
	if u.endless {
		out.Continue = "more"
	}
	return nil
}

// TestListPagesOfAServerWithoutPages: a server may ignore the size of a page. All that it returns is listed, up to the most objects of a list.
func TestListPagesOfAServerWithoutPages(t *testing.T) {
	for _, row := range []struct {
		server   *unpaged
		requests int
		fails    bool
	}{
		{&unpaged{size: 3 * pageSize}, 1, false},
		{&unpaged{size: maxPages * pageSize}, 1, false},
		{&unpaged{size: maxPages*pageSize + 1}, 1, true},
		{&unpaged{size: maxPages * pageSize / 4, endless: true}, 5, true},
		{&unpaged{endless: true}, maxPages, true}, // pages without objects
	} {
		list := &corev1.ConfigMapList{}
		err := ListPages(t.Context(), row.server, list)
		if (err != nil) != row.fails || row.server.requests != row.requests {
			t.Errorf("pages of %d: %d requests, want %d; error %v", row.server.size, row.server.requests, row.requests, err)
		}
		if !row.fails && (len(list.Items) != row.server.size || list.ResourceVersion != "7") || row.fails && len(list.Items) > 0 {
			t.Errorf("pages of %d: %d objects in version %q", row.server.size, len(list.Items), list.ResourceVersion)
		}
	}
}
