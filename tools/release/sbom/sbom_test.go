package sbom

import (
	"bytes"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func program(deps ...*debug.Module) *debug.BuildInfo {
	return &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Path: "liqo.io/liqo", Version: "(devel)"}, Deps: deps}
}

func TestBillHasEachModuleOnce(t *testing.T) {
	a := &debug.Module{Path: "example.org/a", Version: "v1.0.0", Sum: "h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE="}
	b := &debug.Module{Path: "example.org/b", Version: "v2.0.0", Replace: &debug.Module{Path: "example.org/fork", Version: "v2.1.0"}}
	subject := Subject{"gateway", "v1.2.3", "linux", "arm64", true}
	text, err := Of(subject, time.Unix(0, 0), program(a, b), program(a))
	if err != nil {
		t.Fatal(err)
	}
	bill := cdx.NewBOM()
	if err := cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(bill); err != nil {
		t.Fatal(err)
	}
	var urls []string
	for _, c := range *bill.Components {
		urls = append(urls, c.PackageURL)
	}
	want := "pkg:golang/example.org/a@v1.0.0 pkg:golang/example.org/fork@v2.1.0 pkg:golang/liqo.io/liqo@v1.2.3 pkg:golang/stdlib@1.26.0"
	if got := strings.Join(urls, " "); got != want {
		t.Errorf("%s", got)
	}
	if hash := (*(*bill.Components)[0].Hashes)[0].Value; hash != strings.Repeat("0", 63)+"1" {
		t.Errorf("hash %s", hash)
	}
	if main := bill.Metadata.Component; main.Type != cdx.ComponentTypeContainer || main.Name != "gateway" || main.Version != "v1.2.3" {
		t.Errorf("%+v", main)
	}
	again, err := Of(subject, time.Unix(0, 0), program(a), program(b, a))
	if err != nil || !bytes.Equal(text, again) {
		t.Errorf("other bytes for the same programs in another order: %v", err)
	}
}
