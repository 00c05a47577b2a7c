package controllers

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/internal/reasons"
)

// reconciledRequests returns requests, a function that reconciles one of them, and the number of writes of network objects.
func reconciledRequests(t *testing.T, requests ...*networkingv1beta1.NetworkRequest) (c client.Client, sync func(*networkingv1beta1.NetworkRequest) error, writes *int) {
	t.Helper()
	writes = new(int)
	builder := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			*writes++
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if _, request := o.(*networkingv1beta1.NetworkRequest); !request {
				*writes++
			}
			return c.Patch(ctx, o, patch, opts...)
		},
	})
	for i, q := range requests {
		q.Name, q.UID, q.CreationTimestamp = fmt.Sprint("request-", i), types.UID(fmt.Sprint(i)), metav1.Unix(int64(1000+i), 0)
		builder.WithObjects(q)
	}
	c = builder.Build()
	r := &networkRequests{Options: Options{ClusterID: "rome", LiqoNamespace: "liqo"}, client: c}
	return c, func(q *networkingv1beta1.NetworkRequest) error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(q), q); err != nil {
			t.Fatal(err)
		}
		err := r.sync(t.Context(), q)
		if err != nil && !kube.IsWait(err) && !kube.IsInvalid(err) {
			t.Fatal(err)
		}
		return err
	}, writes
}

func reporting(q *networkingv1beta1.NetworkRequest, pods string) *networkingv1beta1.NetworkRequest {
	*network.Reported(q) = factsOf(pods, 1)
	return q
}

// TestRequestsOfOnePeerDoNotFight: a peer reports two different networks, in two requests of its own, or in a request and in the answer to this
// cluster's request. The network of the oldest request is used, and no object is written repeatedly.
func TestRequestsOfOnePeerDoNotFight(t *testing.T) {
	own := func(pods string) *networkingv1beta1.NetworkRequest { return reporting(requestOf("milan", false), pods) }
	refused := func(pods string) *networkingv1beta1.NetworkRequest {
		q := own(pods)
		q.Status.Conditions = []metav1.Condition{{Type: kube.ConditionReady, Status: metav1.ConditionFalse, Reason: reasons.Invalid, LastTransitionTime: metav1.Now()}}
		return q
	}
	copied := func(pods string) *networkingv1beta1.NetworkRequest { return reporting(requestOf("milan", true), pods) }
	for name, row := range map[string]struct {
		requests []*networkingv1beta1.NetworkRequest
		pods     string
		refused  bool
		// told is part of the expected message in the later request, which names the earlier request or the one in use.
		told string
	}{
		"two requests of the peer": {[]*networkingv1beta1.NetworkRequest{copied("10.1.0.0/16"), copied("10.2.0.0/16")}, "10.1.0.0/16", true, "another NetworkRequest, request-0"},
		"an answer and a later request": {[]*networkingv1beta1.NetworkRequest{own("10.1.0.0/16"), copied("10.2.0.0/16")}, "10.1.0.0/16", false,
			"NetworkRequest request-0 in namespace liqo-tenant-milan counts, but NetworkRequest request-1 of cluster milan has cidr.pod 10.2.0.0/16 instead of 10.1.0.0/16."},
		"an answer that is frozen": {[]*networkingv1beta1.NetworkRequest{refused("10.1.0.0/16"), copied("10.2.0.0/16")}, "10.2.0.0/16", false,
			"NetworkRequest request-1 in namespace liqo-tenant-milan counts, but NetworkRequest request-0 of this cluster has cidr.pod 10.1.0.0/16 instead of 10.2.0.0/16. " +
				"If that one is outdated, delete it: kubectl -n liqo-tenant-milan delete networkrequests.networking.liqo.io request-0"},
		"a request and a later answer":                {[]*networkingv1beta1.NetworkRequest{copied("10.1.0.0/16"), own("10.2.0.0/16")}, "10.1.0.0/16", false, "has cidr.pod 10.2.0.0/16 instead"},
		"an answer that is missing":                   {[]*networkingv1beta1.NetworkRequest{requestOf("milan", false), copied("10.2.0.0/16")}, "10.2.0.0/16", false, ""},
		"an answer that is refused":                   {[]*networkingv1beta1.NetworkRequest{own("8.8.8.0/24"), copied("10.2.0.0/16")}, "10.2.0.0/16", false, "has cidr.pod 8.8.8.0/24 instead"},
		"the same in both, as an honest peer reports": {[]*networkingv1beta1.NetworkRequest{own("10.1.0.0/16"), copied("10.1.0.0/16")}, "10.1.0.0/16", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, sync, writes := reconciledRequests(t, row.requests...)
			round := func() (last error) {
				for _, q := range row.requests {
					last = sync(q)
				}
				return last
			}
			for range 3 { // each request makes itself an owner
				round()
			}
			before := *writes
			last := round()
			if *writes != before {
				t.Errorf("%d writes although nothing changed", *writes-before)
			}
			configuration := &networkingv1beta1.Configuration{}
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: row.requests[0].Namespace, Name: "milan"}, configuration); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(configuration.Spec.Remote.CIDR.Pod, ","); got != row.pods {
				t.Errorf("the ranges are %s, want %s", got, row.pods)
			}
			if kube.IsInvalid(last) != row.refused {
				t.Errorf("the later request: %v, want a refusal %v", last, row.refused)
			}
			if both := last != nil && strings.Contains(last.Error(), "reports two networks"); last == nil || !strings.Contains(last.Error(), row.told) || both && row.told == "" {
				t.Errorf("the later request: %v, want %q", last, row.told)
			}
		})
	}
}

// TestReportedNetworksArePaced: a peer changes its network again and again. That causes a burst of writes and then one a second, each of which
// reaches every node.
func TestReportedNetworksArePaced(t *testing.T) {
	q := reporting(requestOf("milan", true), "10.1.0.0/16")
	c, sync, writes := reconciledRequests(t, q)
	_ = sync(q)
	before, began := *writes, time.Now()
	const burst = 3 * kube.PaceBurst
	var last error
	changes := 0
	for changes < burst || last == nil && changes < 2*burst { // on a slow machine, enough time may pass for the last change to be written, so change once more
		q.Spec.Consumer.CIDR.Pod = []string{fmt.Sprintf("10.%d.0.0/16", 2+changes)}
		changes++
		if err := c.Update(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		last = sync(q)
	}
	if most, got := kube.PaceBurst+1+int(time.Since(began)/kube.PaceInterval), *writes-before; got > most || got < kube.PaceBurst {
		t.Errorf("%d writes after %d changes, want %d to %d", got, changes, kube.PaceBurst, most)
	}
	if !kube.IsWait(last) || !strings.Contains(last.Error(), "too often") {
		t.Errorf("the last change: %v, want a wait", last)
	}
}
