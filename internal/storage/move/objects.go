package move

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/storage"
)

// Labels of all objects that a move creates for its duration.
const (
	// LabelMove is the UID in the name of the volume with the old data.
	LabelMove = "storage.liqo.io/move"
	labelRole = "storage.liqo.io/move-role"
)

// annotationTarget, on a pod that copies data, is the UID of the claim that it writes to. The result of a pod is not valid for another claim.
const annotationTarget = "storage.liqo.io/move-target"

// annotationImage, on each pod of a move, is the image that the command asked for. An admission webhook may have written another one to the container.
const annotationImage = "storage.liqo.io/move-image"

// annotationSender, on the receiver, is the UID of the sender. The receiver reads only the copy of that sender.
const annotationSender = "storage.liqo.io/move-sender"

// The pods of a move. The sender copies the old data to the repository in the store. The receiver copies it from there to the new volume.
const (
	store    = "store"
	sender   = "sender"
	receiver = "receiver"
)

// Names inside the pods. Package mover and the image of these pods use them too.
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

// Keys of the Secret, which are environment variables of restic. They hold the password of the repository and the account in the store.
const (
	KeyPassword     = "RESTIC_PASSWORD"
	KeyUser         = "RESTIC_REST_USERNAME"
	KeyUserPassword = "RESTIC_REST_PASSWORD"
)

// The volume of the restic repository is larger than the old volume, because it also has indexes. Even the repository of a small volume has an index.
const (
	overheadPercent = 10
	overheadBytes   = 128 << 20
)

// Container is the name of the container in each pod of a move. moverProgram is the program that copies data.
const (
	Container    = "mover"
	moverProgram = "/volume-mover"
)

// maxRestarts is the number of failures of a container after which the command ends with an error.
const maxRestarts = 4

// move is a move that has begun.
type move struct {
	*State
	source *corev1.PersistentVolume
	record *Record
}

// id returns the value of LabelMove.
func (m *move) id() string { return string(storage.VolumeUID(m.source)) }

// name returns the name of the Service, the Secrets and the repository's claim. It is also the prefix of the names of the pods.
func (m *move) name() string { return nameOf(m.id()) }

func nameOf(id string) string { return "liqo-move-" + id }

func (m *move) meta(namespace, role string) metav1.ObjectMeta {
	out := metav1.ObjectMeta{Namespace: namespace, Name: m.name(), Labels: map[string]string{LabelMove: m.id()}}
	if role != "" {
		out.Name += "-" + role
		out.Labels[labelRole] = role
	}
	return out
}

// held returns the claim that replaces the old one. It waits for its data, and requests a backing claim for the target node, unless the new volume exists
// already. It does not name that volume, because Kubernetes binds the claim sooner if only the claimRef of the volume names the claim.
func (m *move) held() *corev1.PersistentVolumeClaim {
	out := m.original()
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, storage.AnnotationMove, m.source.Name)
	m.selectNode(&out.ObjectMeta)
	return out
}

// selectNode requests a volume on the target node for the claim, at least as large as the old one, unless the new volume exists already.
func (m *move) selectNode(claim *metav1.ObjectMeta) {
	if m.ahead() {
		return
	}
	metav1.SetMetaDataAnnotation(claim, storage.AnnotationSelectedNode, m.record.Node)
	m.size(claim)
}

// size requests a volume that is at least as large as the old one.
func (m *move) size(claim *metav1.ObjectMeta) {
	if m.record.Capacity != "" {
		metav1.SetMetaDataAnnotation(claim, storage.AnnotationCapacity, m.record.Capacity)
	}
}

// original returns the claim as the user created it.
func (m *move) original() *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: m.Namespace, Name: m.Name, Labels: maps.Clone(m.record.Labels), Annotations: maps.Clone(m.record.Annotations),
			OwnerReferences: slices.Clone(m.record.Owners),
		},
		Spec: *m.record.Spec.DeepCopy(),
	}
}

// end says where a pod mounts a backing claim. In this cluster, that is the storage namespace. In a provider, the pod mounts the backing claim under the name
// of the virtual claim. The scheduler does not know that claim, so the pod names its node.
type end struct {
	namespace, claim, node string
	address                string
	// remote, if not empty, is the claim that the pod mounts in the provider instead of claim: see api.AnnotationRemoteClaim.
	remote string
}

// sourceEnd is the end with the old data. It returns false if the provider has no virtual node any more.
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

// targetEnd is the end that receives the data.
func (m *move) targetEnd(target *corev1.Node) end {
	if storage.ProviderOf(target) == "" {
		return m.localEnd(string(m.copyUID()))
	}
	return m.remoteEnd(target.Name)
}

// The pod is in another namespace than the Service, so the address includes the namespace of the Service. In remoteEnd the short name is enough, because Liqo
// copies the Service to the remote namespace, which may have another name.
func (m *move) localEnd(claim string) end {
	return end{namespace: m.StorageNamespace, claim: claim, address: fmt.Sprintf("%s.%s.svc", m.name(), m.Namespace)}
}

func (m *move) remoteEnd(node string) end {
	out := end{namespace: m.Namespace, claim: m.Name, node: node, address: m.name()}
	if m.ahead() { // these pods run while the claim is replaced, and must not prevent its deletion
		out.claim, out.remote = m.name()+"-data", m.Name
	}
	return out
}

func (m *move) secret(namespace string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: m.forEnds(m.meta(namespace, "")), Data: maps.Clone(m.Credentials)}
}

// forEnds limits the reflection of an object to the providers that have the old or the new data. The keys and the address of the store are for the pods of the move,
// not for other providers of the namespace.
func (m *move) forEnds(meta metav1.ObjectMeta) metav1.ObjectMeta {
	ends := slices.DeleteFunc([]string{providerOf(m.source), m.record.Provider}, func(id string) bool { return id == "" })
	slices.Sort(ends)
	metav1.SetMetaDataAnnotation(&meta, api.AnnotationReflectTo, strings.Join(slices.Compact(ends), ","))
	return meta
}

func (m *move) service() *corev1.Service {
	return &corev1.Service{ObjectMeta: m.forEnds(m.meta(m.Namespace, "")), Spec: corev1.ServiceSpec{
		Selector: map[string]string{LabelMove: m.id(), labelRole: store}, Ports: []corev1.ServicePort{{Name: "http", Port: Port}},
	}}
}

// repository returns the claim of the store. It has a class of Liqo, so that its data is in the cluster of the store.
func (m *move) repository() *corev1.PersistentVolumeClaim {
	size := m.source.Spec.Capacity[corev1.ResourceStorage]
	bytes := size.Value() + size.Value()/100*overheadPercent + overheadBytes
	bytes = (bytes + 1<<20 - 1) >> 20 << 20 // whole MiB, for messages
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

// disposableClass returns a class of Liqo with reclaim policy Delete. It prefers the class of the moved claim, and returns that class too if no class
// qualifies.
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

// These labels and annotations prevent Istio (which has both, in different versions), Linkerd, Kuma and Consul from adding a proxy to a pod. Such a proxy would
// keep running after the pod has copied everything, and would reject clients outside of the mesh.
var (
	withoutMeshLabels      = map[string]string{"sidecar.istio.io/inject": "false", "kuma.io/sidecar-injection": "disabled"}
	withoutMeshAnnotations = map[string]string{
		"sidecar.istio.io/inject": "false", "linkerd.io/inject": "disabled", "kuma.io/sidecar-injection": "disabled", "consul.hashicorp.com/connect-inject": "false",
	}
)

// capabilities are those by which root reads all files and restores their owners, modes and file capabilities. The pod creates no devices: the content of a volume
// is from another cluster.
var capabilities = corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETFCAP"}}

// pod returns the common part of all pods of a move. It runs as root, because only root can read all files and set their owners. Otherwise the pod is as Pod
// Security level restricted requires it, so level baseline admits it.
func (m *move) pod(namespace, role string, command ...string) *corev1.Pod {
	root, no, yes := int64(0), false, true
	meta := m.meta(namespace, role)
	maps.Copy(meta.Labels, withoutMeshLabels)
	meta.Annotations = maps.Clone(withoutMeshAnnotations)
	meta.Annotations[annotationImage] = m.Image
	return &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyOnFailure, AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
		Containers: []corev1.Container{{
			Name: Container, Image: m.Image, ImagePullPolicy: corev1.PullIfNotPresent, Command: command, Resources: m.Resources,
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			SecurityContext: &corev1.SecurityContext{
				RunAsUser: &root, RunAsNonRoot: &no, ReadOnlyRootFilesystem: &yes, AllowPrivilegeEscalation: &no, Capabilities: capabilities.DeepCopy(),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
		}},
	}}
}

// outdated reports whether a pod waits for an image other than the one of this command. A pod that runs keeps its image.
func (m *move) outdated(pod *corev1.Pod) bool {
	return pod.Annotations[annotationImage] != m.Image && (pod.Status.Phase == corev1.PodPending || pod.Status.Phase == "")
}

// onVirtualNode permits a pod to run on a virtual node. Other pods of a move must not run there: if their volume has no node affinity, the scheduler does not
// know in which cluster it is.
func onVirtualNode(pod *corev1.Pod) {
	pod.Spec.Tolerations = []corev1.Toleration{{Key: api.TaintVirtualNode, Operator: corev1.TolerationOpExists}}
}

// onNode returns the affinity to one node.
func onNode(name string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{name}},
		}}},
	}}}
}

// storePod serves the repository on the target node, so that the data crosses the network between the clusters only once.
func (m *move) storePod() *corev1.Pod {
	out := m.pod(m.Namespace, store, "/rest-server", "--path", repositoryPath, "--listen", fmt.Sprint(":", Port),
		"--htpasswd-file", credentialsPath+"/"+KeyHTPasswd)
	out.Spec.RestartPolicy = corev1.RestartPolicyAlways
	if node := m.node(m.record.Node); node != nil && storage.ProviderOf(node) != "" {
		onVirtualNode(out)
	}
	out.Spec.Affinity = onNode(m.record.Node)
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

// programs are the commands of the pods that copy data, by role. livePrograms copy it again and again, until Finish.
var (
	programs     = map[string]string{sender: "send", receiver: "receive"}
	livePrograms = map[string]string{sender: "send-live", receiver: "receive-live"}
)

// moverPod returns the sender or the receiver. target is the UID of the claim that it writes to.
func (m *move) moverPod(role string, at end, target types.UID) *corev1.Pod {
	program := programs[role]
	path, block := dataPath, modeOf(m.record.Spec.VolumeMode) == corev1.PersistentVolumeBlock
	if block {
		path = devicePath
	}
	out := m.pod(at.namespace, role, moverProgram, program, path)
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, annotationTarget, string(target))
	if out.Spec.NodeName = at.node; at.node != "" {
		onVirtualNode(out)
	}
	if at.remote != "" {
		metav1.SetMetaDataAnnotation(&out.ObjectMeta, api.AnnotationRemoteClaim, at.claim+"="+at.remote)
	}
	// restic writes temporary files before it uploads them.
	out.Spec.Volumes = []corev1.Volume{claimVolume("data", at.claim), {Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	c := &out.Spec.Containers[0]
	c.VolumeMounts = []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}}
	if block {
		c.VolumeDevices = []corev1.VolumeDevice{{Name: "data", DevicePath: devicePath}}
	} else {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "data", MountPath: dataPath, ReadOnly: role == sender})
	}
	c.Env = []corev1.EnvVar{{Name: "RESTIC_REPOSITORY", Value: fmt.Sprintf("rest:http://%s:%d/", at.address, Port)}}
	// Each variable is named, because a user of the namespace could write the Secret. Other variables could be settings by which restic runs commands.
	for _, key := range []string{KeyPassword, KeyUser, KeyUserPassword} {
		c.Env = append(c.Env, corev1.EnvVar{Name: key, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: m.name()}, Key: key,
		}}})
	}
	return out
}

// className returns the class of a claim, empty if it has none.
func className(spec *corev1.PersistentVolumeClaimSpec) string {
	if spec.StorageClassName == nil {
		return ""
	}
	return *spec.StorageClassName
}

// modeOf returns the volume mode. nil means Filesystem.
func modeOf(mode *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	if mode == nil {
		return corev1.PersistentVolumeFilesystem
	}
	return *mode
}

func claimVolume(name, claim string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}
}

// annotationResult, on a live pod, is its result after Finish. The status of the pod has the result too, but some seconds later.
const annotationResult = "storage.liqo.io/move-result"

// maxReport is the maximum length of a result in bytes. It is the limit of Kubernetes for termination messages.
const maxReport = 4096

// Reported returns a live pod with its result in annotationResult.
func Reported(pod *corev1.Pod, report string) (*corev1.Pod, error) {
	if _, err := parseResult(pod, report); err != nil {
		return nil, err
	}
	out := pod.DeepCopy()
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, annotationResult, report)
	return out, nil
}

func parseResult(pod *corev1.Pod, report string) (*Result, error) {
	out := &Result{}
	if err := json.Unmarshal([]byte(report), out); err != nil || out.Checksum == "" || len(report) > maxReport {
		image := ""
		if c := moverOf(pod); c != nil {
			image = c.Image
		}
		return nil, fmt.Errorf("pod %s in namespace %s reports %q, which is no checksum: is image %s the one of this version?",
			pod.Name, pod.Namespace, report[:min(len(report), maxReport)], image)
	}
	return out, nil
}

// hasEnded reports whether a pod has copied everything. Containers that others added to the pod may still run.
func hasEnded(pod *corev1.Pod) bool {
	ended := terminated(pod)
	return pod.Status.Phase == corev1.PodSucceeded || ended != nil && ended.ExitCode == 0 || follows(pod) && pod.Annotations[annotationResult] != ""
}

// terminated returns the end of the container that copies data, nil if it has not ended.
func terminated(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	for i := range pod.Status.ContainerStatuses {
		if status := &pod.Status.ContainerStatuses[i]; status.Name == Container {
			return status.State.Terminated
		}
	}
	return nil
}

// resultOf returns the result of a pod that has copied everything. It is nil as long as the status of the pod has none.
func resultOf(pod *corev1.Pod) (*Result, error) {
	if report := pod.Annotations[annotationResult]; report != "" && follows(pod) {
		return parseResult(pod, report)
	}
	if ended := terminated(pod); ended != nil {
		return parseResult(pod, ended.Message)
	}
	return nil, nil
}
