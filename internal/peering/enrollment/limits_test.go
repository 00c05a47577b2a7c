package enrollment

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/internal/kube"
)

// TestClientsWithoutATokenDoNotShutOutOthers: a few sources keep as many connections open as they can, and many sources open one after the other.
// None of them shows a token. A connection of another source is still accepted.
func TestClientsWithoutATokenDoNotShutOutOthers(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).Build()
	d := New(Options{ClusterID: "milan", Namespace: "liqo", Client: c, Reader: c, Log: logr.Discard()})
	ended := make(chan error)
	go func() { ended <- d.Serve(ctx, listener) }()
	defer func() {
		cancel()
		<-ended
	}()
	dial := func(source string) net.Conn {
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}).DialContext(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	// accepted reports whether the service agrees on TLS with the client, and does not close the connection.
	accepted := func(conn net.Conn) bool {
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		err := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(t.Context()) //nolint:gosec // only whether it responds counts
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			t.Fatal(err)
		}
		return err == nil
	}
	for i := range 5 {
		for range 70 {
			defer dial(fmt.Sprintf("127.0.1.%d", i+1)).Close()
		}
	}
	last := dial("127.0.1.1")
	if accepted(last) {
		t.Error("one source has more than 70 connections")
	}
	last.Close()
	consumer := dial("127.0.2.1")
	if !accepted(consumer) {
		t.Error("five sources that keep their connections open shut out another one")
	}
	consumer.Close()
	for i := range 60 {
		for range 10 {
			dial(fmt.Sprintf("127.0.3.%d", i+1)).Close()
		}
	}
	consumer = dial("127.0.2.2")
	if !accepted(consumer) {
		t.Error("sixty sources that open connections shut out another one")
	}
	consumer.Close()
}
