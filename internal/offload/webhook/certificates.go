package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/metrics"
)

const (
	// secretName is the name of the Secret that holds the certificate.
	secretName = "liqo-webhook-certs"
	// configurationName is the name of the chart's webhook configurations.
	configurationName = "liqo-webhook"
	labelWebhook      = "liqo.io/webhook"
	annotationService = "liqo.io/webhook-service-name"
)

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,verbs=get;list;watch;patch,resourceNames=liqo-webhook
// +kubebuilder:rbac:groups="",namespace=liqo,resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",namespace=liqo,resources=secrets,verbs=get;list;watch;update,resourceNames=liqo-webhook-certs

// certificates maintains the certificate of the webhooks. It runs in every replica. The Secret is authoritative: the first replica to write it wins.
type certificates struct {
	Options
	// live reads and writes without a cache, because decisions here must not rely on outdated objects.
	live client.Client
	// serving is the certificate in use, nil until there is one.
	serving atomic.Pointer[tls.Certificate]
	// trusted means that the webhook configurations contain the CA.
	trusted atomic.Bool
}

func newCertificates(mgr ctrl.Manager, opts Options) *certificates {
	return &certificates{Options: opts, live: kube.Uncached{Client: mgr.GetClient(), Reader: mgr.GetAPIReader()}}
}

// host returns the DNS name by which the API server calls the Service.
func (c *certificates) host() string { return c.Service + "." + c.Namespace + ".svc" }

// serve returns the current certificate to TLS, an error if there is none yet.
func (c *certificates) serve(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if pair := c.serving.Load(); pair != nil {
		return pair, nil
	}
	return nil, errors.New("the webhook certificate does not exist yet")
}

// measure reports the metrics of the certificate in use.
func (c *certificates) measure(_ context.Context, emit metrics.Emit) {
	if pair := c.serving.Load(); pair != nil && pair.Leaf != nil {
		metrics.EmitCertificate(emit, pair.Leaf, c.Now(), "", "Secret", c.Namespace, secretName)
	}
}

// check is a readiness check. It succeeds once there is a certificate and the webhook configurations contain its CA.
func (c *certificates) check(*http.Request) error {
	if c.serving.Load() == nil || !c.trusted.Load() {
		return errors.New("the webhook certificate is not in place yet")
	}
	return nil
}

// setup adds the controller that watches the Secret and the configurations, with a cache that holds only these.
func (c *certificates) setup(mgr ctrl.Manager) error {
	named := func(name string) cache.ByObject {
		return cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", name)}
	}
	secret := named(secretName)
	secret.Namespaces = map[string]cache.Config{c.Namespace: {}}
	own, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}: secret,
			&admissionregistrationv1.MutatingWebhookConfiguration{}:   named(configurationName),
			&admissionregistrationv1.ValidatingWebhookConfiguration{}: named(configurationName),
		},
	})
	if err != nil {
		return fmt.Errorf("creating the cache of webhook objects: %w", err)
	}
	if err := mgr.Add(early{own}); err != nil {
		return fmt.Errorf("adding the cache of webhook objects: %w", err)
	}
	everyReplica := false
	ctl, err := controller.New("webhook-certificate", mgr, kube.ControllerOptions(controller.Options{Reconciler: c, NeedLeaderElection: &everyReplica}))
	if err != nil {
		return fmt.Errorf("creating the controller of the webhook certificate: %w", err)
	}
	// All events lead to the same request, since there is only one certificate.
	to := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{{}} })
	begin := source.Func(func(_ context.Context, queue requestQueue) error {
		queue.Add(reconcile.Request{}) // needed if neither the Secret nor the configuration exists
		return nil
	})
	for _, s := range []source.Source{
		source.Kind[client.Object](own, &corev1.Secret{}, to),
		source.Kind[client.Object](own, &admissionregistrationv1.MutatingWebhookConfiguration{}, to),
		source.Kind[client.Object](own, &admissionregistrationv1.ValidatingWebhookConfiguration{}, to),
		begin,
	} {
		if err := ctl.Watch(s); err != nil {
			return fmt.Errorf("watching webhook objects: %w", err)
		}
	}
	return nil
}

// early is a cache that the manager starts together with its own, in every replica.
type early struct{ cache.Cache }

// GetCache marks early as a cache: the manager recognizes caches by this method.
func (e early) GetCache() cache.Cache { return e.Cache }

// Reconcile recreates the Secret if it is missing, invalid or due for renewal, and writes its CA to the webhook configurations. Only then does it
// serve the certificate. It is no kube.Reconciler, because the Secret may not exist.
func (c *certificates) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	pair, bundle, renewal, err := c.ensureSecret(ctx)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) { // another replica was faster: use its Secret
		return reconcile.Result{RequeueAfter: 100 * time.Millisecond}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := c.trust(ctx, bundle); err != nil {
		return reconcile.Result{}, err
	}
	c.serving.Store(pair)
	return reconcile.Result{RequeueAfter: max(renewal.Sub(c.Now()), time.Minute)}, nil
}

// ensureSecret returns the certificate to serve, the CA bundle for clients, and the time of the next renewal.
func (c *certificates) ensureSecret(ctx context.Context) (*tls.Certificate, []byte, time.Time, error) {
	secret := &corev1.Secret{}
	err := c.live.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: secretName}, secret)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return nil, nil, time.Time{}, fmt.Errorf("reading Secret %s/%s: %w", c.Namespace, secretName, err)
	}
	have := certBundleOf(secret.Data)
	if pair, renewal, err := have.parse(c.host(), c.Now()); err == nil && c.Now().Before(renewal) {
		return pair, have.ca, renewal, nil
	}
	next, err := generate(c.host(), have.ca, c.Now(), c.Random)
	if err != nil {
		return nil, nil, time.Time{}, err
	}
	pair, renewal, err := next.parse(c.host(), c.Now())
	if err != nil {
		return nil, nil, time.Time{}, fmt.Errorf("checking the new webhook certificate: %w", err)
	}
	secret.Namespace, secret.Name = c.Namespace, secretName
	for k, v := range c.GlobalLabels {
		metav1.SetMetaDataLabel(&secret.ObjectMeta, k, v)
	}
	for k, v := range c.GlobalAnnotations {
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, k, v)
	}
	metav1.SetMetaDataLabel(&secret.ObjectMeta, labelWebhook, "true")
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, annotationService, c.Service)
	secret.Data = next.data()
	if missing {
		err = c.live.Create(ctx, secret)
	} else {
		err = c.live.Update(ctx, secret) // with the resource version of the read, so only one replica succeeds
	}
	if err != nil {
		return nil, nil, time.Time{}, fmt.Errorf("writing Secret %s/%s: %w", c.Namespace, secretName, err)
	}
	return pair, next.ca, renewal, nil
}

// trust writes the CA bundle to the chart's webhook configurations, if they exist.
func (c *certificates) trust(ctx context.Context, bundle []byte) error {
	for kind, configuration := range map[string]client.Object{
		"MutatingWebhookConfiguration":   &admissionregistrationv1.MutatingWebhookConfiguration{},
		"ValidatingWebhookConfiguration": &admissionregistrationv1.ValidatingWebhookConfiguration{},
	} {
		err := c.live.Get(ctx, client.ObjectKey{Name: configurationName}, configuration)
		if apierrors.IsNotFound(err) {
			continue // without a configuration there are no calls; if it is created later, a watch event follows
		}
		if err != nil {
			return fmt.Errorf("reading %s %s: %w", kind, configurationName, err)
		}
		before, ok := configuration.DeepCopyObject().(client.Object)
		if !ok || !setBundle(configuration, bundle) {
			continue
		}
		// The patch replaces the whole list, so it must apply to the version that was read.
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := c.live.Patch(ctx, configuration, patch); err != nil {
			return fmt.Errorf("patching %s %s: %w", kind, configurationName, err)
		}
	}
	c.trusted.Store(true)
	return nil
}

// setBundle sets the CA bundle of all webhooks of a configuration, and reports whether that changed it.
func setBundle(configuration client.Object, bundle []byte) bool {
	var calls []*admissionregistrationv1.WebhookClientConfig
	switch configuration := configuration.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for i := range configuration.Webhooks {
			calls = append(calls, &configuration.Webhooks[i].ClientConfig)
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for i := range configuration.Webhooks {
			calls = append(calls, &configuration.Webhooks[i].ClientConfig)
		}
	}
	changed := false
	for _, call := range calls {
		if !bytes.Equal(call.CABundle, bundle) {
			call.CABundle, changed = bundle, true
		}
	}
	return changed
}
