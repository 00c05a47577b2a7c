package node

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"liqo.io/playground/component"
)

const (
	// shutdown is how long programs have to end when the node is asked to.
	shutdown = 4 * time.Second
	// patience is how long one program has to end when it is stopped.
	patience = 5 * time.Second
	// A program that ends is started again after shortPause, or longPause if it had hardly begun.
	shortPause = 200 * time.Millisecond
	longPause  = time.Second
)

// State is what a program does.
type State string

// The states of a program.
const (
	Waiting State = "waiting" // for what it needs
	Running State = "running"
	Pausing State = "pausing" // it ended and will be started again
	Stopped State = "stopped" // by hand
	Done    State = "done"    // it was to run once
)

// Status is one program of a node.
type Status struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// PID is the number inside the node, 0 if it doesn't run.
	PID int `json:"pid,omitempty"`
	// Starts counts how often it was started.
	Starts int `json:"starts"`
}

// supervisor keeps the programs of a node running and collects every process that ends, as PID 1 has to.
type supervisor struct {
	mu       sync.Mutex
	changed  *sync.Cond
	programs []*program
	children map[int]*program
	ending   bool
	// logs is the folder of the programs' logs.
	logs string
	// ended gets a signal when processes have ended.
	ended chan os.Signal
}

type program struct {
	component.Service
	status Status
	wanted bool
	exit   syscall.WaitStatus
	// probe remembers the client of Get.
	probe *probe
}

func newSupervisor(services []component.Service) *supervisor {
	s := &supervisor{children: map[int]*program{}, logs: component.Logs, ended: make(chan os.Signal, 1)}
	s.changed = sync.NewCond(&s.mu)
	for _, service := range services {
		p := &program{Service: service, wanted: true}
		p.status = Status{Name: service.Name, State: Waiting}
		s.programs = append(s.programs, p)
	}
	return s
}

func (s *supervisor) start() {
	signal.Notify(s.ended, unix.SIGCHLD)
	go func() {
		for range s.ended {
			s.collect()
		}
	}()
	for _, p := range s.programs {
		go s.keep(p)
	}
}

// collect takes in all processes that have ended. One signal may stand for many.
func (s *supervisor) collect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if p := s.children[pid]; p != nil {
			delete(s.children, pid)
			p.status.PID, p.exit = 0, status
			s.changed.Broadcast()
		}
	}
}

// keep is the life of one program.
func (s *supervisor) keep(p *program) {
	for {
		if !s.await(p) {
			return
		}
		began := time.Now()
		err := s.launch(p)
		if err != nil {
			slog.Error("cannot start", "program", p.Name, "error", err)
		} else if s.waitFor(p) && p.Once {
			s.set(p, Done)
			return
		}
		pause := longPause
		if time.Since(began) > 5*time.Second {
			pause = shortPause
		}
		s.pause(p, pause)
	}
}

// pause waits before a program is started again, but not if it isn't wanted any more.
func (s *supervisor) pause(p *program, long time.Duration) {
	end := time.Now().Add(long)
	wake := time.AfterFunc(long, func() {
		s.mu.Lock() // so that it can't come between a look at the clock and the wait
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})
	defer wake.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	p.status.State = Pausing
	for p.wanted && !s.ending && time.Now().Before(end) {
		s.changed.Wait()
	}
}

// await returns once the program is wanted and has all it needs, or false if the node ends.
func (s *supervisor) await(p *program) bool {
	for {
		s.mu.Lock()
		for !p.wanted && !s.ending {
			if p.status.State != Stopped {
				p.status.State = Stopped
				s.changed.Broadcast()
			}
			s.changed.Wait()
		}
		p.status.State = Waiting
		ending, after := s.ending, s.done(p.After)
		s.mu.Unlock()
		if ending {
			return false
		}
		if after && p.ready() {
			return true
		}
		time.Sleep(25 * time.Millisecond)
	}
}

// done reports whether the named programs, which run once, have done so.
func (s *supervisor) done(names []string) bool {
	for _, p := range s.programs {
		if slices.Contains(names, p.Name) && p.status.State != Done {
			return false
		}
	}
	return true
}

// launch starts the program with its output in its log. The lock is held over the start, so that collect can't
// see it end before it is known.
func (s *supervisor) launch(p *program) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending || !p.wanted {
		return nil
	}
	log, err := os.OpenFile(filepath.Join(s.logs, p.Name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }()
	fmt.Fprintf(log, "== %s start %q\n", time.Now().Format(time.RFC3339Nano), p.Args)
	pid, err := syscall.ForkExec(p.Args[0], p.Args, &syscall.ProcAttr{
		Dir:   "/",
		Env:   []string{"PATH=" + path, "HOME=/root"},
		Files: []uintptr{null.Fd(), log.Fd(), log.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return err
	}
	p.status.PID, p.status.State = pid, Running
	p.status.Starts++
	s.children[pid] = p
	return nil
}

// waitFor waits until the program has ended and reports whether it succeeded.
func (s *supervisor) waitFor(p *program) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.status.State != Running {
		return false
	}
	for p.status.PID != 0 {
		s.changed.Wait()
	}
	slog.Info("program ended", "program", p.Name, "code", p.exit.ExitStatus(), "signal", p.exit.Signal().String())
	return p.exit.Exited() && p.exit.ExitStatus() == 0
}

func (s *supervisor) set(p *program, state State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.status.State = state
	s.changed.Broadcast()
}

// shutdown asks every program to end and waits a while. What is left ends with PID 1.
func (s *supervisor) shutdown() {
	s.mu.Lock()
	s.ending = true
	for pid := range s.children {
		_ = unix.Kill(pid, unix.SIGTERM)
	}
	s.changed.Broadcast()
	s.mu.Unlock()
	defer func() {
		signal.Stop(s.ended)
		close(s.ended)
	}()
	for deadline := time.Now().Add(shutdown); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		s.mu.Lock()
		left := len(s.children)
		s.mu.Unlock()
		if left == 0 {
			return
		}
	}
}
