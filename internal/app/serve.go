package app

import (
	"context"
	"errors"
	"fmt"
	"io"
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

	"liqo.io/liqo/internal/metrics"
)

// endpoints are the HTTP endpoints of a program for health checks and metrics.
type endpoints struct {
	// health and metrics are listening addresses. An empty address disables the endpoint.
	health, metrics string
	// ready returns nil if the program is ready, else an error that says what is missing.
	ready    func() error
	gatherer prometheus.Gatherer
}

// newRegistry returns a registry with the metrics common to all programs: those of the process, of the Go runtime and of the build.
func newRegistry(program string) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), metrics.Build(program))
	return registry
}

// during serves the endpoints for as long as work runs, and returns the result of work. If an endpoint fails, it ends work and returns the error of
// the endpoint.
func (e *endpoints) during(ctx context.Context, work func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	serving, stop := context.WithCancel(ctx)
	group.Go(func() error { return e.serve(serving) })
	group.Go(func() error {
		defer stop()
		return work(ctx)
	})
	return group.Wait()
}

// serve runs the endpoints until ctx ends, and then returns nil.
func (e *endpoints) serve(ctx context.Context) error {
	health, numbers := http.NewServeMux(), http.NewServeMux()
	health.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	health.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := e.ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	// If one metric cannot be computed, serve the others. Compression would take a megabyte of memory to save a few hundred kilobytes on the network of the pods.
	opts := promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, DisableCompression: true}
	numbers.Handle("GET /metrics", metrics.Sweep(promhttp.HandlerFor(e.gatherer, opts)))
	group, ctx := errgroup.WithContext(ctx)
	if e.health != "" {
		group.Go(func() error { return listenAndServe(ctx, e.health, health) })
	}
	if e.metrics != "" {
		group.Go(func() error { return listenAndServe(ctx, e.metrics, numbers) })
	}
	return group.Wait()
}

// NewLog returns a logger that writes lines of JSON. The logs of the Kubernetes libraries go to the same place.
func NewLog(level slog.Level) *slog.Logger {
	handler := newLogHandler(os.Stderr, level)
	log := slog.New(handler)
	klog.SetSlogLogger(log)
	ctrl.SetLogger(logr.FromSlogHandler(handler))
	return log
}

// newLogHandler writes lines of JSON in which an error always has the key error. Package logr gives it the key err.
func newLogHandler(w io.Writer, level slog.Level) slog.Handler {
	return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == "err" {
			a.Key = "error"
		}
		return a
	}})
}

// listenAndServe serves on an address until ctx ends, and then returns nil.
func listenAndServe(ctx context.Context, address string, handler http.Handler) error {
	server := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) || ctx.Err() == nil {
		return fmt.Errorf("serving on %s: %w", address, err)
	}
	return nil
}
