package chart

import (
	"os"
	"slices"
	"strings"
	"testing"
)

const folder = "../../../charts/liqo"

func TestChartHasTheVersionOfTheRelease(t *testing.T) {
	files, err := Files(os.DirFS(folder), "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if file.Name == "liqo/Chart.yaml" {
			text := string(file.Data)
			if !strings.Contains(text, "\nversion: 1.2.3\n") || !strings.Contains(text, "\nappVersion: v1.2.3\n") || strings.Contains(text, "0.0.0-dev") {
				t.Error(text)
			}
			return
		}
	}
	t.Error("no Chart.yaml")
}

func TestChartWithoutVersionIsRefused(t *testing.T) {
	for _, text := range []string{"name: liqo\nversion: 1\n", "appVersion: 1\n", "version: 1\nversion: 2\nappVersion: 1\n"} {
		if _, err := SetVersion([]byte(text), "v1.2.3"); err == nil {
			t.Errorf("accepted: %q", text)
		}
	}
}

// TestChartIsTheOneThatLiqoctlEmbeds compares the contents with the embed directive of the chart's package.
func TestChartIsTheOneThatLiqoctlEmbeds(t *testing.T) {
	text, err := os.ReadFile(folder + "/embed.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "//go:embed ")
	line, _, _ := strings.Cut(rest, "\n")
	if want := strings.Fields(strings.ReplaceAll(line, "all:", "")); !slices.Equal(contents, want) {
		t.Errorf("the archive has %v, liqoctl %v", contents, want)
	}
}
