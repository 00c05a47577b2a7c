// Command deviceplugin offers simulated devices to a kubelet, through the kubelet's device plugin API. It runs as a pod of a DaemonSet, with the
// folder of the kubelet's sockets mounted.
//
//	deviceplugin [-resource nvidia.com/gpu] [-count 1] [-folder /var/lib/kubelet/device-plugins] [-variable NVIDIA_VISIBLE_DEVICES]
//
// A container that requests a device gets the ID of the device in the environment variable.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	p := plugin{log: slog.Default()}
	flag.StringVar(&p.resource, "resource", "nvidia.com/gpu", "name of the extended resource")
	flag.IntVar(&p.count, "count", 1, "number of devices")
	flag.StringVar(&p.folder, "folder", "/var/lib/kubelet/device-plugins", "folder of the kubelet's sockets")
	flag.StringVar(&p.variable, "variable", "NVIDIA_VISIBLE_DEVICES", "environment variable that names the devices of a container")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := p.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
