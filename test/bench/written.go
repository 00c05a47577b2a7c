package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// recordKind is the kind of the objects that contain a pod's specification. They look like ShadowPods, which Liqo's own programs would process.
var recordKind = schema.GroupVersionResource{Group: "bench.liqo.io", Version: "v1", Resource: "records"}

// defineRecords defines the kind in milan, and waits until it can be used.
func (b *scaleBench) defineRecords(ctx context.Context) (dynamic.ResourceInterface, error) {
	name := recordKind.GroupResource().String()
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
	definition.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: recordKind.Group, Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: recordKind.Resource, Singular: "record", Kind: "Record", ListKind: "RecordList"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: recordKind.Version, Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"pod": {Type: "object", XPreserveUnknownFields: ptr.To(true)}},
			}},
		}},
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(definition)
	if err != nil {
		return nil, fmt.Errorf("writing the definition of records: %w", err)
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	if err := b.milan.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("creating the kind of records: %w", err)
	}
	set, err := dynamic.NewForConfig(b.milan.Config)
	if err != nil {
		return nil, err
	}
	records := set.Resource(recordKind).Namespace(directNamespace)
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("records can't be used"))
	defer cancel()
	for {
		if _, err := records.List(ctx, metav1.ListOptions{}); err == nil {
			return records, nil
		} else if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("waiting for the kind of records: %w", err)
		}
		if !pause(ctx, 100*time.Millisecond) {
			return nil, context.Cause(ctx)
		}
	}
}

func recordsOf(records dynamic.ResourceInterface) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return records.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return records.Watch(ctx, o)
		},
	}, &unstructured.Unstructured{}, 0, nil)
}

// record creates, in milan, the objects that a pod of rome needs there.
func (c *carrier) record(ctx context.Context, pod *corev1.Pod) error {
	token, err := c.rome.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, pod.Spec.ServiceAccountName, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Data: map[string][]byte{"token": []byte(token.Status.Token)}}
	if _, err := c.milan.CoreV1().Secrets(directNamespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return err
	}
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&c.twin)
	if err != nil {
		return err
	}
	record := &unstructured.Unstructured{Object: map[string]any{"pod": spec}}
	record.SetGroupVersionKind(recordKind.GroupVersion().WithKind("Record"))
	record.SetName(pod.Name)
	record.SetLabels(pod.Labels)
	_, err = c.records.Create(ctx, record, metav1.CreateOptions{})
	return err
}

// make returns the function for changes of records: it creates the pod of each record, once.
func (c *carrier) make(ctx context.Context) func(watch.EventType, *unstructured.Unstructured) func() error {
	made := sets.New[string]()
	return func(what watch.EventType, record *unstructured.Unstructured) func() error {
		if what == watch.Deleted || made.Has(record.GetName()) {
			return nil
		}
		made.Insert(record.GetName())
		return func() error {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: record.GetName(), Labels: record.GetLabels()}}
			spec, _, err := unstructured.NestedMap(record.Object, "pod")
			if err == nil {
				err = runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &pod.Spec)
			}
			if err == nil {
				_, err = c.there.Create(ctx, pod, metav1.CreateOptions{})
			}
			return err
		}
	}
}

// forget deletes the objects that record created.
func (c *carrier) forget(ctx context.Context, name string) error {
	if c.records == nil {
		return nil
	}
	return errors.Join(
		client.IgnoreNotFound(c.records.Delete(ctx, name, metav1.DeleteOptions{})),
		client.IgnoreNotFound(c.milan.CoreV1().Secrets(directNamespace).Delete(ctx, name, metav1.DeleteOptions{})),
	)
}
