package host

import (
	"errors"
	"strings"
	"testing"
)

func TestProgramsNamesWhatIsMissing(t *testing.T) {
	needs := []need{{"runc", "runc"}, {"nft", "nftables"}, {"busybox", "busybox-static"}}
	look := func(program string) (string, error) {
		if program == "runc" {
			return "/usr/sbin/runc", nil
		}
		return "", errors.New("not found")
	}
	err := programs(needs, look)
	if err == nil {
		t.Fatal("nothing is missing")
	}
	for _, want := range []string{"nft, busybox", "apt-get install -y --no-install-recommends nftables busybox-static"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if err := programs(needs[:1], look); err != nil {
		t.Error(err)
	}
}

func TestRestoreWithoutARecord(t *testing.T) {
	if restored, err := Restore(t.TempDir() + "/missing"); err != nil || restored != nil {
		t.Errorf("%v, %v", restored, err)
	}
}
