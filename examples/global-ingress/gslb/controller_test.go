package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// CoreDNS reads a zone again only if its serial number is greater, and the clock of a node can go back.
func TestSerialNumberOfTheZoneIncreases(t *testing.T) {
	c := controller{settings: eu, file: filepath.Join(t.TempDir(), "db.cloud.example.com")}
	read := func() string {
		text, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(text))[6]
	}
	for _, step := range []struct {
		records []record
		now     int64
		want    string
	}{
		{nil, 100, "100"}, // a zone without hosts has a file, too
		{nil, 110, "100"},
		{[]record{{host, "A", 30, []string{"172.19.0.3"}}}, 120, "120"},
		{[]record{{host, "A", 30, []string{"172.19.0.4"}}}, 50, "121"},
	} {
		if err := c.writeZone(step.records, time.Unix(step.now, 0)); err != nil {
			t.Fatal(err)
		}
		if got := read(); got != step.want {
			t.Errorf("serial number %s at %d, want %s", got, step.now, step.want)
		}
	}
}
