package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/ipam"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/reasons"
)

// +kubebuilder:rbac:groups=core,resources=services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get;list;watch;create;patch;delete

const (
	// labelOfIP (value "true") is on the Services and EndpointSlices of IPs.
	labelOfIP = "ipam.liqo.io/of-ip"
	// annotationRevision holds the revision of the template that an object was created from.
	annotationRevision = "ipam.liqo.io/revision"
	// fieldManager owns the fields that the template sets, and no others.
	fieldManager = "liqo-ipam"
)

var (
	serviceKind = corev1.SchemeGroupVersion.WithKind("Service")
	sliceKind   = discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice")
)

// services manages the Services that IPs request.
type services struct {
	client client.Client
	live   client.Reader
	// made is a cache of the Services and EndpointSlices of IPs.
	made                client.Reader
	labels, annotations map[string]string
}

// made holds the Services and EndpointSlices of IPs.
type made map[madeKey]client.Object

type madeKey struct {
	kind schema.GroupVersionKind
	types.NamespacedName
}

func (s *services) list(ctx context.Context) (made, error) {
	var services corev1.ServiceList
	var slices discoveryv1.EndpointSliceList
	if err := s.made.List(ctx, &services); err != nil {
		return nil, fmt.Errorf("listing Services of IPs: %w", err)
	}
	if err := s.made.List(ctx, &slices); err != nil {
		return nil, fmt.Errorf("listing EndpointSlices of IPs: %w", err)
	}
	out := make(made, len(services.Items)+len(slices.Items))
	for i := range services.Items {
		out[madeKey{serviceKind, client.ObjectKeyFromObject(&services.Items[i])}] = &services.Items[i]
	}
	for i := range slices.Items {
		out[madeKey{sliceKind, client.ObjectKeyFromObject(&slices.Items[i])}] = &slices.Items[i]
	}
	return out, nil
}

// ensure creates or updates the objects that the IP requests. Changes by other clients to an existing object stay until the template
// changes.
func (s *services) ensure(ctx context.Context, ip *ipamv1alpha1.IP, known made) (ipam.Problem, error) {
	service, slice, problem := ipam.Service(ip)
	if service == nil || problem != (ipam.Problem{}) {
		return problem, nil
	}
	revision, err := ipam.Revision(service, slice)
	if err != nil {
		return ipam.Problem{}, err
	}
	for _, wanted := range []struct {
		kind schema.GroupVersionKind
		obj  client.Object
	}{{serviceKind, service}, {sliceKind, slice}} {
		problem, err := s.apply(ctx, ip, wanted.kind, wanted.obj, revision, known)
		if err != nil || problem != (ipam.Problem{}) {
			return problem, err
		}
	}
	return ipam.Problem{}, nil
}

// apply brings one object of an IP to the revision. It reports a problem if an object of that name exists but does not belong to
// the IP.
func (s *services) apply(ctx context.Context, ip *ipamv1alpha1.IP, kind schema.GroupVersionKind, obj client.Object, revision string, known made) (ipam.Problem, error) {
	key := client.ObjectKeyFromObject(obj)
	there, cached := known[madeKey{kind, key}]
	if !cached {
		found := &metav1.PartialObjectMetadata{}
		found.SetGroupVersionKind(kind)
		err := s.live.Get(ctx, key, found)
		if client.IgnoreNotFound(err) != nil {
			return ipam.Problem{}, fmt.Errorf("reading %s %s: %w", kind.Kind, key, err)
		}
		if err == nil {
			there = found
		}
	}
	switch {
	case there == nil:
	case !metav1.IsControlledBy(there, ip):
		return ipam.Problem{Reason: reasons.Conflict, Message: fmt.Sprintf(
			"%s %s of spec.serviceTemplate exists already and does not belong to this IP: choose another spec.serviceTemplate.metadata.name, or delete it", kind.Kind, key)}, nil
	case there.GetAnnotations()[annotationRevision] == revision:
		return ipam.Problem{}, nil
	}
	obj.SetLabels(stamped(s.labels, obj.GetLabels(), labelOfIP, api.True))
	obj.SetAnnotations(stamped(s.annotations, obj.GetAnnotations(), annotationRevision, revision))
	obj.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: ipamv1alpha1.GroupVersion.String(), Kind: "IP", Name: ip.Name, UID: ip.UID, Controller: ptr(true),
	}})
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return ipam.Problem{}, fmt.Errorf("converting %s %s: %w", kind.Kind, key, err)
	}
	wanted := &unstructured.Unstructured{Object: content}
	wanted.SetGroupVersionKind(kind)
	unstructured.RemoveNestedField(wanted.Object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(wanted.Object, "status")
	err = s.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted), client.FieldOwner(fieldManager), client.ForceOwnership)
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return ipam.Problem{Reason: reasons.ServiceRefused, Message: fmt.Sprintf("the API server rejects spec.serviceTemplate: %v", err)}, nil
	}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) { // the IP is deleted together with its namespace
		return ipam.Problem{Reason: reasons.ServiceRefused, Message: fmt.Sprintf("namespace %s is being deleted, and accepts no %s", key.Namespace, kind.Kind)}, nil
	}
	if err != nil {
		return ipam.Problem{}, fmt.Errorf("applying %s %s: %w", kind.Kind, key, err)
	}
	return ipam.Problem{}, nil
}

// sweep deletes Services and EndpointSlices that no IP requests any more.
func (s *services) sweep(ctx context.Context, ips []ipamv1alpha1.IP, known made) error {
	if len(known) == 0 {
		return nil
	}
	wanted := map[madeKey]types.UID{}
	undecided := map[types.UID]bool{} // IPs with an invalid template: the objects of an earlier template stay
	for i := range ips {
		service, _, problem := ipam.Service(&ips[i])
		undecided[ips[i].UID] = problem != ipam.Problem{}
		if service != nil {
			key := client.ObjectKeyFromObject(service)
			wanted[madeKey{serviceKind, key}], wanted[madeKey{sliceKind, key}] = ips[i].UID, ips[i].UID
		}
	}
	for key, obj := range known {
		owner := metav1.GetControllerOf(obj)
		if owner == nil || owner.Kind != "IP" || wanted[key] == owner.UID || undecided[owner.UID] || !obj.GetDeletionTimestamp().IsZero() {
			continue
		}
		if err := kube.Delete(ctx, s.client, obj); err != nil {
			return err
		}
	}
	return nil
}

func ptr[T any](v T) *T { return &v }

// stamped returns the default labels or annotations, overridden by those of an object, plus one more entry.
func stamped(defaults, own map[string]string, key, value string) map[string]string {
	out := make(map[string]string, len(defaults)+len(own)+1)
	for _, layer := range []map[string]string{defaults, own} {
		for k, v := range layer {
			out[k] = v
		}
	}
	out[key] = value
	return out
}
