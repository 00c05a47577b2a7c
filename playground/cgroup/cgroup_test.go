package cgroup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for name, test := range map[string]struct {
		mounts string
		want   []Hierarchy
	}{
		"v1, with an empty v2 beside it": {`proc /proc proc rw,relatime 0 0
tmpfs /sys/fs/cgroup tmpfs rw,relatime,mode=755 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,nodev,noexec,relatime,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/systemd cgroup rw,nosuid,xattr,release_agent=/lib/agent,name=systemd 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0
`, []Hierarchy{
			{"/sys/fs/cgroup/memory", "memory"},
			{"/sys/fs/cgroup/cpu,cpuacct", "cpu,cpuacct"},
			{"/sys/fs/cgroup/systemd", "none,name=systemd"},
		}},
		"v2 alone": {"cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime,nsdelegate 0 0\n", []Hierarchy{{Path: "/sys/fs/cgroup"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(test.mounts)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got, err := parse("proc /proc proc rw 0 0\n"); err == nil {
		t.Errorf("found %v where there is nothing", got)
	}
}
