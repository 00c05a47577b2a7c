package tutorial

import (
	"fmt"
	"regexp"
	"strings"
)

// Step is a part of a README that is run at once.
type Step struct {
	// Section is the heading above the step, Line the line of the README where it starts.
	Section string
	Line    int
	// Commands are run in the shell. Typed is the input of the program that the last command starts.
	Commands, Typed string
	// Shows is the expected output; "" if the README shows none.
	Shows string
	// Background means that the commands don't end by themselves.
	Background bool
}

// Parse returns the steps of a README.
func Parse(markdown string) ([]Step, error) {
	var steps []Step
	var section, kind string
	var block []string
	began, inside := 0, false
	for i, line := range strings.Split(markdown, "\n") {
		mark, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && !inside:
			kind, block, began, inside = mark, nil, i+1, true
		case fence:
			inside = false
			text := strings.Join(block, "\n") + "\n"
			if kind == "bash" || kind == "bash background" {
				steps = append(steps, Step{Section: section, Line: began, Commands: text, Background: kind != "bash"})
				continue
			}
			if len(steps) == 0 {
				return nil, fmt.Errorf("line %d: a block marked %q with no command before it", began, kind)
			}
			last := &steps[len(steps)-1]
			switch {
			case kind == "sh" && last.Typed == "" && last.Shows == "":
				last.Typed = text
			case (kind == "text" || kind == "yaml" || kind == "json") && last.Shows == "":
				last.Shows = text
			default:
				return nil, fmt.Errorf("line %d: a block marked %q: want bash, \"bash background\", sh, or one of text, yaml, json after them", began, kind)
			}
		case inside:
			block = append(block, line)
		case strings.HasPrefix(line, "#"):
			section = strings.TrimSpace(strings.TrimLeft(line, "#"))
		}
	}
	if inside {
		return nil, fmt.Errorf("line %d: the block does not end", began)
	}
	return steps, nil
}

// looks matches commands that change nothing, so that they can be repeated until their output is as expected.
var looks = regexp.MustCompile(`^(watch )?kubectl (get|describe|logs|run .*--rm) |^(liqoctl (status|info)|playground get)\b`)

// again reports whether the step may be repeated.
func (s Step) again() bool {
	for _, command := range strings.Split(strings.ReplaceAll(s.Commands, "\\\n", ""), "\n") {
		if command != "" && !looks.MatchString(command) {
			return false
		}
	}
	return true
}

// fails reports whether the README shows an error.
func (s Step) fails() bool { return strings.HasPrefix(s.Shows, "Error") }
