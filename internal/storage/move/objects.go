package move

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/storage"
)

// Labels of everything that a move creates and deletes again.
const (
	// LabelMove is the UID in the name of the volume with the old data.
	LabelMove = "storage.liqo.io/move"
	labelRole = "storage.liqo.io/move-role"
)

// annotationTarget, on a pod that copies data, is the UID of the claim that it writes to. The result of a pod is of no use for another claim.
const annotationTarget = "storage.liqo.io/move-target"

// annotationSender, on the receiver, is the UID of the sender whose copy it reads.
const annotationSender = "storage.liqo.io/move-sender"

// The pods of a move: the store keeps the repository, the sender copies the old data to it, the receiver copies it on to the new volume.
const (
	store    = "store"
	sender   = "sender"
	receiver = "receiver"
)

// Names inside of the pods, which package mover and its image use too.
const (
	dataPath        = "/data"
	devicePath      = "/dev/volume"
	repositoryPath  = "/repository"
	credentialsPath = "/credentials"
	// Port is the port of the store.
	Port = 8000
	// KeyHTPasswd is the key of the Secret with the file that the store checks passwords against.
	KeyHTPasswd = "htpasswd"
)

// Keys of the Secret that are environment variables of restic: the password that encrypts the repository, and the account in the store.
const (
	KeyPassword     = "RESTIC_PASSWORD"
	KeyUser         = "RESTIC_REST_USERNAME"
	KeyUserPassword = "RESTIC_REST_PASSWORD"
)

// The repository has the size of the old volume, and a share for its indexes. An index of even a small volume takes some space.
const (
	overheadPercent = 10
	overheadBytes   = 128 << 20
)

// container is the name of the only container of each pod.
const container = "mover"

// maxRestarts is how often a container may fail before the command ends with its error.
const maxRestarts = 4

// move is a move that is under way.
type move struct {
	*State
	source *corev1.PersistentVolume
	record *Record
}

// id returns the value of LabelMove.
func (m *move) id() string { return string(storage.VolumeUID(m.source)) }

// name returns the name of the Service, the Secrets and the claim of the repository, and the beginning of the names of the pods.
func (m *move) name() string { return "liqo-move-" + m.id() }

func (m *move) meta(namespace, role string) metav1.ObjectMeta {
	out := metav1.ObjectMeta{Namespace: namespace, Name: m.name(), Labels: map[string]string{LabelMove: m.id()}}
	if role != "" {
		out.Name += "-" + role
		out.Labels[labelRole] = role
	}
	return out
}

// held returns the claim that replaces the old one: it waits for its data, and its backing claim is created for the target node.
func (m *move) held() *corev1.PersistentVolumeClaim {
	out := m.restored()
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, storage.AnnotationSelectedNode, m.record.Node)
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, storage.AnnotationMove, m.source.Name)
	return out
}

// restored returns the claim as the user created it.
func (m *move) restored() *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: m.Namespace, Name: m.Name, Labels: maps.Clone(m.record.Labels), Annotations: maps.Clone(m.record.Annotations),
			OwnerReferences: slices.Clone(m.record.Owners),
		},
		Spec: *m.record.Spec.DeepCopy(),
	}
}

// end is a pod's way to a backing claim: the claim is mounted in the storage namespace of this cluster, or in the provider under the name of the virtual
// claim. The scheduler does not know the claim of the provider, so the pod names its node.
type end struct {
	namespace, claim, node string
	address                string
}

// sourceEnd is the end with the old data. The node is empty if the provider has no node any more.
func (m *move) sourceEnd() (end, bool) {
	provider := providerOf(m.source)
	if provider == "" {
		return m.localEnd(m.id()), true
	}
	node := m.nodeOf(provider)
	if node == nil {
		return end{}, false
	}
	return m.remoteEnd(node.Name), true
}

// targetEnd is the end with the new data.
func (m *move) targetEnd(target *corev1.Node, claim *corev1.PersistentVolumeClaim) end {
	if storage.ProviderOf(target) == "" {
		return m.localEnd(string(claim.UID))
	}
	return m.remoteEnd(target.Name)
}

// A Service of another namespace has a longer name. Remote namespaces have another name, but also a copy of the Service.
func (m *move) localEnd(claim string) end {
	return end{namespace: m.StorageNamespace, claim: claim, address: fmt.Sprintf("%s.%s.svc", m.name(), m.Namespace)}
}

func (m *move) remoteEnd(node string) end {
	return end{namespace: m.Namespace, claim: m.Name, node: node, address: m.name()}
}

func (m *move) secret(namespace string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: m.meta(namespace, ""), Data: maps.Clone(m.Credentials)}
}

func (m *move) service() *corev1.Service {
	return &corev1.Service{ObjectMeta: m.meta(m.Namespace, ""), Spec: corev1.ServiceSpec{
		Selector: map[string]string{LabelMove: m.id(), labelRole: store}, Ports: []corev1.ServicePort{{Name: "http", Port: Port}},
	}}
}

// repository returns the claim of the store. Its class is one of Liqo, so that it is in the same cluster as the store.
func (m *move) repository() *corev1.PersistentVolumeClaim {
	size := m.source.Spec.Capacity[corev1.ResourceStorage]
	bytes := size.Value() + size.Value()/100*overheadPercent + overheadBytes
	class := m.disposableClass()
	out := &corev1.PersistentVolumeClaim{ObjectMeta: m.meta(m.Namespace, ""), Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceStorage: *resource.NewQuantity(bytes, resource.BinarySI),
		}},
	}}
	if remote := m.record.Annotations[api.AnnotationRemoteStorageClass]; remote != "" {
		metav1.SetMetaDataAnnotation(&out.ObjectMeta, api.AnnotationRemoteStorageClass, remote)
	}
	return out
}

// disposableClass returns a class of Liqo whose volumes end with their claims: that of the data if it is one, and that of the data too if there is none.
func (m *move) disposableClass() string {
	found, own := "", className(&m.record.Spec)
	for i := range m.Classes {
		class := &m.Classes[i]
		retains := class.ReclaimPolicy != nil && *class.ReclaimPolicy == corev1.PersistentVolumeReclaimRetain
		waits := class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
		if class.Provisioner == storage.Provisioner && !retains && waits && (found == "" || class.Name == own) {
			found = class.Name
		}
	}
	if found == "" {
		return own
	}
	return found
}

// pod returns what all pods of a move have in common. Only root can read all files, and give them their owners.
func (m *move) pod(namespace, role string, command ...string) *corev1.Pod {
	root, no, yes := int64(0), false, true
	return &corev1.Pod{ObjectMeta: m.meta(namespace, role), Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyOnFailure, AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
		Containers: []corev1.Container{{
			Name: container, Image: m.Image, ImagePullPolicy: corev1.PullIfNotPresent, Command: command, Resources: m.Resources,
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			SecurityContext:          &corev1.SecurityContext{RunAsUser: &root, RunAsNonRoot: &no, ReadOnlyRootFilesystem: &yes},
		}},
	}}
}

// onVirtualNode lets a pod run on a virtual node. Other pods of a move must not: their volumes need not say in which cluster they are.
func onVirtualNode(pod *corev1.Pod) {
	pod.Spec.Tolerations = []corev1.Toleration{{Key: api.TaintVirtualNode, Operator: corev1.TolerationOpExists}}
}

// storePod serves the repository on the target node, so that the data crosses the network between the clusters once.
func (m *move) storePod() *corev1.Pod {
	out := m.pod(m.Namespace, store, "/rest-server", "--path", repositoryPath, "--listen", fmt.Sprint(":", Port),
		"--htpasswd-file", credentialsPath+"/"+KeyHTPasswd)
	out.Spec.RestartPolicy = corev1.RestartPolicyAlways
	if node := m.node(m.record.Node); node != nil && storage.ProviderOf(node) != "" {
		onVirtualNode(out)
	}
	out.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{m.record.Node}},
		}}},
	}}}
	out.Spec.Volumes = []corev1.Volume{claimVolume("repository", m.name()), {Name: "credentials", VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: m.name()},
	}}}
	c := &out.Spec.Containers[0]
	c.VolumeMounts = []corev1.VolumeMount{
		{Name: "repository", MountPath: repositoryPath}, {Name: "credentials", MountPath: credentialsPath, ReadOnly: true},
	}
	c.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: Port}}
	c.ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(Port)}}}
	return out
}

// moverPod returns the sender or the receiver, which writes to a claim with the UID target.
func (m *move) moverPod(role string, at end, target types.UID) *corev1.Pod {
	program := map[string]string{sender: "send", receiver: "receive"}[role]
	path, block := dataPath, modeOf(m.record.Spec.VolumeMode) == corev1.PersistentVolumeBlock
	if block {
		path = devicePath
	}
	out := m.pod(at.namespace, role, "/volume-mover", program, path)
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, annotationTarget, string(target))
	if out.Spec.NodeName = at.node; at.node != "" {
		onVirtualNode(out)
	}
	// restic keeps the parts that it uploads in temporary files.
	out.Spec.Volumes = []corev1.Volume{claimVolume("data", at.claim), {Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	c := &out.Spec.Containers[0]
	c.VolumeMounts = []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}}
	if block {
		c.VolumeDevices = []corev1.VolumeDevice{{Name: "data", DevicePath: devicePath}}
	} else {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "data", MountPath: dataPath, ReadOnly: role == sender})
	}
	c.Env = []corev1.EnvVar{{Name: "RESTIC_REPOSITORY", Value: fmt.Sprintf("rest:http://%s:%d/", at.address, Port)}}
	// Each key by its name: further ones could be settings of restic that run commands, from a Secret that a user of the namespace wrote.
	for _, key := range []string{KeyPassword, KeyUser, KeyUserPassword} {
		c.Env = append(c.Env, corev1.EnvVar{Name: key, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: m.name()}, Key: key,
		}}})
	}
	return out
}

// className returns the class of a claim, empty for none.
func className(spec *corev1.PersistentVolumeClaimSpec) string {
	if spec.StorageClassName == nil {
		return ""
	}
	return *spec.StorageClassName
}

// modeOf returns a volume mode; nil means a file system.
func modeOf(mode *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	if mode == nil {
		return corev1.PersistentVolumeFilesystem
	}
	return *mode
}

func claimVolume(name, claim string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}
}

// resultOf reads what a pod that succeeded reports.
func resultOf(pod *corev1.Pod) (*Result, error) {
	for _, status := range pod.Status.ContainerStatuses {
		if ended := status.State.Terminated; ended != nil {
			out := &Result{}
			if err := json.Unmarshal([]byte(ended.Message), out); err != nil || out.Checksum == "" {
				return nil, fmt.Errorf("pod %s in namespace %s reports %q, which is no checksum: is image %s the one of this version?",
					pod.Name, pod.Namespace, ended.Message, pod.Spec.Containers[0].Image)
			}
			return out, nil
		}
	}
	return nil, nil
}
