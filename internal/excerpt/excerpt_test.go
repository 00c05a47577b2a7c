package excerpt

import (
	"strings"
	"testing"
)

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"disk\n  Normal\tPulled\r\n": "disk Normal Pu...", "a\u2028b\u2029c\u0085d": "a b c d", "": "", strings.Repeat("x\n", 99): "x x x x x x x ...",
	} {
		if got := Line(in, 17); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestOf(t *testing.T) {
	for in, want := range map[string]string{
		"":                       "",
		"short":                  "short",
		"1234567890":             "1234567890",
		"12345678901":            "1234567...",
		"ééééé":                  "ééééé",
		"éééééé":                 "ééé...",
		"a\x1b[2Jb\x00\u0085":    "a[2Jb",
		"a\u202eb\u2066":         "ab",
		"two\nlines\t":           "two\nlines\t",
		"\xff\xfea":              "a",
		strings.Repeat("x", 999): "xxxxxxx...",
		// What remains of a cut text fits, but is not all of it.
		"ab" + strings.Repeat("\x00", 50) + "c":            "ab...",
		"12345678" + strings.Repeat("\u202e", 20) + "9":    "1234567...",
		"ab" + strings.Repeat("\x00", Needs(10)-3):         "ab",
		strings.Repeat("\x00", Needs(10)-1) + "c and more": "c...",
	} {
		if got := Of(in, 10); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
