package node

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"liqo.io/playground/component"
)

// eventually waits for a condition that another goroutine brings about.
func eventually(t *testing.T, what string, true func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !true(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func status(s *supervisor, name string) Status {
	for _, status := range s.list() {
		if status.Name == name {
			return status
		}
	}
	return Status{}
}

// begin runs a supervisor over real programs, with its logs in a folder of the test.
func begin(t *testing.T, services ...component.Service) *supervisor {
	t.Helper()
	s := newSupervisor(services)
	s.logs = t.TempDir()
	s.start()
	t.Cleanup(s.shutdown)
	return s
}

func TestSupervisorRestartsKilledPrograms(t *testing.T) {
	s := begin(t, component.Service{Name: "sleeper", Args: []string{"/bin/sleep", "60"}})
	eventually(t, "it runs", func() bool { return status(s, "sleeper").State == Running })
	first := status(s, "sleeper").PID
	if err := s.obey(order{KillIt, "sleeper"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs again", func() bool {
		now := status(s, "sleeper")
		return now.State == Running && now.PID != first && now.Starts == 2
	})
	if err := syscall.Kill(first, 0); err == nil {
		t.Error("the killed process is still there, or was not collected")
	}
}

func TestSupervisorKeepsStoppedPrograms(t *testing.T) {
	s := begin(t, component.Service{Name: "sleeper", Args: []string{"/bin/sleep", "60"}})
	eventually(t, "it runs", func() bool { return status(s, "sleeper").State == Running })
	if err := s.obey(order{StopIt, "sleeper"}); err != nil {
		t.Fatal(err)
	}
	if now := status(s, "sleeper"); now.State != Stopped || now.PID != 0 {
		t.Errorf("stopped, it is %+v", now)
	}
	if err := s.obey(order{KillIt, "sleeper"}); err == nil {
		t.Error("what does not run could be killed")
	}
	if err := s.obey(order{StartIt, "sleeper"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs again", func() bool { return status(s, "sleeper").State == Running })
}

func TestSupervisorRunsOncePrograms(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	s := begin(t,
		component.Service{Name: "once", Args: []string{"/bin/true"}, Once: true},
		component.Service{Name: "after", Args: []string{"/bin/sleep", "60"}, After: []string{"once"}},
		component.Service{Name: "socket", Args: []string{"/bin/sleep", "60"}, Sockets: []string{socket}},
	)
	eventually(t, "the program after it runs", func() bool { return status(s, "after").State == Running })
	if now := status(s, "once"); now.State != Done || now.Starts != 1 {
		t.Errorf("the program that runs once is %+v", now)
	}
	if now := status(s, "socket"); now.State != Waiting {
		t.Errorf("the program whose socket is not there is %+v", now)
	}
	if err := s.listen(socket); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the program whose socket answers runs", func() bool { return status(s, "socket").State == Running })
}

func TestSupervisorNamesItsPrograms(t *testing.T) {
	s := begin(t, component.Service{Name: "sleeper", Args: []string{"/bin/sleep", "60"}})
	err := s.obey(order{StopIt, "slepper"})
	if err == nil || err.Error() != "this node has only sleeper" {
		t.Errorf("error %v", err)
	}
}
