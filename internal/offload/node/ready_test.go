package node

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/remote"
	"liqo.io/liqo/test/apitest"
)

// TestReadyWithItsOwnAddress: a Node with the address of an earlier pod does not lead clients to this process, so this process is not ready, whatever
// the conditions of the Node are.
func TestReadyWithItsOwnAddress(t *testing.T) {
	at := func(ip string, port int32, problem error) *corev1.Node {
		f := someFacts()
		f.ip, f.port, f.problem = ip, port, problem
		return desired(nil, f)
	}
	virtual := someFacts().virtual
	virtual.Namespace = "liqo-tenant-milan"
	for name, test := range map[string]struct {
		create  bool
		virtual *offloadingv1beta1.VirtualNode
		have    *corev1.Node
		missing string
	}{
		"nothing was read":           {true, nil, nil, "VirtualNode liqo-tenant-milan/milan was not read yet"},
		"no Node":                    {true, virtual, nil, "there is no Node milan yet"},
		"the address of another pod": {true, virtual, at("10.0.0.9", 10250, nil), "has address 10.0.0.9:10250 instead of the address of this pod, 10.0.0.1:10250"},
		"another port":               {true, virtual, at("10.0.0.1", 10251, nil), "10.0.0.1:10251"},
		"a real node":                {true, virtual, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}, "is not a virtual node"},
		"its own address":            {true, virtual, at("10.0.0.1", 10250, nil), ""},
		"an unreachable provider":    {true, virtual, at("10.0.0.1", 10250, context.DeadlineExceeded), ""},
		"no Node is asked for":       {false, virtual, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := New(Options{Name: "milan", Virtual: "milan", Namespace: "liqo-tenant-milan", IP: "10.0.0.1", Listen: ":10250", Create: test.create})
			if err != nil {
				t.Fatal(err)
			}
			if test.virtual != nil {
				n.virtuals.Wrote(test.virtual.DeepCopy())
			}
			if test.have != nil {
				n.nodes.Wrote(test.have)
			}
			err = n.Ready()
			if (err == nil) != (test.missing == "") || err != nil && !strings.Contains(err.Error(), test.missing) {
				t.Errorf("%v, want %q", err, test.missing)
			}
		})
	}
}

// TestReadyWhileTheKubeletAPIListens: not before, and not afterwards.
func TestReadyWhileTheKubeletAPIListens(t *testing.T) {
	reserved, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := reserved.Addr().String()
	reserved.Close()
	log := slog.New(slog.DiscardHandler)
	n, err := New(Options{Name: "milan", Listen: address, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := NewCertificate(n)
	if err != nil {
		t.Fatal(err)
	}
	certificate.take(certificate.current.Load())
	server, err := NewServer(remote.IdentityOf(&rest.Config{Host: "http://127.0.0.1:1"}), onePod{}, "milan", "Pod", StatsAge, log)
	if err != nil {
		t.Fatal(err)
	}
	if server.Ready() == nil {
		t.Error("ready before it listens")
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- server.Serve(ctx, address, NewAuthorizer(nil, "milan", clock.RealClock{}), certificate)
	}()
	apitest.Eventually(t, 10*time.Second, "the kubelet API to listen", server.Ready)
	connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Errorf("ready, and connections fail: %v", err)
	} else {
		connection.Close()
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if server.Ready() == nil {
		t.Error("ready although it has ended")
	}
}
