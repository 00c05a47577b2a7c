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
	// shutdown is how long programs have to end after SIGTERM when the node shuts down.
	shutdown = 4 * time.Second
	// patience is how long a single program has to end after SIGTERM when it is stopped.
	patience = 5 * time.Second
	// A program that ends is restarted after shortPause if it ran for more than 5 s, otherwise after longPause.
	shortPause = 200 * time.Millisecond
	longPause  = time.Second
)

// State is the state of a program.
type State string

// The states of a program.
const (
	Waiting State = "waiting" // its prerequisites are not ready yet
	Running State = "running"
	Pausing State = "pausing" // it ended and will be restarted
	Stopped State = "stopped" // the user stopped it
	Done    State = "done"    // it runs only once and succeeded
)

// Status is the current status of one program of a node.
type Status struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// PID is the process ID inside the node's PID namespace, or 0 if the program is not running.
	PID int `json:"pid,omitempty"`
	// Starts counts how often the program was started.
	Starts int `json:"starts"`
}

// supervisor keeps the programs of a node running. As PID 1, it also reaps every process that ends.
type supervisor struct {
	mu       sync.Mutex
	changed  *sync.Cond
	programs []*program
	children map[int]*program
	ending   bool
	// logs is the folder of the programs' log files.
	logs string
	// ended receives SIGCHLD after processes have ended.
	ended chan os.Signal
}

type program struct {
	component.Service
	status Status
	wanted bool
	exit   syscall.WaitStatus
	// probe is the HTTP client for Get, created at its first use.
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

// collect reaps all processes that have ended. One SIGCHLD may stand for several of them.
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

// keep supervises one program until the node shuts down: it starts the program, waits for its end and restarts it. It returns earlier if
// the program runs only once and has succeeded.
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

// pause waits before a program is restarted. It returns early if the program is no longer wanted or the node shuts down.
func (s *supervisor) pause(p *program, long time.Duration) {
	end := time.Now().Add(long)
	wake := time.AfterFunc(long, func() {
		s.mu.Lock() // prevents a lost wake-up between the time check and the wait below
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

// await returns true once the program is wanted and its prerequisites are ready. It returns false if the node shuts down.
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

// done reports whether the named programs, which run only once, have succeeded.
func (s *supervisor) done(names []string) bool {
	for _, p := range s.programs {
		if slices.Contains(names, p.Name) && p.status.State != Done {
			return false
		}
	}
	return true
}

// environment returns the environment of the programs. GOGC has the value that the creator of the cluster set, to save processor time at the cost of
// memory.
func environment() []string {
	env := []string{"PATH=" + path, "HOME=/root"}
	if percent, found := os.LookupEnv("GOGC"); found {
		env = append(env, "GOGC="+percent)
	}
	return env
}

// launch starts the program and appends its output to its log. It holds the lock while it starts the program, so that collect cannot reap
// the process before children contains it.
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
		Env:   environment(),
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

// waitFor waits until the program has ended and reports whether it exited with code 0.
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

// shutdown sends SIGTERM to every program and waits up to the constant shutdown for them to end. The kernel kills the rest when PID 1 exits.
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
