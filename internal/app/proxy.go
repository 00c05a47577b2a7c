package app

import (
	"context"
	"flag"
	"log/slog"
	"time"

	"liqo.io/liqo/internal/metrics"
	"liqo.io/liqo/internal/proxy"
)

// Proxy runs the proxy to the API server of this cluster until ctx ends. It sends no requests of its own to the API server, and
// needs no identity.
func Proxy(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("proxy", flag.ContinueOnError)
	listen := fs.String("listen", ":8118", "address on which the proxy listens")
	opts := proxy.Options{Log: NewLog(slog.LevelInfo)}
	fs.StringVar(&opts.Target, "target", "kubernetes.default.svc:443", "the API server, host:port: the one place that the proxy leads to")
	fs.DurationVar(&opts.DialTimeout, "dial-timeout", 10*time.Second, "how long the API server may take to answer")
	fs.IntVar(&opts.PerSource, "max-connections-per-source", 512, "tunnels that one address may have at a time; behind a Service that is one node of this cluster")
	fs.IntVar(&opts.Total, "max-connections", 4096, "tunnels at a time")
	fs.DurationVar(&opts.Grace, "grace", 20*time.Second, "how long tunnels may go on when the proxy ends")
	metricsAddress := fs.String("metrics-address", "", "address of /metrics; off when empty")
	if err := fs.Parse(args); err != nil {
		return err
	}
	server, err := proxy.New(opts)
	if err != nil {
		return err
	}
	listener, err := proxy.Listen(ctx, *listen)
	if err != nil {
		return err
	}
	registry := newRegistry(metrics.Proxy)
	registry.MustRegister(proxyMetrics(server.Open))
	served := endpoints{metrics: *metricsAddress, gatherer: registry}
	return served.during(ctx, func(ctx context.Context) error { return server.Serve(ctx, listener) })
}

// proxyMetrics returns the metrics of the proxy. open returns the number of open connections.
func proxyMetrics(open func() int) metrics.Computed {
	return func(_ context.Context, emit metrics.Emit) { emit(metrics.ProxyConnections, float64(open())) }
}
