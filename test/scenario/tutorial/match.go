package tutorial

import (
	"fmt"
	"regexp"
	"strings"
)

// random matches the random part of a generated name. Kubernetes omits vowels and some digits.
const random = `-[bcdfghjklmnpqrstvwxz2456789]`

// varying are patterns for parts of a word that differ in each run: times, addresses, chosen ports, ages, versions, random suffixes of names, and the node of a
// pod.
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

// complaints matches lines that kubectl prints because the test has no terminal.
var complaints = regexp.MustCompile(`^(Unable to use a TTY|If you don't see a command prompt|All commands and output from this session)`)

// Match returns an error that describes the difference between the output and the text in the README, nil if there is none. Only words are compared, not
// spaces. Parts that differ in each run may differ. A line "..." matches any number of lines, and "..." within a word matches any part of it.
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

// words returns a regular expression for a line of a README.
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
