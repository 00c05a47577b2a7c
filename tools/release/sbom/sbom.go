// Package sbom writes software bills of materials in the format of CycloneDX, from what the Go linker puts into programs.
package sbom

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// Subject is what a bill is about: a program or an image.
type Subject struct {
	Name, Version, OS, Arch string
	// Image says that the subject is a container image.
	Image bool
}

// Of returns the bill of a subject that consists of programs: their modules and the standard library, each once.
func Of(subject Subject, date time.Time, programs ...*debug.BuildInfo) ([]byte, error) {
	modules := map[string]cdx.Component{}
	for _, program := range programs {
		standard := component(&debug.Module{Path: "stdlib", Version: strings.TrimPrefix(program.GoVersion, "go")})
		modules[standard.BOMRef] = standard
		for _, module := range append(slices.Clone(program.Deps), &program.Main) {
			if module.Path == "" {
				continue
			}
			if module.Replace != nil {
				module = module.Replace
			}
			if module.Version == "(devel)" { // a module of this repository
				module = &debug.Module{Path: module.Path, Version: subject.Version}
			}
			c := component(module)
			modules[c.BOMRef] = c
		}
	}
	var components []cdx.Component
	var refs []string
	for _, ref := range slices.Sorted(maps.Keys(modules)) {
		components = append(components, modules[ref])
		refs = append(refs, ref)
	}
	main := cdx.Component{
		BOMRef: subject.Name, Type: cdx.ComponentTypeApplication, Name: subject.Name, Version: subject.Version,
		Properties: &[]cdx.Property{{Name: "os", Value: subject.OS}, {Name: "architecture", Value: subject.Arch}},
	}
	if subject.Image {
		main.Type = cdx.ComponentTypeContainer
	}
	bill := cdx.NewBOM()
	bill.Metadata = &cdx.Metadata{Timestamp: date.UTC().Format(time.RFC3339), Component: &main}
	bill.Components = &components
	bill.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	var out bytes.Buffer
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bill); err != nil {
		return nil, fmt.Errorf("writing the bill of materials of %s: %w", subject.Name, err)
	}
	return out.Bytes(), nil
}

// component returns a module as a component. Its hash is that of go.sum, over all files of the module.
func component(module *debug.Module) cdx.Component {
	url := "pkg:golang/" + module.Path + "@" + module.Version
	out := cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: module.Path, Version: module.Version, PackageURL: url}
	if encoded, found := strings.CutPrefix(module.Sum, "h1:"); found {
		if sum, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			out.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
		}
	}
	return out
}
