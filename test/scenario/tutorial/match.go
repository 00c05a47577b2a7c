package tutorial

import (
	"fmt"
	"regexp"
	"strings"
)

// random are the characters that Kubernetes makes names up from: without vowels, so that no word comes out.
const random = `-[bcdfghjklmnpqrstvwxz2456789]`

// varying are the parts of a word that are others each time: times, addresses, ports that were chosen, ages, versions, the ends of names that
// Kubernetes makes up, and on which node of several a pod is.
var varying = []struct{ shown, is string }{
	{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`, `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`},
	{`127\.0\.0\.1:\d+`, `127\.0\.0\.1:\d+`},
	{`\d+\.\d+\.\d+\.\d+`, `\d+\.\d+\.\d+\.\d+`},
	{`v\d+\.\d+\.\d+[-\w.]*`, `v\d+\.\d+\.\d+[-\w.]*`},
	{random + `{6,10}` + random + `{5}$`, random + `{6,10}` + random + `{5}`},
	{`\b\d+[dhms](\d+[hms])?\b`, `\d+[dhms](?:\d+[hms])?`},
	{`\b\d{5}/TCP`, `\d{5}/TCP`},
	{`-\d$`, `-\d`},
	{random + `{5}$`, random + `{5}`},
}

// complaints are lines of kubectl about a terminal that a test has not, and a person has.
var complaints = regexp.MustCompile(`^(Unable to use a TTY|If you don't see a command prompt|All commands and output from this session)`)

// Match tells in what the output differs from what was shown, or returns nil. Words count, spaces don't; what varies may vary; a line "..."
// stands for any lines, also none, and "..." within a word for any part of it.
func Match(shown, got string) error {
	var lines []string
	for _, line := range strings.Split(strings.TrimSpace(got), "\n") {
		if line = strings.TrimRight(line, " \r"); !complaints.MatchString(line) {
			lines = append(lines, line)
		}
	}
	var pattern strings.Builder
	pattern.WriteString(`^`)
	for _, line := range strings.Split(strings.TrimSpace(shown), "\n") {
		if strings.TrimSpace(line) == "..." {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		pattern.WriteString(words(line) + `\n`)
	}
	pattern.WriteString(`$`)
	all, err := regexp.Compile(pattern.String())
	if err != nil {
		return fmt.Errorf("understanding what is shown: %w", err)
	}
	if !all.MatchString(strings.Join(lines, "\n") + "\n") {
		return fmt.Errorf("shown is\n%sand this came\n%s", indented(shown), indented(strings.Join(lines, "\n")))
	}
	return nil
}

// words is a regular expression for a line of a README.
func words(line string) string {
	fields := strings.Fields(line)
	for i, word := range fields {
		fields[i] = expression(word)
	}
	return `[ \t]*` + strings.Join(fields, `[ \t]+`) + `[ \t]*`
}

func expression(word string) string {
	if before, after, found := strings.Cut(word, "..."); found {
		return expression(before) + `\S*` + expression(after)
	}
	for _, v := range varying {
		if at := regexp.MustCompile(v.shown).FindStringIndex(word); at != nil {
			return expression(word[:at[0]]) + v.is + expression(word[at[1]:])
		}
	}
	return regexp.QuoteMeta(word)
}

func indented(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ") + "\n"
}
