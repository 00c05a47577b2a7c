package controllers

import (
	"errors"
	"testing"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
)

// TestLostRacesAreRetriedQuietly: a lost race with another writer is retried without an error. Any other error is returned.
func TestLostRacesAreRetriedQuietly(t *testing.T) {
	late, broken := staleCache(&ipamv1alpha1.IP{}, errors.New("late")), errors.New("broken")
	for name, c := range map[string]struct {
		err          error
		again, fails bool
	}{
		"nothing":                  {nil, false, false},
		"nothing of several":       {errors.Join(nil, nil), false, false},
		"a lost race":              {late, true, false},
		"lost races":               {errors.Join(late, nil, late), true, false},
		"an error":                 {broken, false, true},
		"an error in a lost race":  {errors.Join(late, broken), false, true},
		"an error before the race": {errors.Join(broken, late), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := requeueConflicts(c.err)
			if (result.RequeueAfter > 0) != c.again || (err != nil) != c.fails {
				t.Errorf("%+v, %v", result, err)
			}
		})
	}
}
