package installer

import (
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/action"
	chartcommon "helm.sh/helm/v4/pkg/chart/common"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	kubefake "helm.sh/helm/v4/pkg/kube/fake"
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

// TestUpgradeTakesTheValuesAsTheyAre: an upgrade has the values it is given and no others. So a null removes a default of the chart, also where the
// earlier revision had another value.
func TestUpgradeTakesTheValuesAsTheyAre(t *testing.T) {
	chart := &chartv2.Chart{
		Metadata: &chartv2.Metadata{APIVersion: chartv2.APIVersionV2, Name: install.Release, Version: "0.1.0"},
		Values:   map[string]any{"limits": map[string]any{"memory": "1Gi"}},
	}
	config := action.NewConfiguration()
	config.Releases, config.Capabilities = storage.Init(driver.NewMemory()), chartcommon.DefaultCapabilities
	config.KubeClient = &kubefake.PrintingKubeClient{Out: io.Discard, LogOutput: io.Discard}
	r := &Release{config: config}
	if err := config.Releases.Create(&releasev1.Release{
		Name: install.Release, Version: 1, Info: &releasev1.Info{Status: common.StatusDeployed}, Chart: chart,
		Config: map[string]any{"limits": map[string]any{"memory": "2Gi"}, "tag": "v1"},
	}); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"limits": map[string]any{"memory": nil}}
	if _, err := r.Apply(chart, install.Merge(want), false); err != nil {
		t.Fatal(err)
	}
	_, got, err := r.Installed()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
