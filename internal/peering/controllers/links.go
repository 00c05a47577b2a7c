package controllers

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/remote"
)

// links holds one link, a connection for replication, for each provider. The key is the tenant namespace that has the kubeconfig of the link.
type links struct {
	own    string
	config func(*corev1.Secret) (*rest.Config, string, error)
	health remote.HealthOptions
	// rightsEvery is how often a link checks whether the provider still grants access.
	rightsEvery time.Duration
	// observe is called for each request to a provider, with the time until its response began; nil for nothing.
	observe func(clusterID, method string, took time.Duration)
	scheme  *runtime.Scheme
	log     logr.Logger

	// peers announces the cluster ID when the state of a remote API server changes. objects announces, per kind, the key of a source when
	// its copy changes. resync announces a tenant namespace when its copies became known or unknown.
	peers   announcer
	objects map[string]*announcer
	resync  announcer

	// ctx is the parent context of all links. It ends with the manager. It exists before Start is called, because the manager starts its
	// parts in any order.
	ctx     context.Context
	end     context.CancelFunc
	done    sync.WaitGroup
	mu      sync.Mutex
	running map[string]*link
}

func newLinks(opts Options, scheme *runtime.Scheme, log logr.Logger) *links {
	l := &links{
		own: opts.ClusterID, config: opts.RemoteConfig, health: opts.Health, rightsEvery: opts.RightsEvery, scheme: scheme, log: log,
		objects: map[string]*announcer{}, running: map[string]*link{},
	}
	l.ctx, l.end = context.WithCancel(context.Background())
	for _, kind := range peering.Kinds() {
		l.objects[kind.Name] = &announcer{}
	}
	return l
}

// Start waits until ctx ends, then stops all links.
func (l *links) Start(ctx context.Context) error {
	<-ctx.Done()
	l.end()
	l.done.Wait()
	return nil
}

// ensure starts the link for a kubeconfig Secret, and replaces the running one if the kubeconfig or the tenant namespace changed.
func (l *links) ensure(secret *corev1.Secret) error {
	sum := sha256.Sum256(append(secret.Data[authv1beta1.KubeconfigSecretKey], secret.Annotations[api.AnnotationRemoteTenantNamespace]...))
	l.mu.Lock()
	defer l.mu.Unlock()
	present := l.running[secret.Namespace]
	if present != nil && present.sum == sum {
		return nil
	}
	cfg, namespace, err := l.config(secret)
	if err != nil {
		return err
	}
	next, err := l.open(cfg, secret.Labels[api.LabelRemoteClusterID], secret.Namespace, namespace)
	if err != nil {
		return err
	}
	next.sum, next.secret = sum, secret.Name
	if present != nil {
		present.cancel()
	}
	l.running[secret.Namespace] = next
	ctx, cancel := context.WithCancel(l.ctx)
	next.cancel = cancel
	l.done.Go(func() { next.run(ctx) })
	return nil
}

// stop stops the link of a Secret, if it runs.
func (l *links) stop(secret types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if present := l.running[secret.Namespace]; present != nil && present.secret == secret.Name {
		present.cancel()
		delete(l.running, secret.Namespace)
		l.peers.announce(types.NamespacedName{Name: present.clusterID})
	}
}

// get returns the link of a tenant namespace; nil when there is none.
func (l *links) get(namespace string) *link {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running[namespace]
}

// ask returns why the API server of the cluster that a tenant namespace belongs to does not respond now; nil if it responds.
func (l *links) ask(ctx context.Context, namespace string) error {
	if k := l.get(namespace); k != nil {
		return k.health.Ask(ctx)
	}
	return errors.New("there is no kubeconfig for it")
}

// probe returns the last known state of the API server of the cluster that a tenant namespace belongs to; nil when nothing is known yet.
func (l *links) probe(namespace string, now time.Time) *peering.Probe {
	if k := l.get(namespace); k != nil {
		return k.probe(now)
	}
	return nil
}
