package cluster

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"liqo.io/playground/component"
)

func rome() component.Cluster {
	return component.Cluster{
		Name: "rome", Nodes: 1, PodCIDR: netip.MustParsePrefix("10.244.0.0/16"), ServiceCIDR: netip.MustParsePrefix("10.96.0.0/16"),
	}
}

func TestAllocateGivesEachClusterItsOwn(t *testing.T) {
	m := Machine{Home: t.TempDir()}
	indexes, ports := map[int]bool{}, map[int]bool{}
	for i := range 60 {
		want := rome()
		want.Name += strconv.Itoa(i)
		state, err := m.allocate(want, "set")
		if err != nil {
			t.Fatal(err)
		}
		indexes[state.Index], ports[state.ForwardPort] = true, true
	}
	if len(indexes) != 60 || len(ports) != 60 {
		t.Errorf("60 clusters have %d indexes and %d ports", len(indexes), len(ports))
	}
	if err := os.RemoveAll(m.dir("rome7")); err != nil {
		t.Fatal(err)
	}
	state, err := m.allocate(rome(), "set")
	if err != nil || state.Index != 8 {
		t.Errorf("the index that was given back is not used: %d, %v", state.Index, err)
	}
	got, err := m.Get("rome")
	if err != nil || got.Cluster != state.Cluster {
		t.Errorf("saved %+v, %v", got, err)
	}
}

func TestAllocateAvoidsPortsInUse(t *testing.T) {
	m := Machine{Home: t.TempDir()}
	first, err := m.allocate(rome(), "set")
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(first.ForwardPort))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := os.RemoveAll(m.dir("rome")); err != nil {
		t.Fatal(err)
	}
	again, err := m.allocate(rome(), "set")
	if err != nil || again.ForwardPort == first.ForwardPort || again.Index != first.Index {
		t.Errorf("first %+v, again %+v, %v", first.Cluster, again.Cluster, err)
	}
}

// TestNamesStayInsideTheFolder: a name is the name of a folder that is removed with its content.
func TestNamesStayInsideTheFolder(t *testing.T) {
	m := Machine{Home: filepath.Join(t.TempDir(), "home")}
	kept := filepath.Join(filepath.Dir(m.Home), "kept")
	if err := os.WriteFile(kept, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", ".", "..", "../..", "/", "a/b", "rome/../.."} {
		if err := m.Delete(t.Context(), name); err == nil {
			t.Errorf("%q was deleted", name)
		}
		if _, err := m.Get(name); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %v", name, err)
		}
		want := rome()
		want.Name = name
		if err := m.Create(t.Context(), want, "set", 0); err == nil {
			t.Errorf("%q was created", name)
		}
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}

func TestCgroupsOfStateFoldersDiffer(t *testing.T) {
	standard, other := Machine{Home: defaultHome}.group("rome-1").Name, Machine{Home: "/other"}.group("rome-1").Name
	if standard != "liqo-playground/rome-1" || other == standard {
		t.Errorf("%s and %s", standard, other)
	}
}

// TestBeginKeepsRunningClusters: if the machine cannot be prepared, the folder of an existing cluster stays, because its processes could not be found
// without it. A new cluster leaves nothing.
func TestBeginKeepsRunningClusters(t *testing.T) {
	for _, begun := range []bool{true, false} {
		m := Machine{Home: t.TempDir(), Report: t.Logf}
		if begun {
			if _, err := m.allocate(rome(), "set"); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(m.record(), []byte("no JSON"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := m.begin(t.Context(), rome(), "set"); err == nil {
			t.Fatal("begun on a machine that could not be prepared")
		}
		if _, err := m.Get("rome"); begun != (err == nil) {
			t.Errorf("begun before: %v, afterwards: %v", begun, err)
		}
	}
}

// TestBeginRefusesOtherOptions: a cluster is not reused or resumed with other options, and nothing is changed.
func TestBeginRefusesOtherOptions(t *testing.T) {
	for _, complete := range []bool{true, false} {
		m := Machine{Home: t.TempDir(), Report: t.Logf}
		state, err := m.allocate(rome(), "set")
		if err != nil {
			t.Fatal(err)
		}
		state.Complete = complete
		if err := m.save(state); err != nil {
			t.Fatal(err)
		}
		want := rome()
		want.Nodes, want.MetricsServer, want.CNI = 2, true, component.PointToPoint
		_, err = m.begin(t.Context(), want, "set")
		if err == nil || errors.Is(err, ErrExists) || !strings.Contains(err.Error(), "it has --nodes 1, not 2, no --metrics-server; playground delete cluster --name rome") {
			t.Errorf("complete %t: %v", complete, err)
		}
		if got, err := m.Get("rome"); err != nil || got.Cluster != state.Cluster {
			t.Errorf("it was changed: %+v, %v", got, err)
		}
		if complete {
			if _, err := m.begin(t.Context(), rome(), "set"); !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), "--if-not-exists") {
				t.Errorf("with the same options: %v", err)
			}
		}
	}
}
