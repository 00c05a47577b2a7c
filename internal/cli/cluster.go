package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/preview"
	"liqo.io/liqo/internal/install/installer"
	"liqo.io/liqo/internal/kube"
)

// deploymentName is the Deployment of the controller manager. Every installation has it.
const deploymentName = "liqo-controller-manager"

// cluster is a connection to one cluster, with the console for messages about it.
type cluster struct {
	client.WithWatch
	*console.Console
	config *rest.Config
	getter genericclioptions.RESTClientGetter
	// scope is "local" or "remote" if the command connects to two clusters, and empty otherwise.
	scope string
	// plan is set in a dry run: see addDryRun.
	plan *preview.DryRun
	// deleteVolumes permits the command to delete data in providers: see addDeleteVolumes.
	deleteVolumes bool
	// namespace is the namespace of the installation. named means that the user chose the namespace by a flag, so that liqoctl does not search another
	// one.
	namespace string
	named     bool
	// contextNamespace is the namespace in the context of the kubeconfig. It is empty if there is none.
	contextNamespace string
	// id is the cluster ID. It is empty if Liqo is not installed.
	id string
	// version is the installed version, from the label of the controller manager.
	version string
	// unmanaged means that no pod of the controller manager is available, so that the status of objects is not updated.
	unmanaged           bool
	labels, annotations map[string]string
	// began is the start of the command.
	began time.Time
	// commandLimit is how long a command in a pod may take; 0 for maxCommandTime. Tests set it.
	commandLimit time.Duration
}

// knownKinds returns the shared scheme. It is built once, because building takes longer than most requests. It must not be modified.
var knownKinds = sync.OnceValue(kube.NewScheme)

// connect creates a client for the cluster of the flags. It sends no request.
func (a *app) connect(flags *genericclioptions.ConfigFlags, scope string) (*cluster, error) {
	if scope == "remote" {
		if err := a.checkForeign(flags); err != nil {
			return nil, err
		}
	}
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
	// Without a kubeconfig, client-go falls back to this address, where no API server listens.
	raw, err := flags.ToRawKubeConfigLoader().RawConfig()
	if err == nil && len(raw.Clusters) == 0 && config.Host == "http://localhost:8080" {
		return nil, &noKubeconfigError{scope: orDefault(scope, "local"), flag: (&cluster{scope: scope}).flag("kubeconfig")}
	}
	// The client does not limit the rate of its requests: a command serves a single user, and the server limits it.
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
		deleteVolumes: a.deleteVolumes, began: time.Now(),
		// The flag of the remote cluster has a default, which is not a choice of the user.
		named: *flags.Namespace != "" && (scope != "remote" || *flags.Namespace != api.Namespace),
	}
	if used := raw.Contexts[orDefault(*flags.Context, raw.CurrentContext)]; used != nil {
		out.contextNamespace = used.Namespace
	}
	if a.dryRun {
		out.plan = preview.NewDryRun(c, out.Console, &a.changes)
		out.WithWatch = out.plan
	} else {
		out.WithWatch = a.journal.Recording(c, scope)
	}
	return out, nil
}

// noKubeconfigError reports that the kubeconfig of a cluster is missing or empty.
type noKubeconfigError struct{ scope, flag string }

func (e *noKubeconfigError) Error() string {
	if named := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); named != "" && e.scope == "local" {
		if missing := slices.DeleteFunc(filepath.SplitList(named), func(path string) bool { _, err := os.Stat(path); return err == nil }); len(missing) > 0 {
			return fmt.Sprintf("KUBECONFIG names %s, which does not exist: correct it, or give the path of a kubeconfig with %s", strings.Join(missing, ", "), e.flag)
		}
	}
	return fmt.Sprintf("there is no kubeconfig of the %s cluster, or it names no cluster: give its path with %s or in KUBECONFIG", e.scope, e.flag)
}

// scoped returns the console for the cluster with the given scope, or for the only cluster if the scope is empty.
func (a *app) scoped(scope string) *console.Console {
	out := a.console()
	if a.dryRun {
		return out.Scope(strings.TrimPrefix(scope+", dry run", ", ")).DryRun()
	}
	if scope != "" {
		return out.Scope(scope)
	}
	return out
}

// local connects to the cluster of the global flags.
func (a *app) local() (*cluster, error) { return a.connect(a.kubeconfig, "") }

// installed connects to the cluster of the global flags. It fails if Liqo is not installed there.
func (a *app) installed(ctx context.Context) (*cluster, error) {
	c, err := a.local()
	if err != nil {
		return nil, err
	}
	return c, c.requireInstallation(ctx)
}

// withTimeout returns the RunE of a command that ends after the timeout.
func withTimeout(timeout *time.Duration, run func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if timeout == nil {
			return run(cmd.Context(), args)
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), *timeout)
		defer cancel()
		return run(ctx, args)
	}
}

// onInstalled returns the RunE of a command that needs an installation in the cluster of the global flags. The command ends after the timeout, if
// that is not nil. check, if not nil, validates the flags before the command reads anything from the cluster.
func (a *app) onInstalled(
	timeout *time.Duration, check func() error, run func(ctx context.Context, local *cluster, args []string) error,
) func(*cobra.Command, []string) error {
	return withTimeout(timeout, func(ctx context.Context, args []string) error {
		if check != nil {
			if err := check(); err != nil {
				return err
			}
		}
		local, err := a.installed(ctx)
		if err != nil {
			return err
		}
		return run(ctx, local, args)
	})
}

// forNamespaces connects to the cluster of the global flags, for commands that an administrator of a single namespace may run. Such a user cannot
// read the installation, so forNamespaces ignores a Forbidden error. The API server then rejects requests that the command would have rejected.
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

// locate finds the installation, and returns the cluster ID; it is empty if there is none. The namespace of the installation becomes that of
// the cluster, unless the user named another one.
func (c *cluster) locate(ctx context.Context) (id string, err error) {
	id, where, err := installer.InstalledCluster(ctx, c, c.namespace)
	if apierrors.IsForbidden(err) && !c.named && c.contextNamespace != "" {
		// A user with permissions only in the namespace of the installation, such as a peering user, has that namespace in the context of the
		// kubeconfig.
		if found, at, otherErr := installer.InstalledCluster(ctx, c, c.contextNamespace); otherErr == nil && found != "" {
			id, where, err = found, at, nil
		}
	}
	switch {
	case err != nil || where == "" || where == c.namespace:
		return id, err
	case c.named:
		return "", fmt.Errorf("liqo is installed in namespace %s, not in %s: pass %s", where, c.namespace, c.flag("namespace"))
	}
	c.namespace = where
	return id, nil
}

// requireInstallation finds the installation, and reads the cluster ID and the version. It fails if Liqo is not installed or if the
// installation is incomplete.
func (c *cluster) requireInstallation(ctx context.Context) error {
	id, err := c.locate(ctx)
	if err != nil {
		return c.error(err)
	}
	if id == "" {
		return c.error(fmt.Errorf("liqo is not installed in namespace %s of %s: install it (liqoctl install), or name the right kubeconfig",
			c.namespace, c.config.Host))
	}
	var deployment appsv1.Deployment
	if err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: deploymentName}, &deployment); err != nil {
		if apierrors.IsNotFound(err) {
			return c.error(fmt.Errorf("there is no Deployment %s in namespace %s: the installation is incomplete, run liqoctl install again",
				deploymentName, c.namespace))
		}
		return c.error(fmt.Errorf("reading Deployment %s in namespace %s: %w", deploymentName, c.namespace, err))
	}
	if err := servesKinds(c); err != nil {
		return c.error(err)
	}
	c.id, c.version = id, deployment.Labels[labelVersion]
	// If zero pods are requested, the Deployment controller reports no unavailable pods.
	wanted, status := deployment.Spec.Replicas, &deployment.Status
	c.unmanaged = wanted != nil && *wanted == 0 || status.AvailableReplicas == 0 && status.UnavailableReplicas > 0
	return nil
}

// ownKinds has one kind of each of Liqo's API groups. If the API server serves them, the custom resource definitions are installed.
var ownKinds = []schema.GroupVersionKind{
	corev1beta1.GroupVersion.WithKind("ForeignCluster"), authv1beta1.GroupVersion.WithKind("Tenant"), ipamv1alpha1.GroupVersion.WithKind("Network"),
	networkingv1beta1.GroupVersion.WithKind("Configuration"), offloadingv1beta1.GroupVersion.WithKind("VirtualNode"),
}

// servesKinds fails if custom resource definitions are missing. Without this check, commands could treat a missing kind as a kind without objects.
func servesKinds(c *cluster) error {
	var missing []string
	for _, kind := range ownKinds {
		if _, err := c.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version); meta.IsNoMatchError(err) {
			missing = append(missing, kind.Kind+" ("+kind.GroupVersion().String()+")")
		} else if err != nil {
			return fmt.Errorf("discovering the API kinds of %s: %w", c.config.Host, err)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("liqo is not installed in %s: its API server does not serve %s: install it again (liqoctl install), or name the right kubeconfig",
			c.config.Host, strings.Join(missing, ", "))
	}
	return nil
}

// flag returns a connection flag with the prefix for this cluster.
func (c *cluster) flag(name string) string {
	if c.scope == "remote" {
		return "--remote-" + name
	}
	return "--" + name
}

// error adds the cluster to the error if the command connects to two clusters.
func (c *cluster) error(err error) error {
	if err == nil || c.scope == "" {
		return err
	}
	if c.id == "" {
		return fmt.Errorf("%s cluster: %w", c.scope, err)
	}
	return fmt.Errorf("%s cluster %s: %w", c.scope, c.id, err)
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

// setLabel sets one label of the object.
func setLabel(object client.Object, key, value string) {
	addTo(object.GetLabels, object.SetLabels, map[string]string{key: value})
}

// setAnnotation sets one annotation of the object.
func setAnnotation(object client.Object, key, value string) {
	addTo(object.GetAnnotations, object.SetAnnotations, map[string]string{key: value})
}

// pair holds the two clusters of a peering. The local cluster is the consumer, the remote cluster the provider.
type pair struct {
	local, remote *cluster
	// here and there are the tenant namespaces of the peering in the local and in the remote cluster. They are empty until findNamespaces or
	// ensureNamespaces has found them.
	here, there string
	// endsBoth means that the command ends the peerings in both directions, so neither of them keeps what both share.
	endsBoth bool
}

// reversed returns the pair for a peering in the other direction.
func (p *pair) reversed() *pair {
	return &pair{local: p.remote, remote: p.local, here: p.there, there: p.here}
}

// remoteFlags registers the connection flags of the remote cluster.
func remoteFlags(flags *pflag.FlagSet) *genericclioptions.ConfigFlags {
	remote := connectionFlags()
	flags.StringVar(remote.KubeConfig, "remote-kubeconfig", "", "Path to the kubeconfig of the remote cluster")
	flags.StringVar(remote.Context, "remote-context", "", "Context of the kubeconfig to use for the remote cluster")
	flags.StringVar(remote.ClusterName, "remote-cluster", "", "Cluster of the kubeconfig to use for the remote cluster")
	flags.StringVar(remote.AuthInfoName, "remote-user", "", "User of the kubeconfig to use for the remote cluster")
	flags.StringVar(remote.Namespace, "remote-namespace", api.Namespace,
		"Namespace of the installation in the remote cluster (liqo: found automatically)")
	return remote
}

// pair connects to both clusters. It fails if they are the same cluster.
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
		local.Warn("Cluster %s runs Liqo %s, cluster %s runs %s: a version is only tested with itself and with the previous version: upgrade the older cluster (liqoctl upgrade)",
			local.id, orDefault(local.version, "of unknown version"), remote.id, orDefault(remote.version, "an unknown version"))
	}
	return p, nil
}

// different fails if both connections lead to the same cluster. It compares the UIDs of namespace kube-system, which are unique. If the
// user may not read one of them, it compares the addresses of the API servers.
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

// absent reports whether the error means that an object or its whole kind does not exist.
func absent(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

func orDefault(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}
