package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
)

// Version returns the release of the API server of cfg, such as v1.35.4.
func Version(ctx context.Context, cfg *rest.Config) (string, error) {
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return "", fmt.Errorf("creating a client for %s: %w", cfg.Host, err)
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return "", fmt.Errorf("reading address %s: %w", cfg.Host, err)
	}
	const maxVersion = 64 << 10
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("version").String(), nil)
	if err != nil {
		return "", fmt.Errorf("asking %s for its version: %w", cfg.Host, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("asking for the version: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	var info version.Info
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("asking %s for its version: %s", cfg.Host, resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxVersion)).Decode(&info); err != nil {
		return "", fmt.Errorf("reading the version of %s: %w", cfg.Host, err)
	}
	return info.GitVersion, nil
}
