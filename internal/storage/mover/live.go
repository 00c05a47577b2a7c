package mover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"liqo.io/liqo/internal/storage/move"
)

// Files through which the processes in a pod of a live copy communicate.
const (
	// followsFile exists once few changes are left, so that copying them takes little time.
	followsFile = "follows"
	// finishFile exists once no program changes the data any more. finishedFile exists once the other pod can continue.
	finishFile   = "finish"
	finishedFile = "finished"
	// resultFile contains the result. takenFile exists once the result has been read.
	resultFile = "result"
	takenFile  = "taken"
)

const (
	// After a pass that is shorter than shortPass, few changes are left. After maxPasses passes, the application has to stop even if many are left.
	shortPass = 10 * time.Second
	maxPasses = 3
	// idle is the pause between passes once few changes are left. It is long, because a pass that runs when the application stops delays the last pass.
	idle = 30 * time.Second
	// untaken is how long the program waits until the result is read. After that, only the status of the pod has the result, some seconds later. parting is how
	// long the program continues after the result was read, so that its end does not interrupt the reader.
	untaken = 10 * time.Second
	parting = 500 * time.Millisecond
	// pollInterval is the interval at which processes check whether a file exists.
	pollInterval = 50 * time.Millisecond
)

// incomplete is the exit code of restic if files vanished or could not be read.
const incomplete = 3

// Control executes "follows", "finish" or "result" in the pod of a live copy. "follows" fails until few changes are left. "finish" makes the program copy
// the last changes and end, and waits until the other pod can continue. "result" waits for the result and prints it. Each of them can be repeated.
func (p *Program) Control(ctx context.Context, command string) error {
	switch command {
	case followsFile:
		if !p.has(followsFile) {
			return errors.New("the copy has not caught up with the data yet")
		}
		return nil
	case finishFile:
		if err := p.mark(finishFile); err != nil {
			return err
		}
		return p.await(ctx, finishedFile)
	case resultFile:
		if err := p.await(ctx, resultFile); err != nil {
			return err
		}
		text, err := os.ReadFile(filepath.Join(p.State, resultFile))
		if err != nil {
			return fmt.Errorf("reading the result of the copy: %w", err)
		}
		if _, err := p.Out.Write(text); err != nil {
			return fmt.Errorf("printing the result of the copy: %w", err)
		}
		return p.mark(takenFile)
	}
	return fmt.Errorf("want follows, finish or result, got %q", command)
}

// await waits for a file.
func (p *Program) await(ctx context.Context, file string) error {
	for !p.has(file) {
		if err := pause(ctx, pollInterval); err != nil {
			return err
		}
	}
	return nil
}

// hand writes the result to a file and waits until it has been read.
func (p *Program) hand(ctx context.Context, result *move.Result) error {
	// Rename the complete file, so that no reader sees half of it.
	whole := filepath.Join(p.State, resultFile)
	err := os.WriteFile(whole+".new", []byte(Report(result, nil)), 0o600)
	if err == nil {
		err = os.Rename(whole+".new", whole)
	}
	if err != nil {
		return fmt.Errorf("writing the result of the copy: %w", err)
	}
	within, cancel := context.WithTimeout(ctx, untaken)
	defer cancel()
	if p.await(within, takenFile) == nil {
		_ = pause(ctx, parting)
	}
	return nil
}

func (p *Program) has(file string) bool {
	_, err := os.Stat(filepath.Join(p.State, file))
	return err == nil
}

func (p *Program) mark(file string) error {
	if err := os.WriteFile(filepath.Join(p.State, file), nil, 0o600); err != nil {
		return fmt.Errorf("marking the state of the copy: %w", err)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// live copies a directory that is in use, and hands the result to the command that waits for it.
func (p *Program) live(ctx context.Context, path string, run func(context.Context, string) (*move.Result, error)) (*move.Result, error) {
	result, err := run(ctx, path)
	if err != nil {
		return nil, err
	}
	return result, p.hand(ctx, result)
}

// sendLive copies a directory that is in use to the repository again and again. After Finish, it copies it once more.
func (p *Program) sendLive(ctx context.Context, path string) (*move.Result, error) {
	if err := p.initialize(ctx); err != nil {
		return nil, err
	}
	err := p.follow(ctx, func() error {
		err := p.backup(ctx, path)
		if ended := (*exec.ExitError)(nil); errors.As(err, &ended) && ended.ExitCode() == incomplete {
			return nil // the application has deleted files meanwhile
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := p.backup(ctx, path); err != nil {
		return nil, err
	}
	if err := p.mark(finishedFile); err != nil {
		return nil, err
	}
	return sumTree(ctx, path, p.Out)
}

// receiveLive copies the repository to a directory again and again. After Finish, it copies it once more.
func (p *Program) receiveLive(ctx context.Context, path string) (*move.Result, error) {
	if err := p.follow(ctx, func() error { return p.restore(ctx, path) }); err != nil {
		return nil, err
	}
	if err := p.mark(finishedFile); err != nil {
		return nil, err
	}
	// The application waits, so restic does not read files again that have the size and the time in the snapshot. If such a file differs, so do the checksums.
	if err := p.restore(ctx, path, "--overwrite", "if-changed"); err != nil {
		return nil, err
	}
	return sumTree(ctx, path, p.Out)
}

// follow makes passes until Finish.
func (p *Program) follow(ctx context.Context, pass func() error) error {
	for passes := 1; ; passes++ {
		if p.has(finishFile) {
			return nil
		}
		began := time.Now()
		if err := pass(); err != nil {
			return err
		}
		took := time.Since(began)
		if took > shortPass && passes < maxPasses {
			continue
		}
		if err := p.mark(followsFile); err != nil {
			return err
		}
		for next := time.Now().Add(max(idle, 10*took)); time.Now().Before(next) && !p.has(finishFile); {
			if err := pause(ctx, pollInterval); err != nil {
				return err
			}
		}
	}
}
