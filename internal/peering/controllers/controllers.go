// Package controllers carries out the decisions of package peering: the handshake on both sides, identities and their renewal,
// ResourceSlices and quotas, the replication of objects to providers, ForeignClusters, and the serving certificates of virtual kubelets.
//
// Every controller reads from caches, plans with a pure function and applies the plan. Controllers interact only through API objects. Each
// may therefore be restarted at any moment, and objects may be created in any order, by liqoctl or by hand.
package controllers

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/accounts"
	"liqo.io/liqo/internal/peering/enrollment"
	"liqo.io/liqo/internal/peering/sharing"
	"liqo.io/liqo/internal/remote"
)

// Options configures the controllers.
type Options struct {
	// ClusterID is the ID of this cluster.
	ClusterID string
	// Namespace is the namespace of the installation.
	Namespace string
	// Algorithm is the algorithm of the key pair that is generated when there is none.
	Algorithm peering.Algorithm
	// APIServer is how consumers reach the API server of this cluster.
	APIServer APIServer
	// Tokens configures the tokens that consumers get instead of certificates; with the zero value they get certificates.
	Tokens accounts.Tokens
	// Offer holds the classes and labels that ResourceSlices of the default class get, apart from their share of resources.
	Offer sharing.Offer
	// StorageClasses returns the storage classes of the Offer, which change with the StorageClasses of this cluster. Nil means that none are offered.
	StorageClasses func(context.Context) ([]authv1beta1.StorageType, error)
	// Sharing determines the shares of ResourceSlices of the default class.
	Sharing sharing.Policy
	// SharingWindow is how long changes of nodes and pods are collected before the shares are computed again; sharingWindow when 0.
	SharingWindow time.Duration
	// Enforcement is the limitsEnforcement of Quotas.
	Enforcement offloadingv1beta1.LimitsEnforcement
	// Labels and Annotations are set on every object that the controllers create in this cluster.
	Labels, Annotations map[string]string
	// VirtualKubeletPods caches the pods of virtual kubelets: those with the label offloading.liqo.io/component=virtual-kubelet.
	VirtualKubeletPods cache.Cache
	// ConnectionSilence is the time without a report after which the working tunnel of a gateway counts as lost; 90 seconds when 0.
	ConnectionSilence time.Duration
	// Networking means that this cluster has the networking module, so that a peering that a ForeignCluster asks for includes a network.
	Networking bool
	// Joins reports whether this cluster peers automatically with a discovered cluster for which it has a token; nil for none.
	Joins func(clusterID string) bool
	// Metrics registers the metrics about peers; nil means no metrics.
	Metrics prometheus.Registerer

	// Now is the clock and Random the source of randomness; time.Now and crypto/rand when nil.
	Now    func() time.Time
	Random io.Reader
	// RemoteConfig returns the client configuration and the tenant namespace from the kubeconfig Secret of an Identity; remote.Config when
	// nil.
	RemoteConfig func(*corev1.Secret) (cfg *rest.Config, tenantNamespace string, err error)
	// Health configures the probe of remote API servers.
	Health remote.HealthOptions
	// RightsEvery is how often the controllers check whether a provider still grants this cluster access; 30 seconds when 0.
	RightsEvery time.Duration
}

// APIServer is the configuration of an installation about its own API server.
type APIServer struct {
	// Address is its URL; when empty, it is read from the EndpointSlices of Service default/kubernetes.
	Address string
	// CA is its PEM bundle; when empty, it is read from ConfigMap kube-root-ca.crt.
	CA []byte
	// TrustedCA means that the systems of consumers already trust the CA, so that it need not be sent.
	TrustedCA bool
}

// Setup adds all controllers of peerings to the manager.
func Setup(mgr ctrl.Manager, opts Options) error {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Random == nil {
		opts.Random = rand.Reader
	}
	opts.ConnectionSilence = cmp.Or(opts.ConnectionSilence, 90*time.Second)
	opts.RightsEvery = cmp.Or(opts.RightsEvery, rightsEvery)
	opts.SharingWindow = cmp.Or(opts.SharingWindow, sharingWindow)
	if opts.RemoteConfig == nil {
		opts.RemoteConfig = remote.Config
	}
	c := kube.Stamping{Client: mgr.GetClient(), Labels: opts.Labels, Annotations: opts.Annotations}
	keys := &keys{client: c, reader: mgr.GetAPIReader(), namespace: opts.Namespace, algorithm: opts.Algorithm, random: opts.Random}
	issuer := &accounts.Issuer{Client: c, Reader: mgr.GetAPIReader(), Now: opts.Now, Tokens: opts.Tokens}
	signing := &signing{client: c, now: opts.Now, accounts: issuer}
	address := &address{reader: mgr.GetAPIReader(), namespace: opts.Namespace, given: opts.APIServer}
	links := newLinks(opts, mgr.GetScheme(), mgr.GetLogger().WithName("links"))
	if err := registerMetrics(mgr, opts, links); err != nil {
		return fmt.Errorf("registering the metrics about peers: %w", err)
	}
	events := kube.EventRecorder(mgr, "peering")
	sharer, err := newSharer(mgr, c, opts.Sharing, opts.SharingWindow)
	if err != nil {
		return err
	}
	provider := providerSide{client: c, reader: mgr.GetAPIReader(), events: events, own: opts.ClusterID, signing: signing, accounts: issuer, address: address, now: opts.Now}
	consumer := consumerSide{client: c, events: events, own: opts.ClusterID, keys: keys, now: opts.Now, random: opts.Random}

	for _, part := range []struct {
		name  string
		setup func(ctrl.Manager) error
	}{
		{"keys", func(mgr ctrl.Manager) error { return mgr.Add(keys) }},
		{"links", func(mgr ctrl.Manager) error { return mgr.Add(links) }},
		// The handshake.
		{"nonce", (&nonces{client: c, events: events, random: opts.Random}).setup},
		{"signed nonce", (&signedNonces{client: c, events: events, keys: keys}).setup},
		{"tenant", (&tenants{
			providerSide: provider, enrollment: enrollment.Options{Namespace: opts.Namespace, Client: c, Reader: mgr.GetAPIReader(), Now: opts.Now},
		}).setup},
		{"identity", (&identities{consumerSide: consumer, links: links}).setup},
		// Resources.
		{"local resource slice", (&localSlices{consumerSide: consumer}).setup},
		{"remote resource slice", (&remoteSlices{providerSide: provider, offer: opts.Offer, storageClasses: opts.StorageClasses, sharing: sharer}).setup},
		{"sharing", func(mgr ctrl.Manager) error { return mgr.Add(sharer) }},
		{"resource offer", (&offers{providerSide: provider}).setup},
		{"quota", (&quotas{providerSide: provider, enforcement: opts.Enforcement}).setup},
		{"resource slice identity", (&sliceIdentities{consumerSide: consumer}).setup},
		// Renewal.
		{"renewal", (&renewals{consumerSide: consumer}).setup},
		{"remote renewal", (&remoteRenewals{providerSide: provider}).setup},
		// The other cluster.
		{"link", (&linkSecrets{client: c, links: links}).setup},
		{"replication", (&replication{client: c, own: opts.ClusterID, links: links}).setup},
		{"foreign cluster", (&foreignClusters{
			client: c, reader: mgr.GetAPIReader(), events: events, own: opts.ClusterID, namespace: opts.Namespace, connects: opts.Networking,
			joins: opts.Joins, links: links, now: opts.Now, silence: opts.ConnectionSilence,
		}).setup},
		// Virtual kubelets.
		{"serving certificates", (&servingCertificates{client: c, pods: opts.VirtualKubeletPods, now: opts.Now}).setup},
	} {
		if err := part.setup(mgr); err != nil {
			return fmt.Errorf("setting up %s: %w", part.name, err)
		}
	}
	return nil
}
