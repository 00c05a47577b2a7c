package storage

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

// RealClass returns the StorageClass of backing claims in this cluster. If configured is empty, that is the default class. The error says what to do.
func RealClass(configured string, classes []storagev1.StorageClass) (*storagev1.StorageClass, error) {
	class := find(configured, classes)
	if configured == "" {
		class = defaultClass(classes)
	}
	switch {
	case class == nil && configured == "":
		return nil, fmt.Errorf("no StorageClass of this cluster is the default: annotate one with %s=true, or set chart value storage.realStorageClassName",
			annotationDefaultClass)
	case class == nil:
		return nil, fmt.Errorf("StorageClass %s does not exist: create it, or change chart value storage.realStorageClassName", configured)
	case class.Provisioner == Provisioner:
		return nil, fmt.Errorf("StorageClass %s is itself a class of provisioner %s: set chart value storage.realStorageClassName to a class that creates volumes",
			class.Name, Provisioner)
	}
	return class, nil
}

// defaultClass returns the default class by the rule of Kubernetes: the newest one. If several have the same age, it is the first by name.
func defaultClass(classes []storagev1.StorageClass) *storagev1.StorageClass {
	var found *storagev1.StorageClass
	for i := range classes {
		class := &classes[i]
		if class.Annotations[annotationDefaultClass] != api.True && class.Annotations[annotationOldDefaultClass] != api.True {
			continue
		}
		if found == nil || found.CreationTimestamp.Before(&class.CreationTimestamp) ||
			found.CreationTimestamp.Equal(&class.CreationTimestamp) && class.Name < found.Name {
			found = class
		}
	}
	return found
}

// Offer returns the classes that this cluster offers to its consumers, sorted by name. The class of its own backing claims is the default. Classes of the
// accepted names follow, if they exist. Offer omits classes of Liqo, because their volumes could be in a third cluster.
func Offer(configured string, accepted []string, classes []storagev1.StorageClass) []authv1beta1.StorageType {
	var out []authv1beta1.StorageType
	standard, err := RealClass(configured, classes)
	if err == nil {
		out = append(out, authv1beta1.StorageType{StorageClassName: standard.Name, Default: true})
	}
	for i := range classes {
		name := classes[i].Name
		if classes[i].Provisioner != Provisioner && slices.Contains(accepted, name) && (standard == nil || standard.Name != name) {
			out = append(out, authv1beta1.StorageType{StorageClassName: name})
		}
	}
	slices.SortFunc(out, func(a, b authv1beta1.StorageType) int { return strings.Compare(a.StorageClassName, b.StorageClassName) })
	return out
}

// ClassHere returns the class of the backing claims in this cluster for the claims of a namespace. configured is the configured class, empty for the default class.
func ClassHere(namespace *corev1.Namespace, configured string, classes []storagev1.StorageClass) (string, error) {
	s := State{
		Claim: &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name}}, Classes: classes,
		Place: Place{RealClass: configured, NamespaceClass: namespace.Annotations[api.AnnotationRealStorageClass]},
	}
	return s.backingClass()
}

// backingClass returns the class of the backing claim. In a provider, this is the offered class in the claim's annotation, or else the default offered class.
func (s *State) backingClass() (string, error) {
	if s.Place.Cluster == "" && s.Place.NamespaceClass != "" {
		class := find(s.Place.NamespaceClass, s.Classes)
		if class == nil || class.Provisioner == Provisioner {
			return "", fmt.Errorf("annotation %s of namespace %s names StorageClass %s, which creates no volumes here: name another one, or remove the annotation",
				api.AnnotationRealStorageClass, s.Claim.Namespace, s.Place.NamespaceClass)
		}
		return class.Name, nil
	}
	if s.Place.Cluster == "" {
		class, err := RealClass(s.Place.RealClass, s.Classes)
		if err != nil {
			return "", err
		}
		return class.Name, nil
	}
	named := s.Claim.Annotations[api.AnnotationRemoteStorageClass]
	for _, offered := range s.Place.Offered {
		if offered.StorageClassName == named || named == "" && offered.Default {
			return offered.StorageClassName, nil
		}
	}
	switch {
	case len(s.Place.Offered) == 0:
		return "", errors.New(s.Place.NoOffer())
	case named != "":
		return "", fmt.Errorf("annotation %s names storage class %s, which cluster %s does not offer: name one of %s, or remove the annotation for its default class",
			api.AnnotationRemoteStorageClass, named, s.Place.Cluster, names(s.Place.Offered))
	}
	return "", fmt.Errorf("cluster %s offers no default storage class: name one of %s in annotation %s of the claim",
		s.Place.Cluster, names(s.Place.Offered), api.AnnotationRemoteStorageClass)
}

// NoOffer returns the Problem of claims in a provider that offers no class.
func (p *Place) NoOffer() string {
	return fmt.Sprintf("cluster %s offers no storage class: its administrator has to set a default StorageClass there, or chart value storage.realStorageClassName",
		p.Cluster)
}

func names(offered []authv1beta1.StorageType) string {
	var out []string
	for _, o := range offered {
		out = append(out, o.StorageClassName)
	}
	return strings.Join(out, ", ")
}
