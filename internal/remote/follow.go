package remote

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"time"
)

// ErrNewAddress is the result of Follow when the provider has a new address, which needs other clients.
var ErrNewAddress = errors.New("the provider has another address")

// Follow watches the file with the kubeconfig, and puts renewed credentials into use. It returns ErrNewAddress if the address of the
// provider has changed.
func Follow(ctx context.Context, path string, used []byte, credentials *Identity, log *slog.Logger, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			// While the file is unreadable or empty, the current credentials stay in use; the next read may succeed.
			now, err := os.ReadFile(path)
			if err != nil || len(now) == 0 || bytes.Equal(now, used) {
				continue
			}
			used = now
			replaced, err := credentials.Replace(now)
			switch {
			case err != nil: // the current credentials stay in use until the file changes again
				log.Error("Failed to read the renewed identity: the previous identity stays in use", "error", err)
			case !replaced:
				return ErrNewAddress
			default:
				log.Info("Started to use the renewed identity")
			}
		}
	}
}
