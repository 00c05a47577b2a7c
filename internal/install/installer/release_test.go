package installer

import (
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"

	"liqo.io/liqo/internal/install"
)

// TestRollbackSkipsFailedRevisions: a change is rolled back to the last revision that worked, also when upgrades after it failed.
func TestRollbackSkipsFailedRevisions(t *testing.T) {
	for name, test := range map[string]struct {
		history []common.Status
		want    int
	}{
		"the newest works":                        {[]common.Status{common.StatusSuperseded, common.StatusDeployed}, 2},
		"the newest failed":                       {[]common.Status{common.StatusDeployed, common.StatusFailed}, 1},
		"two failed":                              {[]common.Status{common.StatusSuperseded, common.StatusDeployed, common.StatusFailed, common.StatusFailed}, 2},
		"an upgrade was interrupted":              {[]common.Status{common.StatusDeployed, common.StatusFailed, common.StatusPendingUpgrade}, 1},
		"nothing has ever worked: the newest one": {[]common.Status{common.StatusFailed}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Release{config: &action.Configuration{Releases: storage.Init(driver.NewMemory())}}
			for i, status := range test.history {
				if err := r.config.Releases.Create(&releasev1.Release{Name: install.Release, Version: i + 1, Info: &releasev1.Info{Status: status}}); err != nil {
					t.Fatal(err)
				}
			}
			if got := r.baseline(len(test.history)); got != test.want {
				t.Errorf("revision %d, want %d", got, test.want)
			}
		})
	}
}
