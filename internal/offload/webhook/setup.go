// Package webhook serves the admission webhooks of offloading from within the controller manager, and keeps their certificate: it makes a CA and
// a serving certificate of its own, stores them in a Secret, puts the CA into the webhook configurations of the chart and replaces all of it
// well before it expires, without a restart.
//
// Four webhooks are all there is. What can be said in CEL is said in the chart's ValidatingAdmissionPolicies instead, which cost no call.
package webhook

import (
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Paths under which the webhooks are served; the chart's configurations name them.
const (
	// PathPod is asked about new pods of offloaded namespaces.
	PathPod = "/mutate/pod"
	// PathShadowPod is asked about new ShadowPods, and about those whose pod changes.
	PathShadowPod = "/mutate/shadowpods"
	// PathStray is asked about new pods of namespaces that are not offloaded, if they tolerate whatever there is.
	PathStray = "/mutate/strays"
	// PathDaemonSet is asked about new templates of DaemonSets that tolerate virtual nodes.
	PathDaemonSet = "/mutate/daemonsets"
)

// Options of the webhooks.
type Options struct {
	// Namespace of the installation, where the Secret is.
	Namespace string
	// Service through which the API server reaches this program, in that namespace.
	Service string
	// Port to listen on; 0 means 9443.
	Port int
	// RuntimeClass whose pods Kubernetes itself sends to virtual nodes; empty means "liqo".
	RuntimeClass string
	// EnforceQuotas refuses ShadowPods that exceed what is granted to their creators.
	EnforceQuotas bool
	// GlobalLabels and GlobalAnnotations are put on the Secret.
	GlobalLabels, GlobalAnnotations map[string]string
	// Now and Random are the clock and the source of randomness; time.Now and crypto/rand when nil.
	Now    func() time.Time
	Random io.Reader
}

// defaultRuntimeClass is the RuntimeClass of the chart.
const defaultRuntimeClass = "liqo"

// Setup adds the webhooks, and what keeps their certificate, to the manager. The manager's readiness then tells whether the webhooks
// are served and the API server was told how to trust them.
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
	if err := certificates.setup(mgr); err != nil {
		return err
	}
	if err := mgr.Add(server); err != nil {
		return fmt.Errorf("adding the webhook server: %w", err)
	}
	if err := setupWaker(mgr, opts.Now); err != nil {
		return fmt.Errorf("setting up what wakes workloads: %w", err)
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
