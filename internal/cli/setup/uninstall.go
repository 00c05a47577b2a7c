package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/install/installer"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/storage"
)

// UninstallCommand returns the command that removes Liqo from a cluster.
func UninstallCommand(a *session.Session) *cobra.Command {
	var purge, dryRun bool
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove Liqo from a cluster",
		Long: "Remove Liqo from the cluster. The command fails while the cluster is peered, a namespace is offloaded, or volumes of Liqo's\n" +
			"StorageClass exist, and lists them. --delete-volumes deletes these volumes, with their data.\n" +
			"The custom resource definitions and namespaces stay, unless --purge removes them too. A namespace with claims, or with workloads that\n" +
			"are not Liqo's, always stays.",
		Example: cmdline.Example(`
			# Remove the programs, keep the custom resources
			%[1]s uninstall
			# See what would be removed
			%[1]s uninstall --purge --dry-run
			# Leave the cluster as it was before the installation
			%[1]s uninstall --purge --skip-confirm`),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Local()
			if err != nil {
				return err
			}
			if c.ID, err = c.Locate(cmd.Context()); err != nil {
				return err
			}
			uses, err := usesOfInstallation(cmd.Context(), c)
			if err != nil {
				return err
			}
			programs, err := installedVersion(cmd.Context(), c)
			if err != nil {
				return err
			}
			gone := c.ID == "" && programs == "" // removed by helm uninstall, so no controller can end a peering
			switch {
			case len(uses.all) > 0 && !gone:
				return errors.New(uses.inUse())
			case len(uses.all) > 0 && !purge:
				return errors.New(uses.leftBehind())
			}
			if c.DeleteVolumes && gone && len(uses.volumes) > 0 {
				return errors.New(uses.undeletable())
			}
			if err := checkRemovable(c, purge); err != nil {
				return err
			}
			if len(uses.all) > 0 {
				c.Warn("%s", uses.forgotten())
			}
			if dryRun {
				return wouldRemove(cmd.Context(), c, purge, uses)
			}
			question := fmt.Sprintf("Remove Liqo from the cluster %s?", c.Config.Host)
			if purge {
				question = fmt.Sprintf("Remove Liqo from the cluster %s, with its custom resources and namespaces?", c.Config.Host)
			}
			if len(uses.volumes) > 0 {
				question += " This deletes the data of:" + uses.lost() + "\n"
			}
			if err := a.Confirm(question); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			if err := deleteClaims(ctx, c, uses.volumes); err != nil {
				return err
			}
			return uninstall(ctx, a, c, purge)
		},
	}
	command.Flags().BoolVar(&purge, "purge", false, "Remove the custom resource definitions and the namespaces too")
	command.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "Maximum time for the whole command")
	command.Flags().BoolVar(&a.DeleteVolumes, "delete-volumes", false, "Also delete the claims of Liqo's StorageClass, with their data")
	command.Flags().BoolVar(&dryRun, "dry-run", false, "Print the objects to be removed, without removing anything")
	return command
}

// checkRemovable fails if there is no Helm release to remove. If Liqo is not installed at all, it allows a purge, which removes the remains of
// an earlier uninstall.
func checkRemovable(c *session.Cluster, purge bool) error {
	release, err := installer.NewRelease(c.Getter, c.Namespace, io.Discard)
	if err != nil {
		return err
	}
	version, err := release.Version() // also of a release that failed half way
	switch {
	case err != nil || version != "":
		return err
	case c.ID != "":
		return fmt.Errorf("liqo is installed in namespace %s of %s, but not as a Helm release: remove it with what installed it, then run uninstall --purge for the rest",
			c.Namespace, c.Config.Host)
	case purge:
		return nil
	default:
		return fmt.Errorf("liqo is not installed in namespace %s of %s: name the right kubeconfig, or remove with --purge what an earlier uninstall left",
			c.Namespace, c.Config.Host)
	}
}

// uses lists everything that depends on an installation, each with the command that ends it. peers are the cluster IDs of the peers in the list. volumes are
// the volumes of Liqo that --delete-volumes deletes; without that flag, they are in all.
type uses struct {
	all, peers []string
	volumes    []corev1.PersistentVolume
}

func (u *uses) listed() string { return "\n  - " + strings.Join(u.all, "\n  - ") }

// lost lists the volumes that the user abandons with --delete-volumes.
func (u *uses) lost() string {
	var lines []string
	for i := range u.volumes {
		lines = append(lines, describeVolume(&u.volumes[i], u.volumes))
	}
	return "\n  - " + strings.Join(lines, "\n  - ")
}

// undeletable returns the error text for volumes that cannot be deleted, because only the programs of Liqo delete them and these were removed.
func (u *uses) undeletable() string {
	return "liqo is not installed here any more (helm uninstall?), and only its programs delete volumes:" + u.lost() +
		"\nInstall Liqo again, with the same --cluster-id, then run liqoctl uninstall --delete-volumes; or leave out --delete-volumes, which keeps the data"
}

// describeVolume describes a volume of Liqo with its claim, its size and the cluster that has the data, unless that is this cluster. It is empty
// for other volumes.
func describeVolume(volume *corev1.PersistentVolume, all []corev1.PersistentVolume) string {
	text := storage.Describe(volume, all)
	if provider := storage.ClusterOf(volume); text != "" && provider != "" {
		text += " in cluster " + provider
	}
	return text
}

// deleteClaims deletes the claims of volumes of Liqo, and the volumes that have no claim, and waits until both are gone. Kubernetes keeps a claim
// that a pod uses: then the error names it.
func deleteClaims(ctx context.Context, c *session.Cluster, volumes []corev1.PersistentVolume) error {
	for i := range volumes {
		claim, err := claimOfVolume(ctx, c, &volumes[i])
		if err != nil {
			return err
		}
		if claim != nil {
			if err := c.DeleteAll(ctx, []client.Object{claim}, true); err != nil {
				return fmt.Errorf("%w\nKubernetes keeps a claim as long as a pod uses it: delete the pods that use PersistentVolumeClaim %s in namespace %s, and "+
					"run the command again", err, claim.Name, claim.Namespace)
			}
		}
		if err := c.DeleteAll(ctx, []client.Object{&volumes[i]}, true); err != nil {
			return err
		}
	}
	return nil
}

// claimOfVolume returns the claim that has a volume, nil if there is none. A claim with the name in the claimRef may have another volume: it was recreated, or the
// volume is only reserved for it.
func claimOfVolume(ctx context.Context, c *session.Cluster, volume *corev1.PersistentVolume) (*corev1.PersistentVolumeClaim, error) {
	ref := volume.Spec.ClaimRef
	if ref == nil || volume.Status.Phase == corev1.VolumeReleased {
		return nil, nil
	}
	claim := &corev1.PersistentVolumeClaim{}
	err := c.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, claim)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading PersistentVolumeClaim %s in namespace %s: %w", ref.Name, ref.Namespace, err)
	}
	if err != nil || claim.Spec.VolumeName != volume.Name || ref.UID != "" && claim.UID != ref.UID {
		return nil, nil
	}
	return claim, nil
}

// inUse returns the error text for an installation that is in use.
func (u *uses) inUse() string {
	text := "liqo is in use:" + u.listed()
	if len(u.peers) > 0 {
		text += "\nIf the other cluster is gone for good: liqoctl force unpeer"
	}
	return text
}

// leftBehind returns the error text for an installation whose Helm release was removed while it was in use. The text says how to clean up.
func (u *uses) leftBehind() string {
	return "liqo is not installed here any more (helm uninstall?), but was in use:" + u.listed() +
		"\nThe programs of Liqo are needed to end this. Either install them again, with the same --cluster-id, and run the commands above; " +
		"or liqoctl uninstall --purge, which removes all of it here, and on each peer: liqoctl force unpeer ID, with the ID of this cluster"
}

// forgotten returns the warning about a purge without a running installation: it removes peerings in this cluster only.
func (u *uses) forgotten() string {
	text := "The programs of Liqo are gone, so no peer is notified:" + u.listed()
	if len(u.peers) > 0 {
		text += "\nThen on " + strings.Join(u.peers, ", ") + ": liqoctl force unpeer ID, with the ID of this cluster"
	}
	return text
}

// usesOfInstallation returns everything that depends on the installation.
func usesOfInstallation(ctx context.Context, c *session.Cluster) (*uses, error) {
	out := &uses{}
	note := func(format string, args ...any) { out.all = append(out.all, fmt.Sprintf(format, args...)) }
	var clusters corev1beta1.ForeignClusterList
	var tenants authv1beta1.TenantList
	var identities authv1beta1.IdentityList
	var virtual offloadingv1beta1.VirtualNodeList
	var offloadings offloadingv1beta1.NamespaceOffloadingList
	var configurations networkingv1beta1.ConfigurationList
	var servers networkingv1beta1.GatewayServerList
	var clients networkingv1beta1.GatewayClientList
	var volumes corev1.PersistentVolumeList
	for _, list := range []client.ObjectList{&clusters, &tenants, &identities, &virtual, &offloadings, &configurations, &servers, &clients, &volumes} {
		if err := c.List(ctx, list); err != nil && !kube.Absent(err) {
			return nil, fmt.Errorf("looking for peerings, offloaded namespaces and volumes, listing %s: %w", kube.KindsOf(list), err)
		}
	}
	peers := map[string]bool{}
	peer := func(id, because, where string) {
		if !peers[id] {
			peers[id] = true
			out.peers = append(out.peers, id)
			note("the cluster is peered with %s (%s): liqoctl unpeer%s", id, because, where)
		}
	}
	for _, identity := range identities.Items {
		peer(identity.Spec.ClusterID, fmt.Sprintf("Identity %s in namespace %s", identity.Name, identity.Namespace), "")
	}
	for _, tenant := range tenants.Items {
		peer(tenant.Spec.ClusterID, fmt.Sprintf("Tenant %s in namespace %s", tenant.Name, tenant.Namespace), ", run on cluster "+tenant.Spec.ClusterID)
	}
	for _, node := range virtual.Items {
		peer(node.Spec.ClusterID, fmt.Sprintf("VirtualNode %s in namespace %s", node.Name, node.Namespace), "")
	}
	// Networks can be connected without a peering.
	networks := map[string]bool{}
	network := func(kind string, object client.Object) {
		id := object.GetLabels()[api.LabelRemoteClusterID]
		if !peers[id] && !networks[id] {
			networks[id] = true
			note("the network is connected to that of %s (%s %s in namespace %s): liqoctl network reset", id, kind, object.GetName(), object.GetNamespace())
		}
	}
	for i := range servers.Items {
		network("GatewayServer", &servers.Items[i])
	}
	for i := range clients.Items {
		network("GatewayClient", &clients.Items[i])
	}
	for i := range configurations.Items {
		network("Configuration", &configurations.Items[i])
	}
	for _, foreign := range clusters.Items {
		if networks[foreign.Spec.ClusterID] {
			continue
		}
		modules := foreign.Status.Modules
		if modules.Networking.Enabled || modules.Authentication.Enabled || modules.Offloading.Enabled {
			peer(foreign.Spec.ClusterID, "ForeignCluster "+foreign.Name+" has active modules", "")
		}
	}
	for _, offloading := range offloadings.Items {
		note("namespace %s is offloaded: liqoctl unoffload namespace %s", offloading.Namespace, offloading.Namespace)
	}
	for i := range volumes.Items {
		text := describeVolume(&volumes.Items[i], volumes.Items)
		switch {
		case text == "":
		case c.DeleteVolumes:
			out.volumes = append(out.volumes, volumes.Items[i])
		default:
			note("%s: copy the data to a claim of another StorageClass, then delete it, or abandon the data with --delete-volumes", text)
		}
	}
	return out, nil
}

// wouldRemove prints what an uninstall would remove.
func wouldRemove(ctx context.Context, c *session.Cluster, purge bool, uses *uses) error {
	release, err := installer.NewRelease(c.Getter, c.Namespace, io.Discard)
	if err != nil {
		return err
	}
	objects, err := release.Objects()
	if err != nil {
		return err
	}
	text := fmt.Sprintf("Dry run: nothing was changed. These would be removed:\nHelm release in namespace %s, with its %d objects", c.Namespace, objects)
	for i := range uses.volumes {
		text += "\nThe data of this volume: " + describeVolume(&uses.volumes[i], uses.volumes)
	}
	if purge {
		found, err := leftovers(ctx, c)
		if err != nil {
			return err
		}
		for _, object := range found.removed() {
			text += "\n" + c.Name(object)
		}
		defer found.warn(c)
	}
	c.Info("%s", text)
	return nil
}

// remains are the objects that are not part of the Helm release: the objects created at run time, the definitions and the namespaces. kept holds, by name, why
// some of the namespaces stay.
type remains struct {
	made, definitions, namespaces []client.Object
	kept                          map[string]string
}

// removed returns the objects that a purge deletes, in the order of their deletion.
func (r *remains) removed() []client.Object {
	all := slices.Concat(r.made, r.definitions)
	for _, namespace := range r.namespaces {
		if r.kept[namespace.GetName()] == "" {
			all = append(all, namespace)
		}
	}
	return all
}

// warn names the namespaces that stay.
func (r *remains) warn(c *session.Cluster) {
	for _, name := range slices.Sorted(maps.Keys(r.kept)) {
		c.Warn("%s", r.kept[name])
	}
}

func leftovers(ctx context.Context, c *session.Cluster) (*remains, error) {
	r := &remains{}
	var err error
	if r.definitions, err = installer.Definitions(ctx, c); err != nil {
		return nil, err
	}
	if r.namespaces, r.kept, err = installer.Namespaces(ctx, c, c.Namespace); err != nil {
		return nil, err
	}
	if r.made, err = installer.Leftovers(ctx, c); err != nil {
		return nil, err
	}
	return r, nil
}

func uninstall(ctx context.Context, a *session.Session, c *session.Cluster, purge bool) error {
	step := c.Start("Uninstalling")
	defer step.End()
	held, lock, err := installer.Acquire(ctx, withoutJournal(c), c.Namespace, lockHolder(), installer.LockTiming{}, func(holder string) {
		step.Update("Waiting to see whether %s is still running", holder)
	})
	// Without the namespace, there is no installation to lock.
	if err != nil && !kube.Absent(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return err
	}
	if err == nil {
		ctx = held
		defer func() {
			if err := lock.Release(ctx); err != nil {
				c.Warn("The lock of the installation could not be released; it expires by itself: %v", err)
			}
		}()
	}
	release, err := installer.NewRelease(c.Getter, c.Namespace, helmLog(a))
	if err == nil {
		err = release.Uninstall()
	}
	step.End()
	if err != nil {
		return err
	}
	step = c.Start("Waiting for the programs to end")
	err = c.WaitGone(ctx, step, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: session.ControllerManager}})
	if err == nil {
		err = podsGone(ctx, c, step)
	}
	step.End()
	if err != nil {
		return err
	}
	c.Info("Liqo correctly uninstalled")
	if !purge {
		if err := releaseObjects(ctx, c); err != nil {
			return err
		}
		c.Info("Kept: the custom resource definitions with their objects, and the namespaces. To delete them, run: liqoctl uninstall --purge")
		return NoRolesLeft(ctx, c)
	}
	kept, err := purgeAll(ctx, c)
	if err != nil {
		return err
	}
	if len(kept) > 0 {
		c.Info("Custom resource definitions and leftovers correctly removed. Kept: namespaces %s, see above", strings.Join(kept, ", "))
	} else {
		c.Info("Custom resource definitions, namespaces and leftovers correctly removed")
	}
	return NoRolesLeft(ctx, c)
}

// releaseObjects removes the finalizers from the custom resources that stay. Without the controllers, the objects and their namespaces
// could never be deleted by their owner. A later installation adds the finalizers again.
func releaseObjects(ctx context.Context, c *session.Cluster) error {
	definitions, err := installer.Definitions(ctx, c)
	if err != nil {
		return err
	}
	return installer.ReleaseObjects(ctx, c, definitions, nil)
}

// podsGone waits until the pods of the installation are gone: a controller that still runs could recreate objects.
func podsGone(ctx context.Context, c *session.Cluster, step *console.Step) error {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(c.Namespace), client.MatchingLabels{"app.kubernetes.io/part-of": "liqo"}); err != nil {
		return fmt.Errorf("listing pods in namespace %s: %w", c.Namespace, err)
	}
	for i := range pods.Items {
		if err := c.WaitGone(ctx, step, &pods.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// NoRolesLeft fails if a ClusterRole of Liqo is left.
func NoRolesLeft(ctx context.Context, c *session.Cluster) error {
	var roles rbacv1.ClusterRoleList
	if err := c.List(ctx, &roles, client.MatchingLabels{"app.kubernetes.io/part-of": "liqo"}); err != nil {
		return fmt.Errorf("listing ClusterRoles: %w", err)
	}
	if len(roles.Items) > 0 {
		return fmt.Errorf("ClusterRole %s is left, labelled app.kubernetes.io/part-of=liqo: it belongs to another release of the chart, or was made by hand; delete it", roles.Items[0].Name)
	}
	return nil
}

// purgeAll deletes everything that is not part of the Helm release, but no namespace with claims or with workloads of others. It removes finalizers first, because
// the controllers no longer run. It returns the namespaces that stay.
func purgeAll(ctx context.Context, c *session.Cluster) (kept []string, err error) {
	found, err := leftovers(ctx, c)
	if err != nil {
		return nil, err
	}
	found.warn(c)
	if err := installer.ReleaseObjects(ctx, c, found.definitions, found.namespaces); err != nil {
		return nil, err
	}
	if err := installer.Remove(ctx, c, found.removed()); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(found.kept)), c.WaitAllGone(ctx, found.removed(), c.Verbose)
}
