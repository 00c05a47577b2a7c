package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/doctor"
	"liqo.io/liqo/internal/remote"
)

// AccessTimeout is the timeout of each request to a peer. An unreachable peer must not keep the other checks from running.
const AccessTimeout = 5 * time.Second

// webhookTimeout is the timeout of each dry run in a peer. It is longer than the API server there waits for a webhook, five seconds for those of Liqo and ten by
// default, so that its reply names a webhook that does not respond.
const webhookTimeout = 15 * time.Second

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
	kubeconfig := secret.Data[authv1beta1.KubeconfigSecretKey]
	there, err := clientOf(kubeconfig, AccessTimeout)
	if err != nil {
		one.Failure = fmt.Sprintf("its kubeconfig, Secret %s, can not be used: %v", name, err)
		one.Unusable = true
		return one
	}
	began := time.Now()
	if err := there.Discovery().RESTClient().Get().AbsPath("/version").Do(p.ctx).Error(); err != nil {
		one.Failure = err.Error()
		one.Refused = apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err)
		return one
	}
	one.Took = time.Since(began)
	namespaces := p.remoteNamespaces(identity)
	for _, right := range rights(identity, namespaces) {
		may, err := permitted(p.ctx, there, right)
		if err != nil {
			one.Failure = err.Error()
			return one
		}
		if !may {
			one.Denied = append(one.Denied, fmt.Sprintf("%s %s in namespace %s", right.Verb, right.Resource, right.Namespace))
		}
	}
	if p.depth == MakeDryRuns && len(namespaces) > 0 && len(one.Denied) == 0 {
		if there, err = clientOf(kubeconfig, webhookTimeout); err != nil {
			one.Failure = err.Error()
			return one
		}
		one.DryRuns = p.dryRunsThere(there, one.Peer, namespaces[0])
	}
	return one
}

// clientOf returns a client of a peer whose requests take no longer than within.
func clientOf(kubeconfig []byte, within time.Duration) (kubernetes.Interface, error) {
	config, err := remote.Parse(kubeconfig) // runs no program and reads no file that a Secret names
	if err != nil {
		return nil, err
	}
	config.Timeout = within
	remote.LimitResponses(config, 1<<20, 0, within)
	return kubernetes.NewForConfig(config)
}

// rights returns the permissions that an Identity needs in the peer. namespaces are the remote namespaces of an Identity of a virtual node.
func rights(identity *authv1beta1.Identity, namespaces []string) []authorizationv1.ResourceAttributes {
	var out []authorizationv1.ResourceAttributes
	if identity.Spec.Type == authv1beta1.IdentityControlPlane {
		for _, of := range []struct{ group, resource string }{
			{authv1beta1.GroupVersion.Group, "resourceslices"}, {authv1beta1.GroupVersion.Group, "renews"}, {offloadingv1beta1.GroupVersion.Group, "namespacemaps"},
		} {
			out = append(out, authorizationv1.ResourceAttributes{Verb: "create", Group: of.group, Resource: of.resource, Namespace: identity.Spec.Namespace})
		}
		return out
	}
	for _, namespace := range namespaces {
		out = append(out, authorizationv1.ResourceAttributes{
			Verb: "create", Group: offloadingv1beta1.GroupVersion.Group, Resource: "shadowpods", Namespace: namespace,
		})
	}
	return out
}

// remoteNamespaces returns the remote namespaces that a provider has accepted, for an Identity of a virtual node.
func (p *collector) remoteNamespaces(identity *authv1beta1.Identity) (out []string) {
	if identity.Spec.Type == authv1beta1.IdentityControlPlane {
		return nil
	}
	mappings := read(p, "NamespaceMaps", &offloadingv1beta1.NamespaceMapList{}, client.InNamespace(identity.Namespace), client.MatchingLabels{api.LabelRemoteID: identity.Spec.ClusterID})
	for i := range mappings.Items {
		current := mappings.Items[i].Status.CurrentMapping
		for _, name := range slices.Sorted(maps.Keys(current)) {
			if remote := current[name]; remote.Phase == offloadingv1beta1.MappingAccepted {
				out = append(out, remote.RemoteNamespace)
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

// dryRunTimeout is the timeout of all dry runs in one cluster. Kubernetes waits ten seconds for a webhook that does not respond.
const dryRunTimeout = 20 * time.Second

// concurrentDryRuns is the maximum number of consumers whose dry runs are made at the same time.
const concurrentDryRuns = 8

// probe is a plain object of the kinds in remote namespaces. The policies and webhooks of Liqo admit it.
type probe struct {
	client.Object
	resource, kind string
}

// probes returns the objects for dry runs in a remote namespace of a consumer. class is the storage class of the claim, empty for the default.
func probes(namespace, consumer, class string) (pod, claim probe, others []probe) {
	meta := metav1.ObjectMeta{GenerateName: "liqo-doctor-", Namespace: namespace, Labels: map[string]string{api.LabelOrigin: consumer}}
	yes, no := true, false
	little := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("1Mi")}
	pod = probe{&corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
		AutomountServiceAccountToken: &no,
		Containers: []corev1.Container{{
			Name: "pause", Image: "registry.k8s.io/pause:3.10", Resources: corev1.ResourceRequirements{Requests: little, Limits: little},
			SecurityContext: &corev1.SecurityContext{ // of Pod Security level "restricted"
				AllowPrivilegeEscalation: &no, RunAsNonRoot: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
		}},
	}}, "pods", "Pod"}
	data := &corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}},
	}}
	if class != "" {
		data.Spec.StorageClassName = &class
	}
	service := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 80}}}}
	return pod, probe{data, "persistentvolumeclaims", "PersistentVolumeClaim"}, []probe{
		{service, "services", "Service"}, {&corev1.ConfigMap{ObjectMeta: meta}, "configmaps", "ConfigMap"}, {&corev1.Secret{ObjectMeta: meta}, "secrets", "Secret"},
	}
}

// dryRuns asks the API server of the cluster whether it admits the probes, in the first remote namespace of each consumer. It creates nothing.
func (p *collector) dryRuns() {
	ctx, cancel := context.WithTimeout(p.ctx, dryRunTimeout)
	defer cancel()
	namespaces := read(p, "Namespaces", &corev1.NamespaceList{}, client.HasLabels{api.LabelRemoteClusterID})
	var asked []consumerRuns
	for i := range namespaces.Items {
		namespace := &namespaces.Items[i]
		consumer := namespace.Labels[api.LabelRemoteClusterID]
		if namespace.DeletionTimestamp == nil && namespace.Labels[api.LabelTenantNamespace] == "" &&
			!slices.ContainsFunc(asked, func(of consumerRuns) bool { return of.consumer == consumer }) {
			asked = append(asked, consumerRuns{consumer: consumer, namespace: namespace.Name})
		}
	}
	var group errgroup.Group
	group.SetLimit(concurrentDryRuns)
	for i := range asked {
		group.Go(func() error { return asked[i].ask(ctx, p.cluster) })
	}
	unfinished := group.Wait()
	denied, late := map[string][]string{}, []string{} // denied is by the resources
	for i := range asked {
		p.DryRuns = append(p.DryRuns, asked[i].replies...)
		if of := strings.Join(asked[i].denied, ", "); of != "" {
			denied[of] = append(denied[of], asked[i].namespace)
		}
		if asked[i].late {
			late = append(late, asked[i].namespace)
		}
	}
	for _, of := range slices.Sorted(maps.Keys(denied)) {
		p.unchecked("you may not create %s in %s", of, namespaceList(denied[of]))
	}
	if len(late) > 0 {
		p.unchecked("there was no reply, or no time left, in %s: %v", namespaceList(late), unfinished)
	}
}

// namespaceList names namespaces, and shortens a long list.
func namespaceList(names []string) string {
	if more := len(names) - 3; more > 0 {
		return fmt.Sprintf("namespaces %s and %d more", strings.Join(names[:3], ", "), more)
	}
	return "namespaces " + strings.Join(names, ", ")
}

// consumerRuns are the dry runs in a remote namespace of a consumer.
type consumerRuns struct {
	consumer, namespace string
	replies             []doctor.DryRun
	// denied are the resources that the user of liqoctl may not create. late means that a dry run got no reply, and that the ones after it were not made.
	denied []string
	late   bool
}

// ask makes the dry runs. It returns why one of them got no reply.
func (c *consumerRuns) ask(ctx context.Context, cluster client.Client) error {
	pod, claim, others := probes(c.namespace, c.consumer, "")
	for _, object := range append(others, pod, claim) {
		right := &authorizationv1.ResourceAttributes{Verb: "create", Resource: object.resource, Namespace: c.namespace}
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: right}}
		if err := cluster.Create(ctx, review); err == nil && !review.Status.Allowed {
			c.denied = append(c.denied, object.resource)
			continue
		}
		run, err := replied(c.namespace, object.kind, cluster.Create(ctx, object.Object, client.DryRunAll))
		if err != nil {
			c.late = true
			return err
		}
		c.replies = append(c.replies, run)
	}
	return nil
}

// dryRunsThere asks the API server of a provider, as a virtual node, whether it admits a ShadowPod in a remote namespace and, if the virtual node has a storage
// class, a claim. It creates nothing.
func (p *collector) dryRunsThere(there kubernetes.Interface, provider, namespace string) (out []doctor.DryRun) {
	class := ""
	for i := range p.VirtualNodes {
		if spec := &p.VirtualNodes[i].Spec; spec.ClusterID == provider && len(spec.StorageClasses) > 0 {
			class = spec.StorageClasses[0].StorageClassName
		}
	}
	pod, claim, _ := probes(namespace, p.ID, class)
	gv := offloadingv1beta1.GroupVersion
	shadow := &offloadingv1beta1.ShadowPod{TypeMeta: metav1.TypeMeta{APIVersion: gv.String(), Kind: "ShadowPod"}}
	shadow.GenerateName, shadow.Namespace, shadow.Labels, shadow.Spec.Pod = pod.GetGenerateName(), namespace, pod.GetLabels(), pod.Object.(*corev1.Pod).Spec
	body, err := json.Marshal(shadow)
	if err == nil {
		err = there.Discovery().RESTClient().Post().AbsPath("/apis", gv.Group, gv.Version, "namespaces", namespace, "shadowpods").
			Param("dryRun", metav1.DryRunAll).SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body).Do(p.ctx).Error()
	}
	out = p.reply(out, namespace, shadow.Kind, err)
	if class == "" {
		return out
	}
	_, err = there.CoreV1().PersistentVolumeClaims(namespace).
		Create(p.ctx, claim.Object.(*corev1.PersistentVolumeClaim), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return p.reply(out, namespace, claim.kind, err)
}

// reply adds the reply to a dry run in a peer. If there was no reply, it records that in Unchecked.
func (p *collector) reply(runs []doctor.DryRun, namespace, kind string, err error) []doctor.DryRun {
	run, err := replied(namespace, kind, err)
	if err != nil {
		p.unchecked("there was no reply about a %s in namespace %s of a peer: %v", kind, namespace, err)
		return runs
	}
	return append(runs, run)
}

// replied returns the reply to a dry run, or the error if there was no reply.
func replied(namespace, kind string, err error) (doctor.DryRun, error) {
	run := doctor.DryRun{Namespace: namespace, Kind: kind}
	if err != nil {
		if status := (*apierrors.StatusError)(nil); !errors.As(err, &status) {
			return run, err
		}
		run.Refusal = err.Error()
	}
	return run, nil
}
