package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/test/clitest"
)

// TestForceUnpeerOnAPIServer: all objects of a peering are deleted without contacting the other cluster, and the command waits for the deletion if
// asked.
func TestForceUnpeerOnAPIServer(t *testing.T) {
	t.Parallel()
	kubeconfig, c := server(t)
	clitest.Create(t, c, peeringObjects()...)
	peer := metav1.ObjectMeta{Namespace: "any-name", Name: "milan", Labels: map[string]string{api.LabelRemoteClusterID: "milan"}}
	clitest.Create(t, c,
		&offloadingv1beta1.VirtualNode{ObjectMeta: peer, Spec: offloadingv1beta1.VirtualNodeSpec{ClusterID: "milan"}},
		&authv1beta1.Tenant{ObjectMeta: peer, Spec: authv1beta1.TenantSpec{ClusterID: "milan"}},
		&offloadingv1beta1.NamespaceMap{ObjectMeta: peer, Spec: offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"shop": "shop-rome"}}},
		clitest.VolumeOf("1", "shop", "data", "milan"), clitest.VolumeOf("2", "shop", "other", "turin"),
	)
	liqoctl := func(command string) (int, string) {
		code, _, errOut := run(t, append(strings.Fields(command), "--kubeconfig", kubeconfig)...)
		return code, errOut
	}
	refused := func(command, want string) {
		t.Helper()
		if code, said := liqoctl(command); code != 1 || !strings.Contains(said, want) {
			t.Errorf("%s: code %d, %s, want %q", command, code, said, want)
		}
	}
	refused("force", "force needs a subcommand")
	refused("force unpeer", "name the cluster that is gone for good (known: ")
	refused("force unpeer rome", "rome is the local cluster itself")
	refused("force unpeer turin", "there is no peering with cluster turin, nor a record of one: liqoctl info lists the peers")
	refused("force unpeer milan", "Nothing is removed in cluster milan. [y/N]")
	refused("force unpeer milan", "not confirmed: nothing was changed")
	refused("force unpeer milan", "This command abandons the data of these volumes, even if cluster milan still has it:")
	refused("force unpeer milan", "- PersistentVolumeClaim data in namespace shop has a volume of Liqo, 1Gi in cluster milan\n")

	// Nobody ends namespaces here: the wait for that is over at last, and says so.
	refused("force unpeer milan --skip-confirm --timeout 2s", "waiting for Namespace any-name to be gone: timed out (--timeout)")
	foreign := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil || foreign.Annotations[peering.AnnotationUnreachable] != api.True {
		t.Errorf("who waits for milan is not told that it is gone: %v, %v", foreign.Annotations, err)
	}
	for _, list := range []client.ObjectList{&authv1beta1.ResourceSliceList{}, &offloadingv1beta1.VirtualNodeList{}, &authv1beta1.TenantList{}} {
		if err := c.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		if left, err := kube.Items(list); err != nil || len(left) > 0 {
			t.Errorf("left of the peering: %v, %v", left, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "any-name"}}
		err := c.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
		if err == nil {
			namespace.Spec.Finalizers = nil
			err = c.SubResource("finalize").Update(ctx, namespace)
		}
		ended <- err
	}()
	if code, said := liqoctl("force unpeer milan --skip-confirm"); code != 0 || !strings.Contains(said, "Cluster milan is forgotten") {
		t.Errorf("code %d: %s", code, said)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil || len(foreign.Annotations) > 0 {
		t.Errorf("a cluster of that name can't be peered with: %v, %v", foreign.Annotations, err)
	}
}

// TestForceUnpeerWarns: the command warns if the other cluster responds, because unpeer is better then.
func TestForceUnpeerWarns(t *testing.T) {
	foreign := &corev1beta1.ForeignCluster{}
	foreign.Status.Conditions = []corev1beta1.Condition{{Type: corev1beta1.APIServerStatus, Status: corev1beta1.StatusEstablished}}
	if question := giveUpQuestion("milan", foreign); !strings.Contains(question, "Cluster milan is reachable, so liqoctl unpeer would also remove") {
		t.Error(question)
	}
}

// TestUnpeerNamesForceUnpeer: unpeer names force unpeer if the other cluster is unreachable, and after no other error.
func TestUnpeerNamesForceUnpeer(t *testing.T) {
	dial := fmt.Errorf("reaching milan: %w", &net.OpError{Op: "dial", Err: errors.New("refused")})
	if said := orForce(dial).Error(); !strings.HasSuffix(said, "run on the other one: liqoctl force unpeer ID, with the ID of the lost cluster") {
		t.Error(said)
	}
	if other := errors.New("forbidden"); !errors.Is(orForce(other), other) || orForce(other).Error() != "forbidden" {
		t.Error(orForce(other))
	}
}
