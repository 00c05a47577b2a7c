package plan

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestVersionsAreSemantic(t *testing.T) {
	for _, good := range []string{"v1.2.3", "v0.0.1", "v1.2.3-rc.1"} {
		if err := Version(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "1.2.3", "v1.2", "v1", "v1.2.3+build", "v01.2.3", "latest", "v1.2.3 "} {
		if err := Version(bad); err == nil || !strings.Contains(err.Error(), "VERSION") {
			t.Errorf("version %q: %v", bad, err)
		}
	}
	if IsPrerelease("v1.2.3") || !IsPrerelease("v1.2.3-rc.1") {
		t.Error("a release candidate is a prerelease, a release is none")
	}
}

func TestPlatformsAreSelected(t *testing.T) {
	all, err := Select("")
	if err != nil || len(all) != 6 {
		t.Errorf("%v, %v", all, err)
	}
	some, err := Select("windows/arm64,linux/amd64")
	if err != nil || !slices.Equal(some, []Platform{{"linux", "amd64"}, {"windows", "arm64"}}) {
		t.Errorf("%v, %v", some, err)
	}
	if _, err := Select("linux/amd64,plan9/386"); err == nil || !strings.Contains(err.Error(), "plan9/386") {
		t.Errorf("%v", err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestReleaseHasTheImagesOfTheMakefile compares the images of a release with those of make build.
func TestReleaseHasTheImagesOfTheMakefile(t *testing.T) {
	makefile := read(t, "Makefile")
	want := strings.Fields(regexp.MustCompile(`(?m)^IMAGES := (.*)$`).FindStringSubmatch(makefile)[1])
	for _, match := range regexp.MustCompile(`--name \$\(REGISTRY\)/([a-z-]+):`).FindAllStringSubmatch(makefile, -1) {
		want = append(want, match[1])
	}
	var got []string
	for _, image := range Images {
		got = append(got, image.Name)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("a release has the images %v, the Makefile %v", got, want)
	}
}

// TestDockerfileBuildsTheImagesOfARelease compares the stages of the Dockerfile with the images: the same programs, entrypoint and user.
func TestDockerfileBuildsTheImagesOfARelease(t *testing.T) {
	stages := map[string]string{}
	for stage := range strings.SplitSeq(read(t, "Dockerfile"), "\nFROM ") {
		first, rest, _ := strings.Cut(stage, "\n")
		if base, name, _ := strings.Cut(first, " AS "); base == "scratch" {
			stages[name] = rest
		}
	}
	if len(stages) != len(Images) {
		t.Errorf("the Dockerfile has %d images, a release %d", len(stages), len(Images))
	}
	for _, image := range Images {
		stage := stages[image.Name]
		for _, line := range []string{"ENTRYPOINT [\"/" + image.Programs[0].Name() + "\"]", "USER " + image.User} {
			if !strings.Contains(stage, line+"\n") {
				t.Errorf("image %s of the Dockerfile has no line %q", image.Name, line)
			}
		}
		for _, program := range image.Programs {
			if !regexp.MustCompile(`(?m)^COPY .*/` + program.Name() + `\b.* /$`).MatchString(stage) {
				t.Errorf("image %s of the Dockerfile has no program %s", image.Name, program.Name())
			}
		}
		if strings.Contains(stage, "/etc/ssl/certs") != image.Roots {
			t.Errorf("image %s of the Dockerfile and of a release differ in having certificate authorities", image.Name)
		}
	}
}

// TestProgramsAreBuiltOnce: a release builds each program of its platforms once. A machine of another platform builds its own liqoctl too, and nothing else.
func TestProgramsAreBuiltOnce(t *testing.T) {
	amd, arm := Platform{OS: "linux", Arch: "amd64"}, Platform{OS: "linux", Arch: "arm64"}
	for name, row := range map[string]struct {
		platforms []Platform
		machine   Platform
		others    int
	}{
		"on one of its platforms":   {[]Platform{amd, arm}, amd, 0},
		"on another machine":        {[]Platform{arm}, amd, 1},
		"for another machine alone": {[]Platform{{OS: "darwin", Arch: "arm64"}}, amd, 1},
	} {
		built := map[string]int{}
		others := 0
		for _, b := range Builds(row.platforms, row.machine) {
			for _, p := range b.Programs {
				built[b.Platform.File()+" "+p.Name()]++
				if !slices.Contains(row.platforms, b.Platform) {
					others++
				}
			}
		}
		for _, p := range append(row.platforms, row.machine) {
			if built[p.File()+" "+Liqoctl.Name()] != 1 {
				t.Errorf("%s: liqoctl for %s is built %d times", name, p, built[p.File()+" "+Liqoctl.Name()])
			}
		}
		for program, times := range built {
			if times != 1 {
				t.Errorf("%s: %s is built %d times", name, program, times)
			}
		}
		if others != row.others {
			t.Errorf("%s: %d programs of another platform, want %d", name, others, row.others)
		}
	}
}
