package main

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// kubelet simulates the registration service of a kubelet.
type kubelet struct {
	api.UnimplementedRegistrationServer
	registered chan *api.RegisterRequest
	// restarts is closed by the first registration. The response to that registration is lost.
	restarts chan struct{}
}

func (k kubelet) Register(_ context.Context, request *api.RegisterRequest) (*api.Empty, error) {
	select {
	case <-k.restarts:
	default:
		close(k.restarts)
		return nil, status.Error(codes.Unavailable, "the connection is closed")
	}
	k.registered <- request
	return &api.Empty{}, nil
}

// TestPlugin: a kubelet receives the list of devices and allocates one. After a restart of the kubelet, which removes the sockets, it receives the list again,
// also if it restarts during a registration.
func TestPlugin(t *testing.T) {
	folder, err := os.MkdirTemp("", "plugin") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	k := kubelet{registered: make(chan *api.RegisterRequest, 2), restarts: make(chan struct{})}
	start := func() *grpc.Server {
		listener, err := net.Listen("unix", filepath.Join(folder, "kubelet.sock"))
		if err != nil {
			t.Fatal(err)
		}
		server := grpc.NewServer()
		api.RegisterRegistrationServer(server, k)
		go func() { _ = server.Serve(listener) }()
		return server
	}
	server := start()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- plugin{resource: "nvidia.com/gpu", count: 2, folder: folder, variable: "GPUS", log: slog.New(slog.DiscardHandler)}.run(ctx)
	}()
	observe := func() {
		t.Helper()
		var request *api.RegisterRequest
		select {
		case request = <-k.registered:
		case <-time.After(20 * time.Second):
			t.Fatal("the plugin does not register")
		}
		if request.ResourceName != "nvidia.com/gpu" || request.Version != "v1beta1" {
			t.Errorf("registered %v", request)
		}
		conn, err := grpc.NewClient("unix://"+filepath.Join(folder, request.Endpoint), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		client := api.NewDevicePluginClient(conn)
		stream, err := client.ListAndWatch(t.Context(), &api.Empty{})
		if err != nil {
			t.Fatal(err)
		}
		list, err := stream.Recv()
		if err != nil || len(list.Devices) != 2 || list.Devices[1].ID != "make-believe-1" || list.Devices[1].Health != "Healthy" {
			t.Errorf("devices %v, error %v", list, err)
		}
		given, err := client.Allocate(t.Context(), &api.AllocateRequest{ContainerRequests: []*api.ContainerAllocateRequest{
			{DevicesIds: []string{"make-believe-1"}}, {DevicesIds: []string{"make-believe-0"}},
		}})
		if err != nil || len(given.ContainerResponses) != 2 || given.ContainerResponses[0].Envs["GPUS"] != "make-believe-1" {
			t.Errorf("allocated %v, error %v", given, err)
		}
	}
	observe()
	server.GracefulStop() // the answer to the registration arrives
	if err := os.Remove(filepath.Join(folder, "nvidia.com-gpu.sock")); err != nil {
		t.Fatal(err)
	}
	server = start()
	defer server.Stop()
	observe()
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the plugin does not end")
	}
}
