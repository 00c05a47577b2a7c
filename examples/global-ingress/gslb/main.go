// Command gslb is a global ingress controller for the example, with the annotations, the Gslb and the DNS names of k8gb, which is not available as a Go module.
// It supports the strategies roundRobin and failover.
//
// It reads the state of the cluster and of the other clusters at each interval, decides, and writes only what differs: the Gslbs, a zone file for CoreDNS in the
// same pod, and a DNSEndpoint from which ExternalDNS delegates the zone to CoreDNS.
package main

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		slog.Error("Stopping", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var s settings
	c := controller{}
	flag.StringVar(&s.GeoTag, "geo-tag", "", "name of this cluster in records")
	peers := flag.String("peers", "", "geo tags of the other clusters, separated by commas")
	flag.StringVar(&s.Zone, "zone", "cloud.example.com", "domain of the hosts")
	flag.StringVar(&s.EdgeZone, "edge-zone", "example.com", "domain of the edge DNS")
	flag.StringVar(&s.Namespace, "namespace", "k8gb", "namespace of the Service k8gb-coredns")
	flag.StringVar(&c.edge, "edge-dns", "", "IP address of the edge DNS")
	zones := flag.String("zones", "/zones", "folder of zone files that CoreDNS reads")
	interval := flag.Duration("interval", 2*time.Second, "time between two readings")
	flag.Parse()
	s.Peers = strings.FieldsFunc(*peers, func(r rune) bool { return r == ',' })
	c.settings, c.file = s, filepath.Join(*zones, "db."+s.Zone)

	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if c.objects, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	for {
		if err := c.reconcile(ctx); err != nil && ctx.Err() == nil {
			slog.Error("Reconciling", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(*interval):
		}
	}
}
