// Package webhook serves the admission webhooks of offloading from within the controller manager and maintains their certificate. It generates a CA
// and a serving certificate, stores them in a Secret, and writes the CA to the webhook configurations of the chart. It renews them well before they
// expire, without a restart.
//
// There are only seven webhooks. Rules that CEL can express are in the chart's ValidatingAdmissionPolicies instead, which need no webhook call.
//
// The controllers of the certificate and of rejected workloads run in each replica, as the webhooks do. They do not use kube.Reconciler: the
// certificate depends on several objects, and the waker on how long this process has known a NamespaceOffloading. Nor does the controller that withdraws
// Ingresses of consumers: it decides about the hosts of all objects together.
package webhook

import (
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"liqo.io/liqo/internal/metrics"
)

// Paths of the webhooks, referenced by the chart's webhook configurations.
const (
	// PathPod handles new pods of offloaded namespaces.
	PathPod = "/mutate/pod"
	// PathShadowPod handles new ShadowPods, and updates of their spec.
	PathShadowPod = "/mutate/shadowpods"
	// PathStray handles new pods that tolerate every NoExecute taint, in namespaces that are not offloaded.
	PathStray = "/mutate/strays"
	// PathDaemonSet handles new and changed templates of DaemonSets that tolerate virtual nodes.
	PathDaemonSet = "/mutate/daemonsets"
	// PathDaemonSetPod handles new pods of DaemonSets that tolerate virtual nodes and do not exclude them.
	PathDaemonSetPod = "/mutate/daemonset-pods"
	// PathIngress handles new Ingresses of consumers, and updates of their spec.
	PathIngress = "/validate/ingresses"
	// PathClaim handles new claims in the namespaces of consumers, and changes of their size.
	PathClaim = "/validate/claims"
)

// Options configure the webhooks.
type Options struct {
	// Namespace is the namespace of the installation, which holds the Secret.
	Namespace string
	// Service is the name of the Service, in Namespace, through which the API server calls the webhooks.
	Service string
	// Port is the port to listen on; 0 means 9443.
	Port int
	// RuntimeClass is the RuntimeClass whose pods Kubernetes schedules on virtual nodes by itself; empty means "liqo".
	RuntimeClass string
	// EnforceQuotas rejects ShadowPods that exceed the Quota of their creator.
	EnforceQuotas bool
	// ClaimTotal are the limits of the claims in all namespaces of a consumer together; empty means no limits. See offload.ExceededTogether.
	ClaimTotal corev1.ResourceList
	// GlobalLabels and GlobalAnnotations are added to the Secret.
	GlobalLabels, GlobalAnnotations map[string]string
	// Now returns the current time, Random is the source of randomness; nil means time.Now and crypto/rand.
	Now    func() time.Time
	Random io.Reader
	// Metrics registers the metric of the certificate; nil means no metric.
	Metrics prometheus.Registerer
}

// defaultRuntimeClass is the RuntimeClass of the chart.
const defaultRuntimeClass = "liqo"

// Setup adds the webhooks and the controller of their certificate to the manager. The manager's readiness then depends on the webhook server, and on
// the presence of its CA in the webhook configurations.
func Setup(mgr ctrl.Manager, opts Options) error {
	if opts.Namespace == "" || opts.Service == "" {
		return fmt.Errorf("setting up webhooks: namespace %q or service %q is empty", opts.Namespace, opts.Service)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Random == nil {
		opts.Random = rand.Reader
	}
	if opts.RuntimeClass == "" {
		opts.RuntimeClass = defaultRuntimeClass
	}
	certificates := newCertificates(mgr, opts)
	if opts.Metrics != nil {
		if err := opts.Metrics.Register(metrics.Computed(certificates.measure)); err != nil {
			return fmt.Errorf("registering the metric of the webhook certificate: %w", err)
		}
	}
	server := ctrlwebhook.NewServer(ctrlwebhook.Options{
		Port: opts.Port,
		TLSOpts: []func(*tls.Config){func(c *tls.Config) {
			c.MinVersion = tls.VersionTLS12
			c.GetCertificate = certificates.serve
		}},
	})
	decoder := admission.NewDecoder(mgr.GetScheme())
	server.Register(PathPod, &admission.Webhook{Handler: &pods{
		cached: mgr.GetClient(), live: mgr.GetAPIReader(), decoder: decoder, runtimeClass: opts.RuntimeClass,
	}})
	shadows := shadowPods{decoder: decoder}
	if opts.EnforceQuotas {
		var err error
		if shadows.quotas, err = newQuotas(mgr); err != nil {
			return err
		}
	}
	server.Register(PathShadowPod, &admission.Webhook{Handler: shadows})
	server.Register(PathStray, &admission.Webhook{Handler: strays{decoder: decoder, runtimeClass: opts.RuntimeClass}})
	server.Register(PathDaemonSet, &admission.Webhook{Handler: daemonSets{decoder: decoder, runtimeClass: opts.RuntimeClass}})
	server.Register(PathDaemonSetPod, &admission.Webhook{Handler: daemonSetPods{live: mgr.GetAPIReader(), decoder: decoder, runtimeClass: opts.RuntimeClass}})
	claimed, err := setupHosts(mgr)
	if err != nil {
		return fmt.Errorf("setting up the hosts of Ingresses: %w", err)
	}
	server.Register(PathIngress, &admission.Webhook{Handler: ingresses{decoder: decoder, claims: claimed.claims}})
	server.Register(PathClaim, &admission.Webhook{Handler: &claims{decoder: decoder, live: mgr.GetAPIReader(), total: opts.ClaimTotal}})
	if err := certificates.setup(mgr); err != nil {
		return err
	}
	if err := mgr.Add(server); err != nil {
		return fmt.Errorf("adding the webhook server: %w", err)
	}
	if err := setupWaker(mgr, opts.Now); err != nil {
		return fmt.Errorf("setting up the waker of workload controllers: %w", err)
	}
	if err := mgr.AddReadyzCheck("webhook", server.StartedChecker()); err != nil {
		return fmt.Errorf("adding the check of the webhook server: %w", err)
	}
	if err := mgr.AddReadyzCheck("webhook-certificate", certificates.check); err != nil {
		return fmt.Errorf("adding the check of the webhook certificate: %w", err)
	}
	return nil
}

// requestQueue is the work queue of a controller.
type requestQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]
