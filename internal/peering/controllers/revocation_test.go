package controllers

import (
	"crypto/x509/pkix"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/reasons"
	"liqo.io/liqo/internal/remote"
	"liqo.io/liqo/test/apitest"
)

// stolen holds the clients of a thief who once read the kubeconfigs of a consumer.
type stolen struct {
	controlPlane, slice client.Client
	// remoteNamespace is a namespace created for the consumer.
	remoteNamespace string
}

// steal copies the kubeconfigs that rome has for milan, and gives it rights in a namespace as the controller of NamespaceMaps does.
func steal(t *testing.T, rome, milan *cluster, remoteNamespace string) *stolen {
	t.Helper()
	with := func(identity string) client.Client {
		secret := eventually(t, rome, &corev1.Secret{ObjectMeta: rome.meta(milan, "kubeconfig-"+identity)}, "made", func(*corev1.Secret) bool { return true })
		cfg, _, err := remote.Config(secret)
		if err != nil {
			t.Fatal(err)
		}
		return apitest.Client(t, cfg)
	}
	s := &stolen{controlPlane: with("controlplane-milan"), slice: with("resourceslice-milan"), remoteNamespace: remoteNamespace}
	milan.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: remoteNamespace}})
	milan.create(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: remoteNamespace, Name: "liqo-tenant-rome", Labels: map[string]string{api.LabelRemoteClusterID: rome.id, peering.LabelManagedBy: peering.ManagedBy},
			Annotations: map[string]string{offloadingv1beta1.AnnotationManagedByNamespaceMap: "liqo-tenant-rome/milan"},
		},
		RoleRef: clusterRole("liqo-virtual-kubelet-remote"), Subjects: subjects(rbacv1.GroupKind, rome.id),
	})
	s.may(t, true)
	return s
}

// may waits until every right is there, or none. A token may end as a whole: a drain deletes the copy of a ResourceSlice, and its consumer may create the copy again
// before it loses its rights. Then the ServiceAccount of the former copy is deleted.
func (s *stolen) may(t *testing.T, want bool) {
	t.Helper()
	tries := map[string]func() error{
		"reading slices": func() error {
			return s.controlPlane.List(t.Context(), &authv1beta1.ResourceSliceList{}, client.InNamespace("liqo-tenant-rome"))
		},
		"asking for resources": func() error {
			slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "more", Labels: map[string]string{
				api.LabelReplication: api.False, api.LabelReplicated: api.True, api.LabelOriginID: "rome", api.LabelRemoteClusterID: "rome",
			}}}
			return s.controlPlane.Create(t.Context(), slice, client.DryRunAll)
		},
		"renewing": func() error {
			renew := &authv1beta1.Renew{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "again", Labels: map[string]string{
				api.LabelReplication: api.False, api.LabelReplicated: api.True, api.LabelOriginID: "rome", api.LabelRemoteClusterID: "rome",
			}}}
			return s.controlPlane.Create(t.Context(), renew, client.DryRunAll)
		},
		"reading pods": func() error {
			return s.slice.List(t.Context(), &corev1.PodList{}, client.InNamespace(s.remoteNamespace))
		},
		"running pods": func() error {
			pod := &offloadingv1beta1.ShadowPod{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.remoteNamespace, Name: "p"},
				Spec:       offloadingv1beta1.ShadowPodSpec{Pod: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
			}
			return s.slice.Create(t.Context(), pod, client.DryRunAll)
		},
		"reading secrets": func() error {
			return s.slice.List(t.Context(), &corev1.SecretList{}, client.InNamespace(s.remoteNamespace))
		},
	}
	apitest.Eventually(t, within, fmt.Sprintf("rome's certificates to be good for something: %t", want), func() error {
		for what, try := range tries {
			if err := try(); err != nil && !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
				return fmt.Errorf("%s: %w", what, err)
			} else if (err == nil) != want {
				return fmt.Errorf("%s: allowed %t", what, err == nil)
			}
		}
		return nil
	})
}

// revoked: a drain revokes the permissions of valid certificates, and the consumer gets a message. A thief with the certificates gains nothing after
// the deletion of the Tenant, nor with an expired certificate.
func revoked(t *testing.T, rome, milan *cluster) {
	t.Helper()
	thief := steal(t, rome, milan, "shop-rome")
	tenant := &authv1beta1.Tenant{ObjectMeta: milan.meta(rome, rome.id)}
	fc := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: milan.id}}
	// Before the Tenant is deleted, the annotation is removed: no controller of this test deletes namespaces.
	remoteNamespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: thief.remoteNamespace}}
	change(t, milan, remoteNamespace, func(n *corev1.Namespace) {
		n.Annotations = map[string]string{offloadingv1beta1.AnnotationManagedByNamespaceMap: "liqo-tenant-rome/milan"}
	})
	change(t, milan, tenant, func(tn *authv1beta1.Tenant) { tn.Spec.TenantCondition = authv1beta1.TenantDrained })
	thief.may(t, false)
	report := client.ObjectKey{Namespace: thief.remoteNamespace, Name: offloadingv1beta1.DrainedRoleBinding}
	apitest.Eventually(t, within, "a drained consumer to recognize the drain", func() error { return thief.slice.Get(t.Context(), report, &rbacv1.RoleBinding{}) })
	eventually(t, rome, fc, "told that it is drained", func(fc *corev1beta1.ForeignCluster) bool {
		c := fc.Status.Modules.Authentication.Conditions[0]
		return c.Status == corev1beta1.StatusNotReady && c.Reason == reasons.AccessRevoked
	})
	apitest.Eventually(t, within, "an Event about the lost access", func() error {
		found := &eventsv1.EventList{}
		if err := rome.List(t.Context(), found); err != nil {
			return err
		}
		for _, event := range found.Items {
			if event.Reason == reasons.AccessRevoked && event.Regarding.Kind == "ForeignCluster" && event.Regarding.Name == milan.id && strings.Contains(event.Note, "liqoctl activate tenant") {
				return nil
			}
		}
		return fmt.Errorf("it is none of %d Events", len(found.Items))
	})
	eventually(t, rome, &authv1beta1.ResourceSlice{ObjectMeta: rome.meta(milan, "milan")}, "no longer accepted", func(slice *authv1beta1.ResourceSlice) bool {
		for _, c := range slice.Status.Conditions {
			if c.Status != authv1beta1.ResourceSliceDenied || c.Reason != reasons.AccessRevoked {
				return false
			}
		}
		return slice.Status.AuthParams != nil && len(slice.Status.Conditions) == 2
	})
	change(t, milan, tenant, func(tn *authv1beta1.Tenant) { tn.Spec.TenantCondition = authv1beta1.TenantActive })
	settled(t, rome, milan)
	apitest.Eventually(t, within, "the report of the drain to end", func() error {
		err := milan.Get(t.Context(), report, &rbacv1.RoleBinding{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("RoleBinding %s: %w", report, err)
	})
	change(t, milan, remoteNamespace, func(n *corev1.Namespace) { n.Annotations = nil })
	eventually(t, rome, fc, "told that it is let in again", func(fc *corev1beta1.ForeignCluster) bool {
		return fc.Status.Modules.Authentication.Conditions[0].Status == corev1beta1.StatusReady
	})
	thief = steal(t, rome, milan, "bank-rome")
	unpeer(t, rome, milan)
	thief.may(t, false)

	ended, err := milan.authority.Certificate(rome.signer(t).Public(), pkix.Name{CommonName: rome.id, Organization: []string{"liqo.io"}},
		time.Now().Add(-time.Hour), time.Now().Add(-time.Second))
	if err != nil {
		t.Fatal(err)
	}
	cfg := rest.AnonymousClientConfig(milan.config)
	cfg.CertData = ended
	cfg.KeyData, _ = rome.key(t)
	err = apitest.Client(t, cfg).List(t.Context(), &authv1beta1.ResourceSliceList{}, client.InNamespace("liqo-tenant-rome"))
	if !apierrors.IsUnauthorized(err) {
		t.Errorf("with a certificate that ended: %v", err)
	}
}
