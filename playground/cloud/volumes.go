package cloud

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

const (
	// StorageClassName is the name of the default StorageClass of a playground cluster.
	StorageClassName = "standard"
	// SharedClassName is the name of a StorageClass whose volumes every node can use, and that can be enlarged.
	SharedClassName = "shared"
	// ProvisionerName is the provisioner field of StorageClasses whose volumes this package provisions.
	ProvisionerName = "playground.local/hostpath"
)

// resync is the interval at which failed enlargements are retried.
const resync = 10 * time.Second

// serveVolumes creates the StorageClasses, and provisions and enlarges volumes until ctx ends.
func serveVolumes(ctx context.Context, client kubernetes.Interface, config Config) error {
	if err := os.MkdirAll(config.VolumeRoot, 0o755); err != nil {
		return fmt.Errorf("creating the folder of volumes: %w", err)
	}
	for _, class := range storageClasses() {
		if err := makeStorageClass(ctx, client, class); err != nil {
			return err
		}
	}
	disks := &provisioner{client: client, root: config.VolumeRoot, logger: config.Logger}
	factory := informers.NewSharedInformerFactory(client, resync)
	if _, err := factory.Core().V1().PersistentVolumeClaims().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, object any) {
			if claim, is := object.(*corev1.PersistentVolumeClaim); is {
				if err := disks.enlarge(ctx, claim); err != nil && ctx.Err() == nil {
					config.Logger.Warn("enlarging a volume", "claim", claim.Namespace+"/"+claim.Name, "err", err)
				}
			}
		},
	}); err != nil {
		return fmt.Errorf("watching claims: %w", err)
	}
	factory.Start(ctx.Done())
	controller.NewProvisionController(ctx, client, ProvisionerName, disks,
		controller.LeaderElection(false),
		controller.AddFinalizer(true), // the finalizer makes sure that the files are removed even if a user deletes the PersistentVolume
		controller.RateLimiter(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, 30*time.Second)),
	).Run(ctx)
	return nil
}

// storageClasses returns the StorageClass whose volumes belong to no node, and then the default one, whose volumes are the disks of nodes. The
// default one is last, because the creation of a cluster waits for it.
func storageClasses() []*storagev1.StorageClass {
	return []*storagev1.StorageClass{
		{
			ObjectMeta:           metav1.ObjectMeta{Name: SharedClassName},
			Provisioner:          ProvisionerName,
			ReclaimPolicy:        ptr.To(corev1.PersistentVolumeReclaimDelete),
			VolumeBindingMode:    ptr.To(storagev1.VolumeBindingImmediate),
			AllowVolumeExpansion: ptr.To(true),
		},
		{
			ObjectMeta: metav1.ObjectMeta{
				Name:        StorageClassName,
				Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
			},
			Provisioner:       ProvisionerName,
			ReclaimPolicy:     ptr.To(corev1.PersistentVolumeReclaimDelete),
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		},
	}
}

// makeStorageClass creates a StorageClass if it is missing. It retries until the API server responds, which may start later than this program. It
// returns nil if ctx ends.
func makeStorageClass(ctx context.Context, client kubernetes.Interface, class *storagev1.StorageClass) error {
	for {
		_, err := client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{})
		if err == nil || apierrors.IsAlreadyExists(err) || ctx.Err() != nil {
			return nil
		}
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			return fmt.Errorf("creating StorageClass %s: %w", class.Name, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// provisioner creates and removes the folders of volumes.
type provisioner struct {
	client kubernetes.Interface
	root   string
	logger *slog.Logger
}

// Provision creates the folder of a volume, writable by any user, and returns the PersistentVolume. After an error, no work continues in the
// background.
func (p *provisioner) Provision(ctx context.Context, options controller.ProvisionOptions) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	var node *corev1.Node
	// A volume of a class that does not wait belongs to no node, even if the claim has one selected.
	if options.SelectedNodeName != "" && ptr.Deref(options.StorageClass.VolumeBindingMode, "") == storagev1.VolumeBindingWaitForFirstConsumer {
		found, err := p.client.CoreV1().Nodes().Get(ctx, options.SelectedNodeName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, controller.ProvisioningReschedule, fmt.Errorf("finding node %s: %w", options.SelectedNodeName, err)
		}
		if err != nil {
			return nil, controller.ProvisioningNoChange, fmt.Errorf("finding node %s: %w", options.SelectedNodeName, err)
		}
		node = found
	}
	volume, err := describeVolume(p.root, options, node)
	if err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	folder := volume.Spec.HostPath.Path
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("creating volume %s: %w", volume.Name, err)
	}
	// MkdirAll applies the umask, so set the permissions again.
	if err := os.Chmod(folder, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("creating volume %s: %w", volume.Name, err)
	}
	p.logger.Info("volume made", "volume", volume.Name, "claim", options.PVC.Namespace+"/"+options.PVC.Name, "node", options.SelectedNodeName)
	return volume, controller.ProvisioningFinished, nil
}

// Delete removes the files of a volume. It returns an error and removes nothing if the volume's path is not the path from Provision.
func (p *provisioner) Delete(_ context.Context, volume *corev1.PersistentVolume) error {
	folder, err := folderOf(p.root, volume.Name)
	if err != nil {
		return err
	}
	if volume.Spec.HostPath == nil || volume.Spec.HostPath.Path != folder {
		return fmt.Errorf("removing volume %s: its files are not in %s", volume.Name, folder)
	}
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("removing volume %s: %w", volume.Name, err)
	}
	p.logger.Info("volume removed", "volume", volume.Name)
	return nil
}

// enlarge sets the size of a bound claim and its volume to the size that the claim requests, if its StorageClass is one of ours and allows it. The
// folder itself has no size.
func (p *provisioner) enlarge(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	wanted, have := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	if claim.Status.Phase != corev1.ClaimBound || claim.Spec.StorageClassName == nil || have.Cmp(wanted) >= 0 {
		return nil
	}
	class, err := p.client.StorageV1().StorageClasses().Get(ctx, *claim.Spec.StorageClassName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading StorageClass %s: %w", *claim.Spec.StorageClassName, err)
	}
	if class.Provisioner != ProvisionerName || !ptr.Deref(class.AllowVolumeExpansion, false) {
		return nil
	}
	volume, err := p.client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading volume %s: %w", claim.Spec.VolumeName, err)
	}
	volume.Spec.Capacity[corev1.ResourceStorage] = wanted
	if _, err := p.client.CoreV1().PersistentVolumes().Update(ctx, volume, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("enlarging volume %s: %w", volume.Name, err)
	}
	larger := claim.DeepCopy()
	larger.Status.Capacity[corev1.ResourceStorage] = wanted
	if _, err := p.client.CoreV1().PersistentVolumeClaims(claim.Namespace).UpdateStatus(ctx, larger, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("writing the size of claim %s: %w", claim.Name, err)
	}
	p.logger.Info("volume enlarged", "volume", volume.Name, "claim", claim.Namespace+"/"+claim.Name, "size", wanted.String())
	return nil
}

// describeVolume returns the PersistentVolume for a claim, with node affinity to the node. node is nil if the StorageClass has binding mode
// Immediate; then every node can use the volume.
func describeVolume(root string, options controller.ProvisionOptions, node *corev1.Node) (*corev1.PersistentVolume, error) {
	claim := options.PVC
	if claim.Spec.Selector != nil {
		return nil, errors.New("describing the volume: a claim with a selector cannot be provisioned")
	}
	if claim.Spec.DataSource != nil || claim.Spec.DataSourceRef != nil {
		return nil, errors.New("describing the volume: a volume cannot be filled from a data source")
	}
	folder, err := folderOf(root, options.PVName)
	if err != nil {
		return nil, err
	}
	for _, mode := range claim.Spec.AccessModes {
		if node != nil && mode != corev1.ReadWriteOnce && mode != corev1.ReadWriteOncePod {
			return nil, fmt.Errorf("describing the volume: access mode %s is not possible on a node's own disk", mode)
		}
	}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: options.PVName},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes:                   claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: ptr.Deref(options.StorageClass.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete),
			VolumeMode:                    ptr.To(corev1.PersistentVolumeFilesystem),
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: folder, Type: ptr.To(corev1.HostPathDirectoryOrCreate)},
			},
		},
	}
	if node != nil {
		host := node.Labels[corev1.LabelHostname]
		if host == "" {
			return nil, fmt.Errorf("describing the volume: node %s has no label %s", node.Name, corev1.LabelHostname)
		}
		volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{host}}},
		}}}}
	}
	return volume, nil
}

// folderOf returns the folder of a volume, always a direct child of root. It returns an error if name is not a plain file name.
func folderOf(root, name string) (string, error) {
	if name == "" || name == "." || name == ".." || filepath.Base(name) != name {
		return "", fmt.Errorf("finding the folder of volume %q: not a file name", name)
	}
	return filepath.Join(root, name), nil
}
