package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"

	"github.com/go-logr/logr"
)

// TestErrorsHaveOneKeyInLogs: lines of package slog and of package logr, which the Kubernetes libraries use, have the error under the same key.
func TestErrorsHaveOneKeyInLogs(t *testing.T) {
	failure := errors.New("connection refused")
	for name, log := range map[string]func(slog.Handler){
		"slog": func(h slog.Handler) { slog.New(h).Error("Failed to renew the lease of the node", "error", failure) },
		"logr": func(h slog.Handler) { logr.FromSlogHandler(h).Error(failure, "Failed to renew the lease of the node") },
	} {
		var out bytes.Buffer
		log(newLogHandler(&out, slog.LevelInfo))
		var line map[string]any
		if err := json.Unmarshal(out.Bytes(), &line); err != nil {
			t.Fatalf("%s: %v in %s", name, err, out.String())
		}
		if line["error"] != failure.Error() || line["err"] != nil {
			t.Errorf("%s: %s", name, out.String())
		}
	}
}
