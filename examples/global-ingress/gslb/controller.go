package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

var (
	gslbResource     = schema.GroupVersionResource{Group: "k8gb.absa.oss", Version: "v1beta1", Resource: "gslbs"}
	endpointResource = schema.GroupVersionResource{Group: "externaldns.k8s.io", Version: "v1alpha1", Resource: "dnsendpoints"}
)

const (
	serviceCoreDNS = "k8gb-coredns"
	endpointName   = "k8gb-ns-extdns"
	fieldManager   = "k8gb"
)

// controller gathers the facts and carries out the decisions.
type controller struct {
	settings
	client  kubernetes.Interface
	objects dynamic.Interface
	// edge is the address of the edge DNS, file the zone file of CoreDNS.
	edge, file string
	// records are those in the zone file, serial is its serial number.
	records []record
	serial  uint32
	// problems are those that were logged.
	problems []string
}

// reconcile reads the state once and carries out what follows from it.
func (c *controller) reconcile(ctx context.Context) error {
	f, have, err := c.observe(ctx)
	if err != nil {
		return err
	}
	d := decide(c.settings, f)
	if !slices.Equal(c.problems, d.Problems) {
		for _, problem := range d.Problems {
			slog.Warn("Ignoring an Ingress", "problem", problem)
		}
		c.problems = d.Problems
	}
	failures := []error{c.writeZone(d.Zone, time.Now())}
	if len(d.Delegation) > 0 {
		failures = append(failures, c.delegate(ctx, d.Delegation))
	}
	return errors.Join(append(failures, c.writeGslbs(ctx, have, d.Gslbs))...)
}

// observe returns the facts, and the Gslbs that exist.
func (c *controller) observe(ctx context.Context) (f facts, have []unstructured.Unstructured, err error) {
	ingresses, err := c.client.NetworkingV1().Ingresses("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return f, nil, fmt.Errorf("listing Ingresses: %w", err)
	}
	services, err := c.client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return f, nil, fmt.Errorf("listing Services: %w", err)
	}
	slices, err := c.client.DiscoveryV1().EndpointSlices("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return f, nil, fmt.Errorf("listing EndpointSlices: %w", err)
	}
	gslbs, err := c.objects.Resource(gslbResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return f, nil, fmt.Errorf("listing Gslbs: %w", err)
	}
	f = facts{Ingresses: ingresses.Items, Services: services.Items, Slices: slices.Items, Peers: map[string]map[string][]string{}}
	for _, service := range services.Items {
		if service.Namespace == c.Namespace && service.Name == serviceCoreDNS {
			for _, entry := range service.Status.LoadBalancer.Ingress {
				f.NameServer = append(f.NameServer, entry.IP)
			}
		}
	}
	var names []string
	for i := range f.Ingresses {
		if f.Ingresses[i].Annotations[annotationStrategy] != "" {
			names = append(names, hosts(&f.Ingresses[i], c.Zone)...)
		}
	}
	for _, peer := range c.Peers {
		f.Peers[peer] = askPeer(ctx, c.edge, c.nameServer(peer), names)
	}
	return f, gslbs.Items, nil
}

// writeZone writes the zone file if its records change. CoreDNS reads it again when the serial number increases.
func (c *controller) writeZone(records []record, now time.Time) error {
	if c.serial != 0 && apiequality.Semantic.DeepEqual(c.records, records) {
		return nil
	}
	serial := max(c.serial+1, uint32(now.Unix()))
	temporary := filepath.Join(filepath.Dir(c.file), ".new") // CoreDNS reads files whose name starts with db, and must not read half a file
	if err := os.WriteFile(temporary, []byte(zoneFile(c.settings, records, serial)), 0o644); err != nil {
		return err
	}
	if err := os.Rename(temporary, c.file); err != nil {
		return err
	}
	c.records, c.serial = records, serial
	for _, r := range records {
		slog.Info("Serving", "name", r.Name, "addresses", strings.Join(r.Targets, " "))
	}
	return nil
}

// delegate has ExternalDNS write the records to the edge DNS.
func (c *controller) delegate(ctx context.Context, records []record) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&struct {
		Endpoints []record `json:"endpoints"`
	}{records})
	if err != nil {
		return err
	}
	want := &unstructured.Unstructured{Object: map[string]any{"spec": content}}
	want.SetAPIVersion("externaldns.k8s.io/v1alpha1")
	want.SetKind("DNSEndpoint")
	want.SetNamespace(c.Namespace)
	want.SetName(endpointName)
	want.SetAnnotations(map[string]string{"k8gb.absa.oss/dnstype": "extdns"})
	client := c.objects.Resource(endpointResource).Namespace(c.Namespace)
	have, err := client.Get(ctx, endpointName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading DNSEndpoint %s/%s: %w", c.Namespace, endpointName, err)
	}
	if err == nil && apiequality.Semantic.DeepEqual(have.Object["spec"], want.Object["spec"]) {
		return nil
	}
	if _, err := client.Apply(ctx, endpointName, want, metav1.ApplyOptions{FieldManager: fieldManager, Force: true}); err != nil {
		return fmt.Errorf("applying DNSEndpoint %s/%s: %w", c.Namespace, endpointName, err)
	}
	return nil
}

// writeGslbs creates, changes and deletes Gslbs until they are the wanted ones.
func (c *controller) writeGslbs(ctx context.Context, have []unstructured.Unstructured, want []Gslb) error {
	var failures []error
	unwanted := map[string]*unstructured.Unstructured{}
	for i := range have {
		unwanted[have[i].GetNamespace()+"/"+have[i].GetName()] = &have[i]
	}
	for i := range want {
		key := want[i].Namespace + "/" + want[i].Name
		if err := c.writeGslb(ctx, unwanted[key], &want[i]); err != nil {
			failures = append(failures, fmt.Errorf("applying Gslb %s: %w", key, err))
		}
		delete(unwanted, key)
	}
	for key, gslb := range unwanted {
		err := c.objects.Resource(gslbResource).Namespace(gslb.GetNamespace()).Delete(ctx, gslb.GetName(), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			failures = append(failures, fmt.Errorf("deleting Gslb %s: %w", key, err))
		}
	}
	return errors.Join(failures...)
}

// writeGslb applies a Gslb and its status, each one only if it differs. have is nil if the Gslb does not exist.
func (c *controller) writeGslb(ctx context.Context, have *unstructured.Unstructured, want *Gslb) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{Object: content}
	status := object.Object["status"]
	delete(object.Object, "status")
	client := c.objects.Resource(gslbResource).Namespace(want.Namespace)
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	if have == nil || !apiequality.Semantic.DeepEqual(have.Object["spec"], object.Object["spec"]) ||
		!apiequality.Semantic.DeepEqual(have.GetAnnotations(), object.GetAnnotations()) || !apiequality.Semantic.DeepEqual(have.GetOwnerReferences(), object.GetOwnerReferences()) {
		if _, err := client.Apply(ctx, want.Name, object, options); err != nil {
			return err
		}
	}
	if have != nil && apiequality.Semantic.DeepEqual(have.Object["status"], status) {
		return nil
	}
	delete(object.Object, "spec")
	object.Object["metadata"] = map[string]any{"name": want.Name, "namespace": want.Namespace}
	object.Object["status"] = status
	_, err = client.ApplyStatus(ctx, want.Name, object, options)
	return err
}
