package node

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// controlSocket is the path of the control socket inside the node. Only root can connect to it.
const controlSocket = "/run/playground.sock"

// Verb is an operation on a program of a running node.
type Verb string

// The verbs. A stopped program stays stopped until StartIt. The supervisor restarts a killed program.
// StatusOf needs no program: it only reads the status of all programs.
const (
	StatusOf Verb = "status"
	StopIt   Verb = "stop"
	KillIt   Verb = "kill"
	StartIt  Verb = "start"
)

type order struct {
	Verb    Verb   `json:"verb"`
	Program string `json:"program,omitempty"`
}

type reply struct {
	Error    string   `json:"error,omitempty"`
	Programs []Status `json:"programs,omitempty"`
}

// Control sends a verb for one program to the node whose folder is dir. It returns the status of all programs of the node after the
// operation.
func Control(dir string, verb Verb, program string) ([]Status, error) {
	id, err := Process(dir)
	if err != nil {
		return nil, err
	}
	if !id.Alive() {
		return nil, fmt.Errorf("asking the node in %s: it does not run", dir)
	}
	conn, err := net.DialTimeout("unix", fmt.Sprintf("/proc/%d/root%s", id.PID, controlSocket), 5*time.Second)
	if err != nil {
		return nil, fmt.Errorf("asking node: %w", err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(2 * patience))
	if err := json.NewEncoder(conn).Encode(order{verb, program}); err != nil {
		return nil, fmt.Errorf("asking node: %w", err)
	}
	var r reply
	if err := json.NewDecoder(conn).Decode(&r); err != nil {
		return nil, fmt.Errorf("reading the node's answer: %w", err)
	}
	if r.Error != "" {
		return nil, fmt.Errorf("%s %s: %s", verb, program, r.Error)
	}
	return r.Programs, nil
}

// listen opens the control socket and serves requests in the background.
func (s *supervisor) listen(socket string) error {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("opening the control socket: %w", err)
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		return err
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				slog.Error("control socket closed", "error", err)
				return
			}
			go s.answer(conn)
		}
	}()
	return nil
}

func (s *supervisor) answer(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(2 * patience))
	var o order
	if err := json.NewDecoder(conn).Decode(&o); err != nil {
		return
	}
	var r reply
	if err := s.obey(o); err != nil {
		r.Error = err.Error()
	} else {
		r.Programs = s.list()
	}
	_ = json.NewEncoder(conn).Encode(r)
}

func (s *supervisor) list() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Status
	for _, p := range s.programs {
		list = append(list, p.status)
	}
	return list
}

func (s *supervisor) obey(o order) error {
	if o.Verb == StatusOf {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.programs, func(p *program) bool { return p.Name == o.Program })
	if i < 0 {
		var names []string
		for _, p := range s.programs {
			names = append(names, p.Name)
		}
		return fmt.Errorf("this node has only %s", strings.Join(names, ", "))
	}
	p := s.programs[i]
	switch o.Verb {
	case StartIt:
		p.wanted = true
		s.changed.Broadcast()
	case KillIt:
		if p.status.PID == 0 {
			return fmt.Errorf("it does not run, it is %s", p.status.State)
		}
		return unix.Kill(p.status.PID, unix.SIGKILL)
	case StopIt:
		if p.status.State == Done {
			return fmt.Errorf("it has done its work")
		}
		p.wanted = false
		s.changed.Broadcast()
		s.end(p)
	default:
		return fmt.Errorf("no such verb")
	}
	return nil
}

// end stops a program that is no longer wanted. It sends SIGTERM, and SIGKILL if the program is still running after patience. It returns
// once the program is stopped or wanted again, or the node shuts down. The caller holds s.mu; end releases it while it waits.
func (s *supervisor) end(p *program) {
	if pid := p.status.PID; pid != 0 {
		_ = unix.Kill(pid, unix.SIGTERM)
		alarm := time.AfterFunc(patience, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if p.status.PID == pid {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		})
		defer alarm.Stop()
	}
	for p.status.State != Stopped && !p.wanted && !s.ending {
		s.changed.Wait()
	}
}
