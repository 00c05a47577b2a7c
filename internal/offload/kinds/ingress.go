package kinds

import networkingv1 "k8s.io/api/networking/v1"

// annotationIngressClass is the annotation for the class of an Ingress, from before the field spec.ingressClassName.
const annotationIngressClass = "kubernetes.io/ingress.class"

// IngressOptions holds the facts that the rules for Ingresses depend on.
type IngressOptions struct {
	CopyOptions
	// Class is the provider's ingress class for copies; if empty, the provider chooses.
	Class string
}

// Ingress returns the copy of local, or why it has none. Ingress classes are names local to a cluster, so the class of local is not copied.
func Ingress(local *networkingv1.Ingress, namespace string, o IngressOptions) (*networkingv1.Ingress, string) {
	if why := Kept(local.Annotations, o.CopyOptions); why != "" {
		return nil, why
	}
	in := local.DeepCopy()
	o.AnnotationsNotReflected = append([]string{annotationIngressClass}, o.AnnotationsNotReflected...) // even if an administrator accepts all annotations
	out := &networkingv1.Ingress{
		ObjectMeta: copyMetadata(resourceIngresses, local, namespace, o.CopyOptions),
		Spec:       networkingv1.IngressSpec{DefaultBackend: in.Spec.DefaultBackend, Rules: in.Spec.Rules, TLS: in.Spec.TLS},
	}
	if o.Class != "" {
		out.Spec.IngressClassName = &o.Class
	}
	return out, ""
}

// MergeIngress returns the object have with the metadata and spec of want, and the change that this needs. It keeps the class that the provider chose.
func MergeIngress(have, want *networkingv1.Ingress) (*networkingv1.Ingress, Change) {
	out := have.DeepCopy()
	mergeMetadata(&out.ObjectMeta, &want.ObjectMeta)
	class := out.Spec.IngressClassName
	out.Spec = *want.Spec.DeepCopy()
	if out.Spec.IngressClassName == nil {
		out.Spec.IngressClassName = class
	}
	return merged(have, out)
}

// UncopiedAnnotationsOfIngress returns an error that lists the annotations of an Ingress that are not copied although its controller may act on them.
// It returns nil if there are none.
func UncopiedAnnotationsOfIngress(local *networkingv1.Ingress, o CopyOptions) error {
	return uncopied(resourceIngresses, local, o)
}
