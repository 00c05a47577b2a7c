package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"liqo.io/liqo/internal/install/clusterid"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/remote"
)

// ControllerManager is the Deployment of the controller manager. Every installation has it.
const ControllerManager = "liqo-controller-manager"

// Cluster is a connection to one cluster, with the console for messages about it.
type Cluster struct {
	client.WithWatch
	*console.Console
	Config *rest.Config
	Getter genericclioptions.RESTClientGetter
	// scope is "local" or "remote" if the command connects to two clusters, and empty otherwise.
	scope string
	// Plan is set in a dry run: see AddDryRun.
	Plan *preview.DryRun
	// DeleteVolumes permits the command to delete data in providers: see the flag --delete-volumes.
	DeleteVolumes bool
	// Namespace is the namespace of the installation. NamespaceGiven means that the user chose the namespace by a flag, so that liqoctl does not search another
	// one.
	Namespace      string
	NamespaceGiven bool
	// ContextNamespace is the namespace in the context of the kubeconfig. It is empty if there is none.
	ContextNamespace string
	// ID is the cluster ID. It is empty if Liqo is not installed.
	ID string
	// Version is the installed version, from the label of the controller manager.
	Version string
	// Unmanaged means that no pod of the controller manager is available, so that the status of objects is not updated.
	Unmanaged bool
	// DetectsCutsWithin is the longest time until the controller manager detects that the API server of a peer does not respond any more.
	DetectsCutsWithin   time.Duration
	Labels, Annotations map[string]string
	// Began is the start of the command.
	Began time.Time
	// CommandLimit is how long a command in a pod may take; 0 for the default of package workload. Tests set it.
	CommandLimit time.Duration
}

// Scheme returns the shared scheme. It is built once, because building takes longer than most requests. It must not be modified.
var Scheme = sync.OnceValue(kube.NewScheme)

// Connect creates a client for the cluster of the flags. It sends no request.
func (s *Session) Connect(flags *genericclioptions.ConfigFlags, scope string) (*Cluster, error) {
	if scope == "remote" {
		if err := s.checkForeign(flags); err != nil {
			return nil, err
		}
	}
	flags.WrapConfigFn = func(config *rest.Config) *rest.Config {
		if s.Wrap != nil {
			config = s.Wrap(config)
		}
		return bounding(config, scope == "remote")
	}
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of the %s cluster: %w", cmp.Or(scope, "local"), err)
	}
	// Without a kubeconfig, client-go falls back to this address, where no API server listens.
	raw, err := flags.ToRawKubeConfigLoader().RawConfig()
	if err == nil && len(raw.Clusters) == 0 && config.Host == "http://localhost:8080" {
		return nil, &NoKubeconfigError{Side: cmp.Or(scope, "local"), flag: (&Cluster{scope: scope}).flag("kubeconfig")}
	}
	// The client does not limit the rate of its requests: a command serves a single user, and the server limits it.
	config.QPS = -1
	config.UserAgent = "liqoctl"
	config.WarningHandler = rest.NoWarnings{}
	c, err := client.NewWithWatch(config, client.Options{Scheme: Scheme()})
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", config.Host, err)
	}
	out := &Cluster{
		Console: s.Scoped(scope), Config: config, Getter: flags, scope: scope,
		Namespace: cmp.Or(*flags.Namespace, api.Namespace), Labels: s.Labels, Annotations: s.Annotations,
		DeleteVolumes: s.DeleteVolumes, Began: time.Now(),
		// The flag of the remote cluster has a default, which is not a choice of the user.
		NamespaceGiven: *flags.Namespace != "" && (scope != "remote" || *flags.Namespace != api.Namespace),
	}
	if used := raw.Contexts[cmp.Or(*flags.Context, raw.CurrentContext)]; used != nil {
		out.ContextNamespace = used.Namespace
	}
	if s.DryRun {
		out.Plan = preview.NewDryRun(c, out.Console, &s.Changes)
		out.WithWatch = out.Plan
	} else {
		out.WithWatch = s.Journal.Recording(c, scope)
	}
	return out, nil
}

// NoKubeconfigError reports that the kubeconfig of a cluster is missing or empty.
type NoKubeconfigError struct{ Side, flag string }

func (e *NoKubeconfigError) Error() string {
	if named := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); named != "" && e.Side == "local" {
		if missing := slices.DeleteFunc(filepath.SplitList(named), func(path string) bool { _, err := os.Stat(path); return err == nil }); len(missing) > 0 {
			return fmt.Sprintf("KUBECONFIG names %s, which does not exist: correct it, or give the path of a kubeconfig with %s", strings.Join(missing, ", "), e.flag)
		}
	}
	return fmt.Sprintf("there is no kubeconfig of the %s cluster, or it names no cluster: give its path with %s or in KUBECONFIG", e.Side, e.flag)
}

// Scoped returns the console for the cluster with the given scope, or for the only cluster if the scope is empty.
func (s *Session) Scoped(scope string) *console.Console {
	out := s.Console()
	if s.DryRun {
		return out.Scope(strings.TrimPrefix(scope+", dry run", ", ")).DryRun()
	}
	if scope != "" {
		return out.Scope(scope)
	}
	return out
}

// Local connects to the cluster of the global flags.
func (s *Session) Local() (*Cluster, error) { return s.Connect(s.Kubeconfig, "") }

// Installed connects to the cluster of the global flags. It fails if Liqo is not installed there.
func (s *Session) Installed(ctx context.Context) (*Cluster, error) {
	c, err := s.Local()
	if err != nil {
		return nil, err
	}
	return c, c.RequireInstallation(ctx)
}

// WithTimeout returns the RunE of a command that ends after the timeout.
func WithTimeout(timeout *time.Duration, run func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if timeout == nil {
			return run(cmd.Context(), args)
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), *timeout)
		defer cancel()
		return run(ctx, args)
	}
}

// OnInstalled returns the RunE of a command that needs an installation in the cluster of the global flags. The command ends after the timeout, if
// that is not nil. check, if not nil, validates the flags before the command reads anything from the cluster.
func (s *Session) OnInstalled(
	timeout *time.Duration, check func() error, run func(ctx context.Context, local *Cluster, args []string) error,
) func(*cobra.Command, []string) error {
	return WithTimeout(timeout, func(ctx context.Context, args []string) error {
		if check != nil {
			if err := check(); err != nil {
				return err
			}
		}
		local, err := s.Installed(ctx)
		if err != nil {
			return err
		}
		return run(ctx, local, args)
	})
}

// ForNamespaces connects to the cluster of the global flags, for commands that an administrator of a single namespace may run. Such a user cannot
// read the installation, so ForNamespaces ignores a Forbidden error. The API server then rejects requests that the command would have rejected.
func (s *Session) ForNamespaces(ctx context.Context) (*Cluster, error) {
	c, err := s.Local()
	if err != nil {
		return nil, err
	}
	if err := c.RequireInstallation(ctx); err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	return c, nil
}

// Locate finds the installation, and returns the cluster ID; it is empty if there is none. The namespace of the installation becomes that of
// the cluster, unless the user named another one.
func (c *Cluster) Locate(ctx context.Context) (id string, err error) {
	id, where, err := clusterid.Find(ctx, c, c.Namespace)
	if apierrors.IsForbidden(err) && !c.NamespaceGiven && c.ContextNamespace != "" {
		// A user with permissions only in the namespace of the installation, such as a peering user, has that namespace in the context of the
		// kubeconfig.
		if found, at, otherErr := clusterid.Find(ctx, c, c.ContextNamespace); otherErr == nil && found != "" {
			id, where, err = found, at, nil
		}
	}
	switch {
	case err != nil || where == "" || where == c.Namespace:
		return id, err
	case c.NamespaceGiven:
		return "", fmt.Errorf("liqo is installed in namespace %s, not in %s: pass %s", where, c.Namespace, c.flag("namespace"))
	}
	c.Namespace = where
	return id, nil
}

// RequireInstallation finds the installation, and reads the cluster ID and the version. It fails if Liqo is not installed or if the
// installation is incomplete.
func (c *Cluster) RequireInstallation(ctx context.Context) error {
	id, err := c.Locate(ctx)
	if err != nil {
		return c.Err(err)
	}
	if id == "" {
		return c.Err(fmt.Errorf("liqo is not installed in namespace %s of %s: install it (liqoctl install), or name the right kubeconfig",
			c.Namespace, c.Config.Host))
	}
	var deployment appsv1.Deployment
	if err := c.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: ControllerManager}, &deployment); err != nil {
		if apierrors.IsNotFound(err) {
			return c.Err(fmt.Errorf("there is no Deployment %s in namespace %s: the installation is incomplete, run liqoctl install again",
				ControllerManager, c.Namespace))
		}
		return c.Err(fmt.Errorf("reading Deployment %s in namespace %s: %w", ControllerManager, c.Namespace, err))
	}
	if err := servesKinds(c); err != nil {
		return c.Err(err)
	}
	c.ID, c.Version = id, deployment.Labels[LabelVersion]
	var arguments []string
	for _, container := range deployment.Spec.Template.Spec.Containers {
		arguments = append(arguments, container.Args...)
	}
	c.DetectsCutsWithin = remote.HealthOptionsOf(arguments).DetectsWithin()
	// If zero pods are requested, the Deployment controller reports no unavailable pods.
	wanted, status := deployment.Spec.Replicas, &deployment.Status
	c.Unmanaged = wanted != nil && *wanted == 0 || status.AvailableReplicas == 0 && status.UnavailableReplicas > 0
	return nil
}

// ownKinds has one kind of each of Liqo's API groups. If the API server serves them, the custom resource definitions are installed.
var ownKinds = []schema.GroupVersionKind{
	corev1beta1.GroupVersion.WithKind("ForeignCluster"), authv1beta1.GroupVersion.WithKind("Tenant"), ipamv1alpha1.GroupVersion.WithKind("Network"),
	networkingv1beta1.GroupVersion.WithKind("Configuration"), offloadingv1beta1.GroupVersion.WithKind("VirtualNode"),
}

// servesKinds fails if custom resource definitions are missing. Without this check, commands could treat a missing kind as a kind without objects.
func servesKinds(c *Cluster) error {
	var missing []string
	for _, kind := range ownKinds {
		if _, err := c.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version); meta.IsNoMatchError(err) {
			missing = append(missing, kind.Kind+" ("+kind.GroupVersion().String()+")")
		} else if err != nil {
			return fmt.Errorf("discovering the API kinds of %s: %w", c.Config.Host, err)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("liqo is not installed in %s: its API server does not serve %s: install it again (liqoctl install), or name the right kubeconfig",
			c.Config.Host, strings.Join(missing, ", "))
	}
	return nil
}

// flag returns a connection flag with the prefix for this cluster.
func (c *Cluster) flag(name string) string {
	if c.scope == "remote" {
		return "--remote-" + name
	}
	return "--" + name
}

// Err adds the cluster to the error if the command connects to two clusters.
func (c *Cluster) Err(err error) error {
	if err == nil || c.scope == "" {
		return err
	}
	if c.ID == "" {
		return fmt.Errorf("%s cluster: %w", c.scope, err)
	}
	return fmt.Errorf("%s cluster %s: %w", c.scope, c.ID, err)
}

// Mark sets the labels and annotations of the global flags on an object that the command creates.
func (c *Cluster) Mark(object client.Object) {
	kube.AddLabels(object, c.Labels)
	kube.AddAnnotations(object, c.Annotations)
}

// Pair holds the two clusters of a peering. The local cluster is the consumer, the remote cluster the provider.
type Pair struct {
	Local, Remote *Cluster
	// Here is the tenant namespace of the peering in the local cluster, There the one in the remote cluster. Each is empty until FindNamespaces or
	// EnsureNamespaces has found it.
	Here, There string
	// EndsBoth means that the command ends the peerings in both directions, so nothing stays that the two peerings share.
	EndsBoth bool
}

// Reversed returns the pair for a peering in the other direction.
func (p *Pair) Reversed() *Pair {
	return &Pair{Local: p.Remote, Remote: p.Local, Here: p.There, There: p.Here}
}

// RemoteFlags registers the connection flags of the remote cluster.
func RemoteFlags(flags *pflag.FlagSet) *genericclioptions.ConfigFlags {
	remote := ConnectionFlags()
	flags.StringVar(remote.KubeConfig, "remote-kubeconfig", "", "Path to the kubeconfig of the remote cluster")
	flags.StringVar(remote.Context, "remote-context", "", "Context of the kubeconfig to use for the remote cluster")
	flags.StringVar(remote.ClusterName, "remote-cluster", "", "Cluster of the kubeconfig to use for the remote cluster")
	flags.StringVar(remote.AuthInfoName, "remote-user", "", "User of the kubeconfig to use for the remote cluster")
	flags.StringVar(remote.Namespace, "remote-namespace", api.Namespace,
		"Namespace of the installation in the remote cluster (with the default, an installation in another namespace is found too)")
	return remote
}

// LocalAndRemotes connects to the local cluster and to those of the kubeconfigs. It leaves out a remote cluster whose error may be skipped.
func LocalAndRemotes(ctx context.Context, a *Session, remotes []string, skip func(error) bool) ([]*Cluster, error) {
	local, err := a.Installed(ctx)
	if err != nil {
		return nil, err
	}
	all := []*Cluster{local}
	for _, path := range remotes {
		remote, err := ConnectProvider(ctx, a, "--remote-kubeconfig", path)
		if err != nil {
			if skip(err) {
				continue
			}
			return nil, err
		}
		if slices.ContainsFunc(all, func(c *Cluster) bool { return c.ID == remote.ID }) {
			return nil, fmt.Errorf("--remote-kubeconfig %s: cluster %s is named twice, or is the local one", path, remote.ID)
		}
		all = append(all, remote)
	}
	return all, nil
}

// Pair connects to both clusters. It fails if they are the same cluster.
func (s *Session) Pair(ctx context.Context, remoteFlags *genericclioptions.ConfigFlags) (*Pair, error) {
	local, err := s.Connect(s.Kubeconfig, "local")
	if err != nil {
		return nil, err
	}
	remote, err := s.Connect(remoteFlags, "remote")
	if err != nil {
		return nil, err
	}
	p := &Pair{Local: local, Remote: remote}
	if err := p.different(ctx); err != nil {
		return nil, err
	}
	if err := Both(func() error { return local.RequireInstallation(ctx) }, func() error { return remote.RequireInstallation(ctx) }); err != nil {
		return nil, err
	}
	if local.ID == remote.ID {
		return nil, fmt.Errorf("both clusters have the ID %s: reinstall one of them with another --cluster-id", local.ID)
	}
	if local.Version != remote.Version {
		local.Warn("Cluster %s runs Liqo %s, cluster %s runs %s: a version is only tested with itself and with the previous version: upgrade the older cluster (liqoctl upgrade)",
			local.ID, cmp.Or(local.Version, "of unknown version"), remote.ID, cmp.Or(remote.Version, "an unknown version"))
	}
	return p, nil
}

// different fails if both connections lead to the same cluster. It compares the UIDs of namespace kube-system, which are unique. If the
// user may not read one of them, it compares the addresses of the API servers.
func (p *Pair) different(ctx context.Context) error {
	var local, remote string
	err := Both(
		func() (err error) { local, err = p.Local.uid(ctx); return },
		func() (err error) { remote, err = p.Remote.uid(ctx); return },
	)
	if err != nil {
		return err
	}
	if local == "" || remote == "" {
		local, remote = p.Local.Config.Host, p.Remote.Config.Host
	}
	if local == remote {
		return fmt.Errorf("%w (%s): name the other one with --remote-kubeconfig or --remote-context", ErrSameCluster, p.Local.Config.Host)
	}
	return nil
}

// ErrSameCluster is the error of Pair if both connections lead to the same cluster.
var ErrSameCluster = errors.New("the local and the remote cluster are the same")

func (c *Cluster) uid(ctx context.Context) (string, error) {
	var namespace corev1.Namespace
	err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &namespace)
	if apierrors.IsForbidden(err) {
		return "", nil
	}
	if err != nil {
		return "", c.Err(fmt.Errorf("reading Namespace %s at the API server %s: %w", metav1.NamespaceSystem, c.Config.Host, err))
	}
	return string(namespace.UID), nil
}

// LabelVersion is the label with the version of an installation. Every way of installing Liqo sets it.
const LabelVersion = "app.kubernetes.io/version"

// ApplicationNamespace returns the namespace of an object of an application, as kubectl does: that of the flag, else that of the context, else default.
func ApplicationNamespace(s *Session) (string, error) {
	namespace, _, err := s.Kubeconfig.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("reading the namespace of the context from the kubeconfig: %w", err)
	}
	return namespace, nil
}

// ConnectProvider connects to the cluster of a kubeconfig from the given flag. It fails if Liqo is not installed there.
func ConnectProvider(ctx context.Context, a *Session, flag, kubeconfig string) (*Cluster, error) {
	flags := ConnectionFlags()
	*flags.KubeConfig = kubeconfig
	*flags.Namespace = *a.Kubeconfig.Namespace
	c, err := a.Connect(flags, "remote")
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", flag, kubeconfig, err)
	}
	if err := c.RequireInstallation(ctx); err != nil {
		return nil, fmt.Errorf("%s %s: %w", flag, kubeconfig, err)
	}
	c.Console = a.Scoped(c.ID)
	if c.IsDryRun() {
		c.Plan.PrintTo(c.Console)
	}
	return c, nil
}
