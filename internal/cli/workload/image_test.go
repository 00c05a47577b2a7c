package workload

import (
	"strings"
	"testing"
)

func TestImageFromTheSameRegistry(t *testing.T) {
	for image, want := range map[string]string{
		"registry.example/liqo/controller-manager:v1": "registry.example/liqo/testserver:v1", "host:5000/controller-manager:v1": "host:5000/testserver:v1",
		"host:5000/controller-manager": "host:5000/testserver:v9", "x": "testserver:v9",
		"registry.example/controller-manager@sha256:0123": "", "registry.example/controller-manager:v2@sha256:0123": "",
	} {
		got, err := siblingImage(image, "testserver", "v9")
		if got != want {
			t.Errorf("the test image next to %s is %s, want %s", image, got, want)
		}
		if pinned := want == ""; pinned != (err != nil) || pinned && !strings.Contains(err.Error(), "--image registry.example/testserver@sha256:DIGEST") {
			t.Errorf("%s: %v", image, err)
		}
	}
}
