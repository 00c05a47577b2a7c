package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/install/installer"
	"liqo.io/liqo/internal/kube"
)

// deploymentName is the Deployment that an installation can not be without.
const deploymentName = "liqo-controller-manager"

// cluster is a connection to one cluster, and what a command says about it.
type cluster struct {
	client.WithWatch
	*console.Console
	config *rest.Config
	getter genericclioptions.RESTClientGetter
	// scope is "local" or "remote" where a command talks to two clusters.
	scope string
	// plan is set in a dry run; see addDryRun.
	plan *planner
	// namespace of the installation.
	namespace string
	// id of the cluster; empty where nothing is installed.
	id string
	// version that is installed, as the label of the controller manager tells.
	version             string
	labels, annotations map[string]string
}

// knownKinds is made once: it takes longer than most requests, and nobody changes it.
var knownKinds = sync.OnceValue(kube.NewScheme)

// connect makes the connection; no request is sent.
func (a *app) connect(flags *genericclioptions.ConfigFlags, scope string) (*cluster, error) {
	flags.WrapConfigFn = func(config *rest.Config) *rest.Config {
		if a.wrap != nil {
			config = a.wrap(config)
		}
		return bounding(config)
	}
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of the %s cluster: %w", orDefault(scope, "local"), err)
	}
	// What kubectl falls back to without a kubeconfig, where nobody ever listens.
	if raw, err := flags.ToRawKubeConfigLoader().RawConfig(); err == nil && len(raw.Clusters) == 0 && config.Host == "http://localhost:8080" {
		return nil, &noKubeconfigError{scope: orDefault(scope, "local"), flag: (&cluster{scope: scope}).flag("kubeconfig")}
	}
	// A command is one user's doing: the server bounds it, not we.
	config.QPS = -1
	config.UserAgent = "liqoctl"
	config.WarningHandler = rest.NoWarnings{}
	c, err := client.NewWithWatch(config, client.Options{Scheme: knownKinds()})
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", config.Host, err)
	}
	out := &cluster{
		Console: a.scoped(scope), config: config, getter: flags, scope: scope,
		namespace: orDefault(*flags.Namespace, api.Namespace), labels: a.labels, annotations: a.annotations,
	}
	if a.dryRun {
		out.plan = newPlanner(c, out.Console, &a.changes)
		out.WithWatch = out.plan
	} else {
		out.WithWatch = &journaled{WithWatch: c, journal: &a.journal, scope: scope}
	}
	return out, nil
}

// noKubeconfigError is that the kubeconfig of a cluster is missing, or empty.
type noKubeconfigError struct{ scope, flag string }

func (e *noKubeconfigError) Error() string {
	return fmt.Sprintf("there is no kubeconfig of the %s cluster, or it names no cluster: give its path with %s or in KUBECONFIG", e.scope, e.flag)
}

// scoped is the console of one of several clusters, or of the only one.
func (a *app) scoped(scope string) *console.Console {
	out := a.console()
	if a.dryRun {
		return out.Scope(strings.TrimPrefix(scope+", dry run", ", ")).Rehearsal()
	}
	if scope != "" {
		return out.Scope(scope)
	}
	return out
}

// local connects to the cluster of the global flags.
func (a *app) local() (*cluster, error) { return a.connect(a.kubeconfig, "") }

// installed connects to the cluster of the global flags and insists on an installation there.
func (a *app) installed(ctx context.Context) (*cluster, error) {
	c, err := a.local()
	if err != nil {
		return nil, err
	}
	return c, c.requireInstallation(ctx)
}

// forNamespaces connects to the cluster of the global flags, for a command that the administrator of a namespace may run too: such a user can not read
// the installation, and the API server refuses what the command would have refused.
func (a *app) forNamespaces(ctx context.Context) (*cluster, error) {
	c, err := a.local()
	if err != nil {
		return nil, err
	}
	if err := c.requireInstallation(ctx); err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	return c, nil
}

// requireInstallation reads the cluster's ID and fails when Liqo is not there.
func (c *cluster) requireInstallation(ctx context.Context) error {
	id, where, err := installer.InstalledCluster(ctx, c, c.namespace)
	if err != nil {
		return c.error(err)
	}
	if id == "" {
		return c.error(fmt.Errorf("liqo is not installed in namespace %s of %s: install it (liqoctl install), or name the right kubeconfig", c.namespace, c.config.Host))
	}
	if where != c.namespace {
		return c.error(fmt.Errorf("liqo is installed in namespace %s, not in %s: say so with %s", where, c.namespace, c.flag("namespace")))
	}
	var deployment appsv1.Deployment
	if err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: deploymentName}, &deployment); err != nil {
		if apierrors.IsNotFound(err) {
			return c.error(fmt.Errorf("there is no Deployment %s in namespace %s: the installation is incomplete, run liqoctl install again", deploymentName, c.namespace))
		}
		return c.error(fmt.Errorf("reading Deployment %s in namespace %s: %w", deploymentName, c.namespace, err))
	}
	if err := c.servesKinds(); err != nil {
		return c.error(err)
	}
	c.id, c.version = id, deployment.Labels[labelVersion]
	return nil
}

// ownKinds are one of each group of ours, by which an installation is known to have its custom resource definitions.
var ownKinds = []schema.GroupVersionKind{
	corev1beta1.GroupVersion.WithKind("ForeignCluster"), authv1beta1.GroupVersion.WithKind("Tenant"), ipamv1alpha1.GroupVersion.WithKind("Network"),
	networkingv1beta1.GroupVersion.WithKind("Configuration"), offloadingv1beta1.GroupVersion.WithKind("VirtualNode"),
}

// servesKinds fails where the custom resource definitions are gone: an absence of objects means nothing there.
func (c *cluster) servesKinds() error {
	var missing []string
	for _, kind := range ownKinds {
		if _, err := c.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version); meta.IsNoMatchError(err) {
			missing = append(missing, kind.Kind+" ("+kind.GroupVersion().String()+")")
		} else if err != nil {
			return fmt.Errorf("asking %s for the kinds that it knows: %w", c.config.Host, err)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("liqo is not installed in %s, or no longer: it knows no %s: install it again (liqoctl install), or name the right kubeconfig", c.config.Host, strings.Join(missing, ", "))
	}
	return nil
}

// flag is the name of a connection flag for this cluster.
func (c *cluster) flag(name string) string {
	if c.scope == "remote" {
		return "--remote-" + name
	}
	return "--" + name
}

// error says in which cluster something happened, where there are two.
func (c *cluster) error(err error) error {
	if err == nil || c.scope == "" {
		return err
	}
	if c.id == "" {
		return fmt.Errorf("%s cluster: %w", c.scope, err)
	}
	return fmt.Errorf("%s cluster %s: %w", c.scope, c.id, err)
}

// ensure is kube.Ensure that also puts the global labels and annotations on what it creates.
func (c *cluster) ensure(ctx context.Context, object client.Object, mutate func() error) (bool, error) {
	changed, err := kube.Ensure(ctx, c, object, func() error {
		if object.GetResourceVersion() == "" {
			addTo(object.GetLabels, object.SetLabels, c.labels)
			addTo(object.GetAnnotations, object.SetAnnotations, c.annotations)
		}
		return mutate()
	})
	return changed, c.error(err)
}

// leaving refuses to change an object that is on its way out.
func (c *cluster) leaving(object client.Object) error {
	return fmt.Errorf("%s is being deleted: run the command again when it is gone", c.name(object))
}

func addTo(get func() map[string]string, set func(map[string]string), more map[string]string) {
	if len(more) == 0 {
		return
	}
	all := maps.Clone(get())
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, more)
	set(all)
}

// setLabel puts one label on the object.
func setLabel(object client.Object, key, value string) {
	addTo(object.GetLabels, object.SetLabels, map[string]string{key: value})
}

// setAnnotation puts one annotation on the object.
func setAnnotation(object client.Object, key, value string) {
	addTo(object.GetAnnotations, object.SetAnnotations, map[string]string{key: value})
}

// pair is the two clusters of a peering: the local one consumes, the remote one provides.
type pair struct {
	local, remote *cluster
}

// remoteFlags are the connection flags of the other cluster.
func remoteFlags(flags *pflag.FlagSet) *genericclioptions.ConfigFlags {
	remote := connectionFlags()
	flags.StringVar(remote.KubeConfig, "remote-kubeconfig", "", "Path to the kubeconfig of the remote cluster")
	flags.StringVar(remote.Context, "remote-context", "", "Context of the kubeconfig to use for the remote cluster")
	flags.StringVar(remote.ClusterName, "remote-cluster", "", "Cluster of the kubeconfig to use for the remote cluster")
	flags.StringVar(remote.AuthInfoName, "remote-user", "", "User of the kubeconfig to use for the remote cluster")
	flags.StringVar(remote.Namespace, "remote-namespace", api.Namespace, "Namespace of the installation in the remote cluster")
	return remote
}

// pair connects to both clusters and refuses them when they are one.
func (a *app) pair(ctx context.Context, remoteFlags *genericclioptions.ConfigFlags) (*pair, error) {
	local, err := a.connect(a.kubeconfig, "local")
	if err != nil {
		return nil, err
	}
	remote, err := a.connect(remoteFlags, "remote")
	if err != nil {
		return nil, err
	}
	p := &pair{local: local, remote: remote}
	if err := p.different(ctx); err != nil {
		return nil, err
	}
	if err := both(func() error { return local.requireInstallation(ctx) }, func() error { return remote.requireInstallation(ctx) }); err != nil {
		return nil, err
	}
	if local.id == remote.id {
		return nil, fmt.Errorf("both clusters have the ID %s: reinstall one of them with another --cluster-id", local.id)
	}
	if local.version != remote.version {
		local.Warn("Cluster %s runs Liqo %s, cluster %s runs %s: a version is only tested with itself and the one before: upgrade what is older (liqoctl upgrade)",
			local.id, orDefault(local.version, "of unknown version"), remote.id, orDefault(remote.version, "an unknown version"))
	}
	return p, nil
}

// different compares what no two clusters share: the UID of kube-system, or, where a user may not read it, the address.
func (p *pair) different(ctx context.Context) error {
	var local, remote string
	err := both(
		func() (err error) { local, err = p.local.uid(ctx); return },
		func() (err error) { remote, err = p.remote.uid(ctx); return },
	)
	if err != nil {
		return err
	}
	if local == "" || remote == "" {
		local, remote = p.local.config.Host, p.remote.config.Host
	}
	if local == remote {
		return fmt.Errorf("%w (%s): name the other one with --remote-kubeconfig or --remote-context", errSameCluster, p.local.config.Host)
	}
	return nil
}

var errSameCluster = errors.New("the local and the remote cluster are the same")

func (c *cluster) uid(ctx context.Context) (string, error) {
	var namespace corev1.Namespace
	err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &namespace)
	if apierrors.IsForbidden(err) {
		return "", nil
	}
	if err != nil {
		return "", c.error(fmt.Errorf("reading Namespace %s at the API server %s: %w", metav1.NamespaceSystem, c.config.Host, err))
	}
	return string(namespace.UID), nil
}

// both runs the two at the same time, one per cluster.
func both(a, b func() error) error {
	done := make(chan error, 1)
	go func() { done <- a() }()
	err := b()
	return errors.Join(<-done, err)
}

// together runs the two at the same time, one per cluster, until one of them fails: its error is the one that counts.
func together(ctx context.Context, a, b func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 2)
	go func() { done <- a(ctx) }()
	go func() { done <- b(ctx) }()
	if err := <-done; err != nil {
		cancel()
		<-done
		return err
	}
	return <-done
}

// absent tells whether an object, or its whole kind, does not exist.
func absent(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

func orDefault(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}
