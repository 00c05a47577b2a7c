package fakekubelet

import (
	"fmt"
	"maps"
	"net/netip"
	"runtime"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// nodeNetwork contains the node addresses. RFC 2544 reserves this range for benchmarks.
var nodeNetwork = netip.MustParsePrefix("198.18.0.0/15")

// maxNodes is the highest number of nodes: the number of addresses in nodeNetwork, rounded down.
const maxNodes = 100_000

func nodeName(prefix string, index int) string { return fmt.Sprintf("%s-%d", prefix, index) }

// nodeAddress returns the address of a node. It is not reachable.
func nodeAddress(index int) netip.Addr {
	first := nodeNetwork.Addr().As4()
	number := index + 1
	return netip.AddrFrom4([4]byte{first[0], first[1] + byte(number>>16), byte(number >> 8), byte(number)})
}

// nodeOf returns the Node object that a kubelet would register.
func nodeOf(config Config, version string, index int, now time.Time) *corev1.Node {
	name := nodeName(config.NamePrefix, index)
	labels := map[string]string{
		corev1.LabelHostname:   name,
		corev1.LabelOSStable:   "linux",
		corev1.LabelArchStable: runtime.GOARCH,
		NodeLabel:              config.NamePrefix,
	}
	maps.Copy(labels, config.Labels)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.NodeSpec{Taints: config.Taints},
		Status:     nodeStatus(config, version, index, corev1.NodeStatus{}, now),
	}
}

// nodeStatus returns the status of a healthy node. Correct conditions keep their timestamps. Conditions that a kubelet does not set
// stay unchanged.
func nodeStatus(config Config, version string, index int, before corev1.NodeStatus, now time.Time) corev1.NodeStatus {
	status := *before.DeepCopy()
	status.Capacity = corev1.ResourceList{
		corev1.ResourceCPU:              config.CPU,
		corev1.ResourceMemory:           config.Memory,
		corev1.ResourcePods:             *resource.NewQuantity(int64(config.Pods), resource.DecimalSI),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
	}
	status.Allocatable = status.Capacity.DeepCopy()
	status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: nodeAddress(index).String()},
		{Type: corev1.NodeHostName, Address: nodeName(config.NamePrefix, index)},
	}
	status.DaemonEndpoints.KubeletEndpoint.Port = 10250
	status.NodeInfo = corev1.NodeSystemInfo{
		MachineID:               fmt.Sprintf("fake-%s-%d", config.NamePrefix, index),
		SystemUUID:              fmt.Sprintf("fake-%s-%d", config.NamePrefix, index),
		BootID:                  fmt.Sprintf("fake-%s-%d", config.NamePrefix, index),
		KernelVersion:           "fake",
		OSImage:                 "fake",
		ContainerRuntimeVersion: "fake://1",
		KubeletVersion:          version,
		OperatingSystem:         "linux",
		Architecture:            runtime.GOARCH,
	}
	stamp := metav1.NewTime(now.Truncate(time.Second))
	for _, want := range []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available"},
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"},
	} {
		want.LastHeartbeatTime, want.LastTransitionTime = stamp, stamp
		found := false
		for i := range status.Conditions {
			if have := &status.Conditions[i]; have.Type == want.Type {
				found = true
				if have.Status != want.Status || have.Reason != want.Reason {
					*have = want
				}
			}
		}
		if !found {
			status.Conditions = append(status.Conditions, want)
		}
	}
	return status
}

// leaseSeconds is the lease duration in seconds, the same as for a real kubelet.
const leaseSeconds = 40

// leaseOf returns the Lease of a node. Its owner is the node, so it is garbage-collected with the node.
func leaseOf(node *corev1.Node, now time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:      node.Name,
			Namespace: corev1.NamespaceNodeLease,
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
			},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       ptr.To(node.Name),
			LeaseDurationSeconds: ptr.To(int32(leaseSeconds)),
			RenewTime:            ptr.To(metav1.NewMicroTime(now)),
		},
	}
}
