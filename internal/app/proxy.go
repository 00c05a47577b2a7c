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
	fs.StringVar(&opts.Target, "target", "kubernetes.default.svc:443", "host:port of the API server, the only target to which the proxy connects")
	fs.DurationVar(&opts.DialTimeout, "dial-timeout", 10*time.Second, "maximum time to connect to the API server")
	fs.IntVar(&opts.PerSource, "max-connections-per-source", 512, "maximum number of simultaneous connections from one source address; behind a Service, that address is a node of this cluster")
	fs.IntVar(&opts.Total, "max-connections", 4096, "maximum number of simultaneous connections")
	fs.DurationVar(&opts.Grace, "grace", 20*time.Second, "how long open connections may continue while the proxy shuts down")
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
