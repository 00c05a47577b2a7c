package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"syscall"
	"testing"
)

// TestRun: the exit code distinguishes success, failure and a request for help, and SIGTERM ends the program's context.
func TestRun(t *testing.T) {
	for _, test := range []struct {
		name    string
		program func(context.Context, []string) error
		want    int
	}{
		{"success", func(context.Context, []string) error { return nil }, 0},
		{"help", func(context.Context, []string) error { return fmt.Errorf("reading flags: %w", flag.ErrHelp) }, 0},
		{"failure", func(context.Context, []string) error { return errors.New("failed") }, 1},
		{"terminated", func(ctx context.Context, _ []string) error {
			if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}, 0},
	} {
		if got := Run(test.name, test.program); got != test.want {
			t.Errorf("%s: exit code %d, want %d", test.name, got, test.want)
		}
	}
}
