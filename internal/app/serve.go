package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// endpoints are what a program serves about itself.
type endpoints struct {
	// health and metrics are the addresses to listen on; nothing is served where one is empty.
	health, metrics string
	// ready tells what is missing for the program to do its work; nil when it does.
	ready    func() error
	registry *prometheus.Registry
}

// newRegistry has the metrics that every program has: of its process and of Go.
func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// serve answers until ctx ends, and returns nil then.
func (e *endpoints) serve(ctx context.Context) error {
	health, metrics := http.NewServeMux(), http.NewServeMux()
	health.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	health.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := e.ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	metrics.Handle("GET /metrics", promhttp.HandlerFor(e.registry, promhttp.HandlerOpts{}))
	group, ctx := errgroup.WithContext(ctx)
	if e.health != "" {
		group.Go(func() error { return listenAndServe(ctx, e.health, health) })
	}
	if e.metrics != "" {
		group.Go(func() error { return listenAndServe(ctx, e.metrics, metrics) })
	}
	return group.Wait()
}

// NewLog returns what a program logs through, in lines of JSON, and has the libraries of Kubernetes log there too.
func NewLog(level slog.Level) *slog.Logger {
	handler := slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level})
	log := slog.New(handler)
	klog.SetSlogLogger(log)
	ctrl.SetLogger(logr.FromSlogHandler(handler))
	return log
}

// listenAndServe serves on an address until ctx ends, and returns nil then.
func listenAndServe(ctx context.Context, address string, handler http.Handler) error {
	server := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) || ctx.Err() == nil {
		return fmt.Errorf("serving on %s: %w", address, err)
	}
	return nil
}
