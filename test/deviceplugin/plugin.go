package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// checkPeriod is the time between two checks whether the kubelet has restarted. A kubelet that starts removes the sockets of all plugins.
const checkPeriod = time.Second

// plugin offers devices of one resource.
type plugin struct {
	api.UnimplementedDevicePluginServer

	resource, folder, variable string
	count                      int
	log                        *slog.Logger
}

// run serves the plugin until ctx ends. It registers again after each restart of the kubelet.
func (p plugin) run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := p.serve(ctx); err != nil {
			return err
		}
	}
	return nil
}

// serve registers with the kubelet and serves the plugin until ctx ends or the kubelet has restarted.
func (p plugin) serve(ctx context.Context) error {
	name := strings.ReplaceAll(p.resource, "/", "-") + ".sock"
	socket := filepath.Join(p.folder, name)
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the socket of an earlier process: %w", err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, p.until(ctx))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	defer server.Stop()
	if err := p.register(ctx, name); err != nil {
		if ctx.Err() != nil || status.Code(err) == codes.Unavailable { // the plugin ends, or the kubelet ended before it answered
			return nil
		}
		return err
	}
	p.log.Info("Registered with the kubelet", "resource", p.resource, "devices", p.count)
	check := time.NewTicker(checkPeriod)
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return fmt.Errorf("serving the plugin: %w", err)
		case <-check.C:
			if _, err := os.Stat(socket); errors.Is(err, fs.ErrNotExist) {
				return nil
			}
		}
	}
}

// register announces the plugin, as soon as the kubelet serves registrations.
func (p plugin) register(ctx context.Context, endpoint string) error {
	conn, err := grpc.NewClient("unix://"+filepath.Join(p.folder, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connecting to the kubelet: %w", err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	_, err = api.NewRegistrationClient(conn).Register(ctx, &api.RegisterRequest{
		Version: api.Version, Endpoint: endpoint, ResourceName: p.resource, Options: &api.DevicePluginOptions{},
	}, grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("registering %s with the kubelet: %w", p.resource, err)
	}
	return nil
}

// served is a plugin whose streams end with a context. Otherwise, open streams would delay the end of the server.
type served struct {
	plugin
	ctx context.Context
}

func (p plugin) until(ctx context.Context) served { return served{p, ctx} }

func (s served) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// ListAndWatch sends the list of devices once, because they never change.
func (s served) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	devices := make([]*api.Device, s.count)
	for i := range devices {
		devices[i] = &api.Device{ID: fmt.Sprintf("make-believe-%d", i), Health: api.Healthy}
	}
	if err := stream.Send(&api.ListAndWatchResponse{Devices: devices}); err != nil {
		return err
	}
	select {
	case <-stream.Context().Done():
	case <-s.ctx.Done():
	}
	return nil
}

func (s served) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		response.ContainerResponses = append(response.ContainerResponses, &api.ContainerAllocateResponse{
			Envs: map[string]string{s.variable: strings.Join(container.DevicesIds, ",")},
		})
	}
	return response, nil
}
