package monitoring

import (
	"testing"
	"time"
)

// TestStatesAroundAScrape: around returns the states up to lag before and after a scrape, and for longer if the machine stood still in between.
func TestStatesAroundAScrape(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(milliseconds int) time.Time { return noon.Add(time.Duration(milliseconds) * time.Millisecond) }
	scrape := point{began: at(5000), took: 100 * time.Millisecond}
	for name, row := range map[string]struct {
		still int // for how many milliseconds the machine stands still, in the middle of the scrape
		want  []float64
	}{
		"steadily":            {0, []float64{2, 3}},
		"less than one state": {400, []float64{2, 3}},
		"for a second":        {1000, []float64{1, 2, 3, 4}},
	} {
		l := &load{states: []state{
			{since: at(0), pods: map[string]float64{"Running": 1}}, {since: at(3500), pods: map[string]float64{"Running": 2}},
			{since: at(5000), pods: map[string]float64{"Running": 3}}, {since: at(6600), pods: map[string]float64{"Running": 4}},
		}}
		for now := 0; now < 10_000; now += 1000 / beats {
			if now <= 5000 || now >= 5000+row.still {
				l.passed = append(l.passed, passed{began: at(now)})
			}
		}
		var got []float64
		for _, pods := range l.around(scrape) {
			got = append(got, pods["Running"])
		}
		if len(got) != len(row.want) || got[0] != row.want[0] || got[len(got)-1] != row.want[len(row.want)-1] {
			t.Errorf("the machine stood still %s: the scrape may find %v, want %v", name, got, row.want)
		}
	}
}
