package cli

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/cli/handshake"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/test/clitest"
	"liqo.io/liqo/test/clitest/fakecluster"
)

// clientCertificate returns a certificate of a user with this name, in PEM.
func clientCertificate(t *testing.T, user string) []byte {
	t.Helper()
	return selfSigned(t, user, time.Time{}, time.Now().Add(time.Hour))
}

// TestInBandNeedsAnAdministrator: a peering user never gets the permissions for --in-band, so the command ends before it changes anything. It names
// the permissions and both alternatives.
func TestInBandNeedsAnAdministrator(t *testing.T) {
	for name, row := range map[string]struct {
		user   string
		auth   handshake.Flags
		refuse bool
	}{
		"a peering user":                        {peering.PeeringUserPrefix + "rome-00", handshake.Flags{}, false},
		"a peering user, in-band":               {peering.PeeringUserPrefix + "rome-00", handshake.Flags{InBand: true}, true},
		"a peering user, in-band and an invite": {peering.PeeringUserPrefix + "rome-00", handshake.Flags{InBand: true, Invite: true}, true},
		"an administrator, in-band":             {"ada", handshake.Flags{InBand: true, Invite: true}, false},
	} {
		p := &session.Pair{Local: fakecluster.New("rome"), Remote: fakecluster.New("milan")}
		p.Remote.Namespace = "liqo"
		p.Remote.Config = &rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: clientCertificate(t, row.user)}}
		err := checkNetworkRights(p, &peerOptions{auth: row.auth})
		if (err != nil) != row.refuse {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range []string{
			"peering user", "create gateways and Secrets in the tenant namespace", "in namespace liqo", "an administrator of milan", "leave --in-band out",
		} {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
		if row.refuse { // it is the first thing that the command does: the fake clusters hold nothing, and p.peer would fail otherwise with another error
			if got := peerPair(t.Context(), p, &peerOptions{auth: row.auth}, nil); got == nil || got.Error() != err.Error() {
				t.Errorf("%s: the command ends with %v, want %v", name, got, err)
			}
		}
	}
}

// TestPeeringUserConnects: with the kubeconfig of a peering user, network connect has the control planes connect the networks, by a NetworkRequest. Without the
// Identity that they need for that, the command says how to get it. network disconnect withdraws the request.
func TestPeeringUserConnects(t *testing.T) {
	w := peeringUserWorld(t)
	const request = "networking.liqo.io/v1beta1/networkrequests liqo-tenant-milan/milan"
	installed, prepared, enrolled, connected := w.stages(t)
	for _, step := range []struct {
		at      worldSnapshot
		command string
		code    int
		says    string
		asked   bool
	}{
		{installed, "network connect", 1, "peer with it first", false},
		{prepared, "network connect", 1, "Identity controlplane-milan in namespace liqo-tenant-milan, which they need, does not exist: run liqoctl peer, or liqoctl authenticate before", false},
		{enrolled, "network connect", 0, "NetworkRequest milan correctly ensured", true},
		{enrolled, "network connect --gw-server-service-type NodePort", 0, "--gw-server-service-type has no effect", true},
		{connected, "network disconnect --skip-confirm", 0, "", false},
	} {
		ran := w.in(t, step.at, step.command+asPeeringUser, nil)
		if ran.code != step.code || !strings.Contains(ran.out+ran.said, step.says) {
			t.Errorf("%s: code %d, want %d, with %q: %s%s", step.command, ran.code, step.code, step.says, ran.out, ran.said)
		}
		if asked := ran.left.object(request) != nil; asked != step.asked {
			t.Errorf("%s: milan is asked for a network: %t, want %t", step.command, asked, step.asked)
		}
		for key := range ran.left["milan"].objects {
			if strings.Contains(key, "/gatewayservers ") {
				t.Errorf("%s: the peering user created %s", step.command, key)
			}
		}
	}
}

// asPeeringUser are the kubeconfigs of an administrator of rome who is a peering user of milan.
const asPeeringUser = " --kubeconfig %rome --remote-kubeconfig %user"

// peeringUserWorld returns two clusters with Liqo and, in the file "user", the kubeconfig of a peering user of milan.
func peeringUserWorld(t *testing.T) *world {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	w := installedWorld(t)
	config, err := clientcmd.LoadFromFile(filepath.Join(w.dir, "milan"))
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.ClientCertificateData, user.ClientKeyData = clientCertificate(t, peering.PeeringUserPrefix+"rome-00"), []byte("key")
	}
	if err := clientcmd.WriteToFile(*config, filepath.Join(w.dir, "user")); err != nil {
		t.Fatal(err)
	}
	return w
}

// stages returns the states after the installation, with a tenant namespace in rome, with an Identity, and with a network that a NetworkRequest has created.
func (w *world) stages(t *testing.T) (installed, prepared, enrolled, connected worldSnapshot) {
	t.Helper()
	installed = w.snapshot()
	clitest.Create(t, w.clusters["rome"].client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: api.TenantNamespace("milan"), Labels: map[string]string{api.LabelTenantNamespace: api.True, api.LabelRemoteClusterID: "milan"},
	}})
	prepared = w.snapshot()
	enrolled = w.in(t, installed, "authenticate"+asPeeringUser, nil).left
	connected = w.in(t, enrolled, "network connect"+asPeeringUser, nil).left
	return installed, prepared, enrolled, connected
}

// TestRequestedNetworksAreWithdrawn: where a NetworkRequest has created the network, as in a peering by token, its commands with the kubeconfig of an administrator
// delete the NetworkRequest, too. The controllers would create the network again.
func TestRequestedNetworksAreWithdrawn(t *testing.T) {
	w := peeringUserWorld(t)
	_, _, _, connected := w.stages(t)
	const request = "networking.liqo.io/v1beta1/networkrequests liqo-tenant-milan/milan"
	if connected.object(request) == nil {
		t.Fatal("the network was not requested")
	}
	for _, command := range []string{"unpeer", "network disconnect", "network reset"} {
		ran := w.in(t, connected, command+" --skip-confirm --kubeconfig %rome --remote-kubeconfig %milan", nil)
		if ran.code != 0 || ran.left.object(request) != nil {
			t.Errorf("%s: code %d, the NetworkRequest is left: %t: %s%s", command, ran.code, ran.left.object(request) != nil, ran.out, ran.said)
		}
	}
}
