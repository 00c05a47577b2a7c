package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/invite"
)

func ready(generation int64) metav1.Condition {
	return metav1.Condition{Type: kube.ConditionReady, Status: metav1.ConditionTrue, Reason: "Done", ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(time.Unix(1, 0))}
}

// control does once what the controllers of a cluster do for a command to come to its end: each looks when a resource that it is about changed here
// or, with an asterisk, in the peer's cluster. It tells whether one of them had to look.
func (s *memorySide) control(ctx context.Context, peer *memorySide) (busy bool, err error) {
	for i, work := range []struct {
		resources string
		do        func(context.Context, *memorySide) error
	}{
		{"networks ips connections configurations gatewayservers gatewayclients secrets publickeies *publickeies", s.networks},
		{"secrets certificatesigningrequests", s.secrets},
		{"tenants", s.tenants},
		{"identities secrets", s.identities},
		{"resourceslices", s.resourceSlices},
		{"resourceslices tenants *resourceslices", s.copies},
		{"virtualnodes nodes", s.virtualNodes},
		{"namespaceoffloadings", s.offloadings},
		{"networkrequests", s.requests},
		{"namespaces gatewayservers gatewayclients networkrequests tenants identities virtualnodes foreignclusters", s.foreign},
	} {
		latest := [2]int{}
		for resource := range strings.FieldsSeq(work.resources) {
			if theirs, found := strings.CutPrefix(resource, "*"); found {
				latest[1] = max(latest[1], peer.last(theirs))
			} else {
				latest[0] = max(latest[0], s.last(resource))
			}
		}
		if s.looked[i] == latest {
			continue
		}
		busy, s.looked[i] = true, latest
		if err := work.do(ctx, peer); err != nil {
			return busy, err
		}
	}
	return busy, nil
}

// last is when a resource changed last.
func (m *memory) last(resource string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.touched[resource]
}

func (s *memorySide) networks(ctx context.Context, _ *memorySide) error {
	var networks ipamv1alpha1.NetworkList
	var ips ipamv1alpha1.IPList
	var connections networkingv1beta1.ConnectionList
	for _, list := range []client.ObjectList{&networks, &ips, &connections} {
		if err := s.client.List(ctx, list); err != nil {
			return err
		}
	}
	for i := range networks.Items {
		if n := &networks.Items[i]; n.Status.CIDR == "" {
			n.Status.CIDR = n.Spec.CIDR
			if err := s.client.Status().Update(ctx, n); err != nil {
				return err
			}
		}
	}
	for i := range ips.Items {
		if ip := &ips.Items[i]; ip.Status.IP == "" {
			ip.Status.IP = "10.70.0.9"
			if err := s.client.Status().Update(ctx, ip); err != nil {
				return err
			}
		}
	}
	// What gateways leave goes with them.
	for i := range connections.Items {
		connection := &connections.Items[i]
		key := client.ObjectKey{Namespace: connection.Namespace, Name: connection.Spec.GatewayRef.Name}
		if kube.Absent(s.client.Get(ctx, key, &networkingv1beta1.GatewayServer{})) && kube.Absent(s.client.Get(ctx, key, &networkingv1beta1.GatewayClient{})) {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: connection.Namespace, Name: connection.Name}}
			if err := s.client.Delete(ctx, connection); err != nil {
				return err
			}
			if err := client.IgnoreNotFound(s.client.Delete(ctx, secret)); err != nil {
				return err
			}
		}
	}
	if err := s.once(ctx); client.IgnoreNotFound(err) != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

func (s *memorySide) secrets(ctx context.Context, _ *memorySide) error {
	var secrets corev1.SecretList
	if err := s.client.List(ctx, &secrets); err != nil {
		return err
	}
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		nonce, signed := secret.Data[authv1beta1.NonceKey], secret.Data[authv1beta1.SignedNonceKey]
		switch {
		case secret.Labels[authv1beta1.LabelNonce] == api.True && len(nonce) == 0:
			secret.Data = map[string][]byte{authv1beta1.NonceKey: []byte("a nonce")}
		case secret.Labels[authv1beta1.LabelSignedNonce] == api.True && len(nonce) > 0 && len(signed) == 0:
			secret.Data[authv1beta1.SignedNonceKey] = append([]byte("signed "), nonce...)
		default:
			continue
		}
		if err := s.client.Update(ctx, secret); err != nil {
			return err
		}
	}
	var requests certificatesv1.CertificateSigningRequestList
	if err := s.client.List(ctx, &requests); err != nil {
		return err
	}
	for i := range requests.Items {
		if request := &requests.Items[i]; len(request.Status.Conditions) > 0 && len(request.Status.Certificate) == 0 {
			request.Status.Certificate = []byte("a certificate")
			if err := s.client.Status().Update(ctx, request); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *memorySide) tenants(ctx context.Context, _ *memorySide) error {
	var tenants authv1beta1.TenantList
	if err := s.client.List(ctx, &tenants); err != nil {
		return err
	}
	for i := range tenants.Items {
		tenant := &tenants.Items[i]
		if len(tenant.Status.Conditions) > 0 && tenant.Status.Conditions[0].ObservedGeneration == tenant.Generation {
			continue
		}
		tenant.Status = authv1beta1.TenantStatus{
			AuthParams:      &authv1beta1.AuthParams{APIServer: "https://" + s.side.id, SignedCRT: []byte("crt"), CA: []byte("ca"), ProxyURL: tenant.Spec.ProxyURL},
			TenantNamespace: tenant.Namespace, Conditions: []metav1.Condition{ready(tenant.Generation)},
		}
		if err := s.client.Status().Update(ctx, tenant); err != nil {
			return err
		}
	}
	return nil
}

func (s *memorySide) identities(ctx context.Context, _ *memorySide) error {
	var identities authv1beta1.IdentityList
	if err := s.client.List(ctx, &identities); err != nil {
		return err
	}
	for i := range identities.Items {
		identity := &identities.Items[i]
		invitation := &corev1.Secret{}
		invited := s.client.Get(ctx, client.ObjectKey{Namespace: identity.Namespace, Name: invite.Secret}, invitation) == nil
		if invited && peering.WantsReenrollment(identity, invitation) {
			identity.Spec.AuthParams = authv1beta1.AuthParams{SignedCRT: []byte("crt")}
			delete(identity.Annotations, peering.AnnotationReenroll)
			if err := s.client.Update(ctx, identity); err != nil {
				return err
			}
		}
		invited = invited && peering.Accepts(identity, invitation)
		if identity.Status.KubeconfigSecretRef != nil || len(identity.Spec.AuthParams.SignedCRT) == 0 && !invited {
			continue
		}
		if invited {
			identity.Spec.AuthParams.SignedCRT = []byte("crt")
			if err := s.client.Update(ctx, identity); err != nil {
				return err
			}
		}
		name := authv1beta1.KubeconfigSecretPrefix + identity.Name
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: identity.Namespace, Name: name, OwnerReferences: []metav1.OwnerReference{{UID: identity.UID}}},
			Data: map[string][]byte{authv1beta1.KubeconfigSecretKey: []byte(`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}],
				users: [{name: u, user: {}}], contexts: [{name: c, context: {cluster: a, user: u}}]}`)},
		}
		if err := client.IgnoreAlreadyExists(s.client.Create(ctx, secret)); err != nil {
			return err
		}
		identity.Status.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: name}
		if err := s.client.Status().Update(ctx, identity); err != nil {
			return err
		}
	}
	return nil
}

// resourceSlices grants the requests of this cluster, and creates the resulting objects.
func (s *memorySide) resourceSlices(ctx context.Context, _ *memorySide) error {
	var slices authv1beta1.ResourceSliceList
	if err := s.client.List(ctx, &slices, client.MatchingLabels{api.LabelReplication: api.True}); err != nil {
		return err
	}
	for i := range slices.Items {
		slice := &slices.Items[i]
		owner := []metav1.OwnerReference{{UID: slice.UID}}
		labels := map[string]string{api.LabelRemoteClusterID: slice.Labels[api.LabelRemoteID], api.LabelResourceSliceName: slice.Name}
		if len(slice.Status.Conditions) == 0 {
			slice.Status.Resources = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
			for _, of := range []authv1beta1.ResourceSliceConditionType{authv1beta1.ResourceSliceAuthentication, authv1beta1.ResourceSliceResources} {
				slice.Status.Conditions = append(slice.Status.Conditions, authv1beta1.ResourceSliceCondition{Type: of, Status: authv1beta1.ResourceSliceAccepted})
			}
			if err := s.client.Status().Update(ctx, slice); err != nil {
				return err
			}
		}
		made := []client.Object{&authv1beta1.Identity{
			ObjectMeta: metav1.ObjectMeta{Namespace: slice.Namespace, Name: authv1beta1.IdentityResourceSlicePrefix + slice.Name, OwnerReferences: owner, Labels: labels},
			Spec:       authv1beta1.IdentitySpec{ClusterID: slice.Labels[api.LabelRemoteID], Type: authv1beta1.IdentityResourceSlice, AuthParams: authv1beta1.AuthParams{SignedCRT: []byte("crt")}},
		}}
		if slice.Annotations[authv1beta1.AnnotationCreateVirtualNode] == api.True {
			made = append(made, &offloadingv1beta1.VirtualNode{
				ObjectMeta: metav1.ObjectMeta{Namespace: slice.Namespace, Name: slice.Name, OwnerReferences: owner, Labels: labels},
				Spec:       offloadingv1beta1.VirtualNodeSpec{ClusterID: slice.Labels[api.LabelRemoteID]},
			})
		}
		for _, object := range made {
			if err := client.IgnoreAlreadyExists(s.client.Create(ctx, object)); err != nil {
				return err
			}
		}
	}
	return nil
}

// copies are the ResourceSlices that the peer asks this cluster for, each with its Quota.
func (s *memorySide) copies(ctx context.Context, peer *memorySide) error {
	var wanted, have authv1beta1.ResourceSliceList
	var tenants authv1beta1.TenantList
	if err := peer.client.List(ctx, &wanted, client.MatchingLabels{api.LabelRemoteID: s.side.id, api.LabelReplication: api.True}); err != nil {
		return err
	}
	if err := s.client.List(ctx, &tenants, client.MatchingLabels{api.LabelRemoteClusterID: peer.side.id}); err != nil || len(tenants.Items) == 0 {
		return err
	}
	tenant := &tenants.Items[0]
	asked := map[string]bool{}
	for i := range wanted.Items {
		name := wanted.Items[i].Name
		asked[name] = true
		slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: name, Labels: map[string]string{
			api.LabelReplicated: api.True, api.LabelReplication: api.False, api.LabelOriginID: peer.side.id, api.LabelRemoteClusterID: peer.side.id,
		}}}
		if err := client.IgnoreAlreadyExists(s.client.Create(ctx, slice)); err != nil {
			return err
		}
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(slice), slice); err != nil {
			return err
		}
		cordoned := !peering.GrantsOf(tenant).More || slice.Annotations[authv1beta1.AnnotationCordon] == api.True
		user := peering.ResourceSliceSubject(name, peer.side.id).User
		quota := &offloadingv1beta1.Quota{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: user, OwnerReferences: []metav1.OwnerReference{{UID: slice.UID}}}}
		if _, err := kube.Ensure(ctx, s.client, quota, func() error {
			quota.Spec.User, quota.Spec.Cordoned = user, &cordoned
			return nil
		}); err != nil {
			return err
		}
	}
	if err := s.client.List(ctx, &have, client.MatchingLabels{api.LabelReplicated: api.True}); err != nil {
		return err
	}
	for i := range have.Items {
		if !asked[have.Items[i].Name] {
			if err := s.client.Delete(ctx, &have.Items[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *memorySide) virtualNodes(ctx context.Context, _ *memorySide) error {
	var virtual offloadingv1beta1.VirtualNodeList
	var nodes corev1.NodeList
	if err := s.client.List(ctx, &virtual); err != nil {
		return err
	}
	wanted := map[string]bool{}
	for i := range virtual.Items {
		wanted[virtual.Items[i].Name] = true
		if err := client.IgnoreAlreadyExists(s.client.Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: virtual.Items[i].Name, Labels: map[string]string{api.LabelType: api.TypeVirtualNode, api.LabelRemoteClusterID: virtual.Items[i].Spec.ClusterID}},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		})); err != nil {
			return err
		}
	}
	if err := s.client.List(ctx, &nodes, client.MatchingLabels{api.LabelType: api.TypeVirtualNode}); err != nil {
		return err
	}
	for i := range nodes.Items {
		if !wanted[nodes.Items[i].Name] {
			if err := s.client.Delete(ctx, &nodes.Items[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *memorySide) offloadings(ctx context.Context, _ *memorySide) error {
	var list offloadingv1beta1.NamespaceOffloadingList
	if err := s.client.List(ctx, &list); err != nil {
		return err
	}
	for i := range list.Items {
		if o := &list.Items[i]; o.Status.ObservedGeneration != o.Generation {
			o.Status.ObservedGeneration, o.Status.OffloadingPhase = o.Generation, offloadingv1beta1.PhaseReady
			if o.Spec.ClusterSelector != nil {
				s.leaveOut(ctx, o)
			}
			if err := s.client.Status().Update(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// leaveOut takes a namespace back from the clusters that are not selected, if its data there was given up.
func (s *memorySide) leaveOut(ctx context.Context, o *offloadingv1beta1.NamespaceOffloading) {
	var nodes offloadingv1beta1.VirtualNodeList
	if err := s.client.List(ctx, &nodes); err != nil {
		panic(err)
	}
	selected := offload.Selected(o.Spec.ClusterSelector, nodes.Items)
	for id, conditions := range o.Status.RemoteNamespacesConditions {
		switch {
		case slices.Contains(selected, id):
		case o.Annotations[api.AnnotationDeleteVolumes] == api.True:
			delete(o.Status.RemoteNamespacesConditions, id)
		default:
			conditions[0].Status = corev1.ConditionFalse // kept, and still Ready
		}
	}
}

func (s *memorySide) requests(ctx context.Context, _ *memorySide) error {
	var list networkingv1beta1.NetworkRequestList
	if err := s.client.List(ctx, &list); err != nil {
		return err
	}
	for i := range list.Items {
		if r := &list.Items[i]; len(r.Status.Conditions) == 0 {
			r.Status.Conditions = []metav1.Condition{ready(r.Generation)}
			if err := s.client.Status().Update(ctx, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// foreign updates the ForeignCluster of the peer from the existing objects.
func (s *memorySide) foreign(ctx context.Context, peer *memorySide) error {
	of := client.MatchingLabels{api.LabelRemoteClusterID: peer.side.id}
	count := func(lists ...client.ObjectList) (bool, error) {
		for _, list := range lists {
			if err := s.client.List(ctx, list, of); err != nil {
				return false, err
			}
			if meta.LenList(list) > 0 {
				return true, nil
			}
		}
		return false, nil
	}
	network, err := count(&networkingv1beta1.GatewayServerList{}, &networkingv1beta1.GatewayClientList{}, &networkingv1beta1.NetworkRequestList{})
	if err != nil {
		return err
	}
	authentication, err := count(&authv1beta1.TenantList{}, &authv1beta1.IdentityList{})
	if err != nil {
		return err
	}
	offloading, err := count(&offloadingv1beta1.VirtualNodeList{})
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{}
	known := s.client.Get(ctx, client.ObjectKey{Name: api.TenantNamespace(peer.side.id)}, namespace) == nil
	record := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: peer.side.id}}
	err = s.client.Get(ctx, client.ObjectKeyFromObject(record), record)
	switch {
	case kube.Absent(err) && !known:
		return nil
	case kube.Absent(err):
		record.Spec.ClusterID = peer.side.id
		if err := s.client.Create(ctx, record); err != nil {
			return fmt.Errorf("recording %s: %w", peer.side.id, err)
		}
	case err != nil:
		return err
	}
	modules := corev1beta1.Modules{
		Networking: corev1beta1.Module{Enabled: network}, Authentication: corev1beta1.Module{Enabled: authentication}, Offloading: corev1beta1.Module{Enabled: offloading},
	}
	before := record.DeepCopy()
	record.Status.Modules = modules
	record.Status.TenantNamespace.Local = namespace.Name
	if sameJSON(before.Status, record.Status) {
		return nil
	}
	return s.client.Status().Update(ctx, record)
}

// measure has the gateways of a cluster measure their tunnels.
func (s *memorySide) measure(ctx context.Context) {
	var connections networkingv1beta1.ConnectionList
	if err := s.client.List(ctx, &connections); err != nil {
		return // the test ends
	}
	for i := range connections.Items {
		if latency := connections.Items[i].Status.Latency; latency != nil {
			latency.Timestamp = metav1.Now()
			_ = s.client.Status().Update(ctx, &connections.Items[i])
		}
	}
}
