package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/doctor"
	"liqo.io/liqo/internal/remote"
)

// accessTimeout is the timeout of each request to a peer. An unreachable peer must not keep the other checks from running.
const accessTimeout = 5 * time.Second

// access checks, with an Identity, whether the API server of a peer responds and what the Identity may do there. It returns nil if the
// Identity has no kubeconfig, which the check of identities reports.
func (p *collector) access(identity *authv1beta1.Identity) *doctor.Access {
	if identity.Status.KubeconfigSecretRef == nil {
		return nil
	}
	one := &doctor.Access{Peer: identity.Spec.ClusterID, Identity: identity.Name, Server: identity.Spec.AuthParams.APIServer}
	if proxy := identity.Spec.AuthParams.ProxyURL; proxy != nil && *proxy != "" {
		one.Proxy = *proxy
		return one
	}
	var secret corev1.Secret
	name := client.ObjectKey{Namespace: identity.Namespace, Name: identity.Status.KubeconfigSecretRef.Name}
	if err := p.cluster.Get(p.ctx, name, &secret); err != nil {
		one.Failure = fmt.Sprintf("its kubeconfig, Secret %s, can not be read: %v", name, err)
		one.Unusable = true
		return one
	}
	config, err := remote.Parse(secret.Data[authv1beta1.KubeconfigSecretKey]) // runs no program and reads no file that a Secret names
	if err != nil {
		one.Failure = fmt.Sprintf("its kubeconfig, Secret %s, can not be used: %v", name, err)
		one.Unusable = true
		return one
	}
	config.Timeout = accessTimeout
	remote.LimitResponses(config, 1<<20, accessTimeout)
	there, err := kubernetes.NewForConfig(config)
	if err != nil {
		one.Failure = err.Error()
		return one
	}
	began := time.Now()
	if err := there.Discovery().RESTClient().Get().AbsPath("/version").Do(p.ctx).Error(); err != nil {
		one.Failure = err.Error()
		one.Refused = apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err)
		return one
	}
	one.Took = time.Since(began)
	for _, right := range p.rights(identity) {
		may, err := permitted(p.ctx, there, right)
		if err != nil {
			one.Failure = err.Error()
			return one
		}
		if !may {
			one.Denied = append(one.Denied, fmt.Sprintf("%s %s in namespace %s", right.Verb, right.Resource, right.Namespace))
		}
	}
	return one
}

// rights returns the permissions that an Identity needs in the peer.
func (p *collector) rights(identity *authv1beta1.Identity) []authorizationv1.ResourceAttributes {
	var out []authorizationv1.ResourceAttributes
	if identity.Spec.Type == authv1beta1.IdentityControlPlane {
		for _, of := range []struct{ group, resource string }{
			{authv1beta1.GroupVersion.Group, "resourceslices"}, {authv1beta1.GroupVersion.Group, "renews"}, {offloadingv1beta1.GroupVersion.Group, "namespacemaps"},
		} {
			out = append(out, authorizationv1.ResourceAttributes{Verb: "create", Group: of.group, Resource: of.resource, Namespace: identity.Spec.Namespace})
		}
		return out
	}
	var mappings offloadingv1beta1.NamespaceMapList
	p.read("NamespaceMaps", &mappings, client.InNamespace(identity.Namespace), client.MatchingLabels{api.LabelRemoteID: identity.Spec.ClusterID})
	for i := range mappings.Items {
		current := mappings.Items[i].Status.CurrentMapping
		for _, name := range slices.Sorted(maps.Keys(current)) {
			if twin := current[name]; twin.Phase == offloadingv1beta1.MappingAccepted {
				out = append(out, authorizationv1.ResourceAttributes{
					Verb: "create", Group: offloadingv1beta1.GroupVersion.Group, Resource: "shadowpods", Namespace: twin.RemoteNamespace,
				})
			}
		}
	}
	return out
}

func permitted(ctx context.Context, there kubernetes.Interface, right authorizationv1.ResourceAttributes) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &right}}
	answer, err := there.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("checking the permission to %s %s: %w", right.Verb, right.Resource, err)
	}
	return answer.Status.Allowed, nil
}
