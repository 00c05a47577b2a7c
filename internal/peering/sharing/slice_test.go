package sharing

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/peering"
)

func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func sliceAsking(resources corev1.ResourceList, class string) *authv1beta1.ResourceSlice {
	return &authv1beta1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "gold", Labels: map[string]string{"liqo.io/replicated": "true", "liqo.io/originID": "rome"}},
		Spec:       authv1beta1.ResourceSliceSpec{Class: class, Resources: resources, ConsumerClusterID: "rome", ProviderClusterID: "milan"},
	}
}

func TestResourceVerdicts(t *testing.T) {
	active, cordoned, drained := peering.Grants{Access: true, More: true}, peering.Grants{Access: true}, peering.Grants{}
	offer := Offer{Enabled: true, NodeLabels: map[string]string{"city": "milan"}}
	closed := offer
	closed.Enabled = false
	before := authv1beta1.ResourceSliceStatus{Resources: list("cpu", "2", "memory", "8Gi", "nvidia.com/gpu", "1")}
	accept(&before, "", at(0))
	off := authv1beta1.ResourceSliceStatus{}
	deny(&off, authv1beta1.ReasonDefaultClassDisabled, "", at(0))
	type result struct {
		Verdict   authv1beta1.ResourceSliceConditionStatus
		Reason    string
		Message   string
		Resources corev1.ResourceList
	}
	none := authv1beta1.ResourceSliceStatus{}
	share := Share{Resources: list("cpu", "4", "memory", "8Gi")}
	part := Share{Resources: list("cpu", "4"), Cut: "4 of 8 cpu (why)"}
	kept := Share{Resources: before.Resources}
	for name, c := range map[string]struct {
		request     corev1.ResourceList
		class       string
		annotations map[string]string
		status      authv1beta1.ResourceSliceStatus
		grants      peering.Grants
		offer       Offer
		share       Share
		want        result
	}{
		"its share": {nil, "", nil, none, active, offer, share,
			result{"Accepted", "ResourceSliceResourcesAccepted", "the resources are granted", share.Resources}},
		"of the default class by name": {nil, "default", nil, none, active, offer, share,
			result{"Accepted", "ResourceSliceResourcesAccepted", "the resources are granted", share.Resources}},
		"a part of what it asked for": {list("cpu", "8"), "", nil, none, active, offer, part,
			result{"Accepted", "ResourceSliceResourcesAccepted", "granted in part: 4 of 8 cpu (why)", part.Resources}},
		"what left the share leaves the status": {list("cpu", "2"), "", nil, before, active, offer, share,
			result{"Accepted", "ResourceSliceResourcesAccepted", "the resources are granted", share.Resources}},
		"one too many": {nil, "", nil, none, active, offer, Share{Refused: "too many"},
			result{"Denied", "ResourceSliceResourcesDenied", "too many", nil}},
		"one too many of another class": {nil, "gold", nil, none, active, offer, Share{Refused: "too many"},
			result{"Denied", "ResourceSliceResourcesDenied", "too many", nil}},
		"one too many of another class loses its grant": {nil, "gold", nil, before, active, offer, Share{Refused: "too many"},
			result{"Denied", "ResourceSliceResourcesDenied", "too many", nil}},
		"another class is another's": {list("cpu", "1"), "gold", nil, none, active, offer, share, result{}},
		"another class keeps its verdict": {list("cpu", "1"), "gold", nil, before, active, offer, Share{},
			result{"Accepted", "ResourceSliceResourcesAccepted", "", before.Resources}},
		"the class is another one now": {nil, "gold", nil, off, active, closed, share, result{}},
		"the default class is off": {nil, "", nil, none, active, closed, share,
			result{"Denied", "DefaultResourceSliceClassDisabled", "the provider does not answer the default class of ResourceSlices", nil}},
		"cordoned, nothing granted before": {nil, "", nil, none, cordoned, offer, Share{},
			result{"Denied", "ResourceSliceResourcesDenied", "the tenant or this ResourceSlice is cordoned", nil}},
		"cordoned, the grant stays": {list("cpu", "2"), "", nil, before, cordoned, offer, kept,
			result{"Accepted", "ResourceSliceResourcesAccepted", "the granted resources stay; more are refused because of a cordon", before.Resources}},
		"cordoned, the change is not granted": {list("cpu", "100"), "", nil, before, cordoned, offer, kept,
			result{"Accepted", "ResourceSliceResourcesAccepted", "the resources granted before stay; the changed request is not granted because of a cordon", before.Resources}},
		"this slice is cordoned": {nil, "", map[string]string{"liqo.io/cordon": "true"}, none, active, offer, Share{},
			result{"Denied", "ResourceSliceResourcesDenied", "the tenant or this ResourceSlice is cordoned", nil}},
		"cordoned by the tenant's annotation": {nil, "", map[string]string{"liqo.io/cordon-tenant": "true"}, none, active, offer, Share{},
			result{"Denied", "ResourceSliceResourcesDenied", "the tenant or this ResourceSlice is cordoned", nil}},
		"drained": {nil, "", nil, before, drained, offer, Share{},
			result{"Denied", "ResourceSliceResourcesDenied", "the tenant is drained", nil}},
		"nobody overrules a drain": {nil, "gold", nil, before, drained, offer, Share{},
			result{"Denied", "ResourceSliceResourcesDenied", "the tenant is drained", nil}},
	} {
		t.Run(name, func(t *testing.T) {
			slice := sliceAsking(c.request, c.class)
			slice.Annotations = c.annotations
			c.status.DeepCopyInto(&slice.Status)
			DecideResources(slice, c.grants, c.offer, c.share, at(time.Hour))
			got := result{Resources: slice.Status.Resources}
			for _, condition := range slice.Status.Conditions {
				got.Verdict, got.Reason, got.Message = condition.Status, condition.Reason, condition.Message
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			// Law: deciding again changes nothing, at whatever time.
			again := slice.DeepCopy()
			DecideResources(again, c.grants, c.offer, c.share, at(2*time.Hour))
			if diff := cmp.Diff(slice.Status, again.Status); diff != "" {
				t.Errorf("decided again (-first +second):\n%s", diff)
			}
		})
	}
}

// TestDeniedAccessEndsTheVerdicts: a ResourceSlice of a provider that denies all access is not accepted. Its other status stays, a second write changes nothing, and a
// ResourceSlice without a verdict gets none.
func TestDeniedAccessEndsTheVerdicts(t *testing.T) {
	slice := sliceAsking(nil, "")
	if got := WithAccessDenied(slice, at(0)); got != nil {
		t.Errorf("without a verdict: %+v", got.Status)
	}
	slice.Status = authv1beta1.ResourceSliceStatus{Resources: list("cpu", "2")}
	SetAuthentication(&slice.Status, &authv1beta1.AuthParams{APIServer: "https://milan"}, nil, at(0))
	accept(&slice.Status, "", at(0))
	before := slice.DeepCopy()
	denied := WithAccessDenied(slice, at(time.Hour))
	if diff := cmp.Diff(before, slice); diff != "" {
		t.Errorf("the argument has changed:\n%s", diff)
	}
	if denied == nil {
		t.Fatal("no verdict changed")
	}
	const message = "cluster milan denies cluster rome all access: condition AuthIdentityControlPlaneStatus of ForeignCluster milan says why, and what to do"
	want := before.Status.DeepCopy()
	for i := range want.Conditions {
		c := &want.Conditions[i]
		c.Status, c.Reason, c.Message, c.LastTransitionTime = "Denied", "AccessRevoked", message, at(time.Hour)
	}
	if diff := cmp.Diff(*want, denied.Status); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if again := WithAccessDenied(denied, at(2*time.Hour)); again != nil {
		t.Errorf("denied again: %+v", again.Status)
	}
}

// TestDenialEndsWithItsReason: a denial by this cluster ends with its reason, for ResourceSlices of every class. The controller of another class then
// finds no verdict, and its own verdicts stay.
func TestDenialEndsWithItsReason(t *testing.T) {
	decide := func(slice *authv1beta1.ResourceSlice, refused error) {
		share := Share{Resources: list("cpu", "4")}
		if refused != nil {
			share = Share{Refused: refused.Error()}
		}
		SetAuthentication(&slice.Status, &authv1beta1.AuthParams{}, refused, at(0))
		DecideResources(slice, peering.Grants{Access: true, More: true}, Offer{Enabled: true}, share, at(0))
	}
	for class, want := range map[string]authv1beta1.ResourceSliceConditionStatus{"": "Accepted", "gold": ""} {
		for _, refused := range []error{TooMany("one too many"), errors.New("the request is not the consumer's")} {
			slice := sliceAsking(nil, class)
			decide(slice, refused)
			if got := peering.ConditionOf(&slice.Status, authv1beta1.ResourceSliceResources); got != authv1beta1.ResourceSliceDenied {
				t.Errorf("class %q, %v: %q, want a denial", class, refused, got)
			}
			decide(slice, nil)
			if got := peering.ConditionOf(&slice.Status, authv1beta1.ResourceSliceResources); got != want {
				t.Errorf("class %q, after the end of %q: %q, want %q", class, refused, got, want)
			}
		}
	}
	slice := sliceAsking(nil, "gold")
	decide(slice, nil)
	deny(&slice.Status, authv1beta1.ReasonResourcesDenied, "no gold left", at(0)) // as the controller of the class does
	decide(slice, nil)
	if got := peering.ConditionOf(&slice.Status, authv1beta1.ResourceSliceResources); got != authv1beta1.ResourceSliceDenied {
		t.Errorf("the verdict of the controller of the class became %q", got)
	}
}

func TestSliceIdentities(t *testing.T) {
	rome, thief := newHolder(t), newHolder(t)
	tenant := &authv1beta1.Tenant{Spec: authv1beta1.TenantSpec{ClusterID: "rome", PublicKey: rome.public}}
	user := peering.ResourceSliceSubject("gold", "rome").User
	for name, c := range map[string]struct {
		change  func(*authv1beta1.ResourceSlice, *authv1beta1.Tenant)
		csr     []byte
		refused bool
	}{
		"as it should be":              {nil, rome.requestFor(t, user, "rome"), false},
		"with another key":             {nil, thief.requestFor(t, user, "rome"), true},
		"for the control plane's user": {nil, rome.requestFor(t, "rome", "liqo.io"), true},
		"for another tenant's group":   {nil, rome.requestFor(t, user, "paris"), true},
		"for another slice":            {nil, rome.requestFor(t, peering.ResourceSliceSubject("iron", "rome").User, "rome"), true},
		"without request":              {nil, nil, true},
		"for another consumer": {func(s *authv1beta1.ResourceSlice, _ *authv1beta1.Tenant) { s.Spec.ConsumerClusterID = "paris" },
			rome.requestFor(t, user, "rome"), true},
		"for another provider": {func(s *authv1beta1.ResourceSlice, _ *authv1beta1.Tenant) { s.Spec.ProviderClusterID = "paris" },
			rome.requestFor(t, user, "rome"), true},
		"of a tenant without key": {func(_ *authv1beta1.ResourceSlice, tn *authv1beta1.Tenant) { tn.Spec.PublicKey = nil },
			rome.requestFor(t, user, "rome"), true},
		"of a tolerated tenant": {func(_ *authv1beta1.ResourceSlice, tn *authv1beta1.Tenant) {
			tn.Spec.PublicKey, tn.Spec.AuthzPolicy = nil, authv1beta1.TolerateNoHandshake
		}, rome.requestFor(t, user, "rome"), false},
	} {
		t.Run(name, func(t *testing.T) {
			slice, tn := sliceAsking(nil, ""), tenant.DeepCopy()
			slice.Spec.CSR = c.csr
			if c.change != nil {
				c.change(slice, tn)
			}
			refuses(t, CheckSlice(slice, tn, "milan"), c.refused)
		})
	}
}

func TestQuotas(t *testing.T) {
	tenant := &authv1beta1.Tenant{Spec: authv1beta1.TenantSpec{ClusterID: "rome"}}
	slice := sliceAsking(nil, "")
	if got := QuotaOf(slice, tenant, offloadingv1beta1.EnforcementSoft); got != nil {
		t.Errorf("a quota for nothing granted: %+v", got)
	}
	SetAuthentication(&slice.Status, &authv1beta1.AuthParams{}, nil, at(0))
	DecideResources(slice, peering.GrantsOf(tenant), Offer{Enabled: true}, Share{Resources: list("cpu", "4")}, at(0))
	no, yes := false, true
	want := &offloadingv1beta1.QuotaSpec{
		User: "gold-a8a4c692b93b", LimitsEnforcement: offloadingv1beta1.EnforcementSoft, Resources: list("cpu", "4"), Cordoned: &no,
	}
	if diff := cmp.Diff(want, QuotaOf(slice, tenant, offloadingv1beta1.EnforcementSoft)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	nothing := slice.DeepCopy()
	nothing.Status.Resources = nil // as the API server returns an empty list
	if got := QuotaOf(nothing, tenant, offloadingv1beta1.EnforcementSoft); got == nil || got.Resources == nil {
		t.Errorf("the quota of a share of nothing is %+v, want one that grants nothing", got)
	}
	want.Cordoned = &yes
	slice.Annotations = map[string]string{"liqo.io/cordon": "true"}
	if diff := cmp.Diff(want, QuotaOf(slice, tenant, offloadingv1beta1.EnforcementSoft)); diff != "" {
		t.Errorf("cordoned (-want +got):\n%s", diff)
	}
	tenant.Spec.TenantCondition = authv1beta1.TenantDrained
	if got := QuotaOf(slice, tenant, offloadingv1beta1.EnforcementSoft); got != nil {
		t.Errorf("a quota for a drained tenant: %+v", got)
	}
}
