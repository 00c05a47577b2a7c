package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// programName is how the user calls us: kubectl runs plugins under their file name.
func programName(args []string) string {
	if len(args) > 0 && strings.HasPrefix(filepath.Base(args[0]), "kubectl-liqo") {
		return "kubectl liqo"
	}
	return "liqoctl"
}

// example turns an indented literal with %[1]s for the program's name into the form that help prints.
func example(text string) string {
	text = strings.Trim(text, "\n")
	lines := strings.Split(text, "\n")
	indent := len(lines[0]) - len(strings.TrimLeft(lines[0], "\t"))
	for i, line := range lines {
		lines[i] = "  " + strings.TrimPrefix(line, strings.Repeat("\t", indent))
	}
	return fmt.Sprintf(strings.TrimRight(strings.Join(lines, "\n"), " \t\n"), programName(os.Args))
}
