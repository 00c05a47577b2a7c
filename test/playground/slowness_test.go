package playground

import (
	"testing"
	"time"
)

func TestSlownessIsTheMedianWithinItsBounds(t *testing.T) {
	for _, test := range []struct {
		took []time.Duration
		want float64
	}{
		{[]time.Duration{programStart / 2, programStart / 2, programStart}, 1},              // a faster machine does not reduce the budget
		{[]time.Duration{programStart * 3 / 2, time.Hour, programStart / 2}, 1.5},           // a single delayed start does not change the result
		{[]time.Duration{programStart * 10, programStart * 10, programStart * 10}, slowest}, // the factor is limited, so that tests do not wait forever
	} {
		if got := slowness(test.took); got != test.want {
			t.Errorf("%v: %v, want %v", test.took, got, test.want)
		}
	}
	if err := Budget("suite", 11*time.Second, 10*time.Second, 1); err == nil {
		t.Error("a suite over its budget passes")
	}
	if err := Budget("suite", 11*time.Second, 10*time.Second, 1.5); err != nil {
		t.Error(err)
	}
}
