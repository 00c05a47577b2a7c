// Command boards writes the chart's boards for Grafana, one JSON file for each. "make generate" runs it.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: boards FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "boards: %v\n", err)
		os.Exit(1)
	}
}

// run replaces the content of a folder by the boards.
func run(into string) error {
	if err := os.RemoveAll(into); err != nil {
		return fmt.Errorf("removing the former boards: %w", err)
	}
	if err := os.MkdirAll(into, 0o755); err != nil {
		return fmt.Errorf("creating the folder of the boards: %w", err)
	}
	for _, b := range []board{federation(), network(), reflection()} {
		text, err := b.json()
		if err != nil {
			return fmt.Errorf("building board %s: %w", b.name, err)
		}
		file := filepath.Join(into, b.name+".json")
		if err := os.WriteFile(file, text, 0o644); err != nil { //nolint:gosec // anybody may read it
			return fmt.Errorf("writing board %s: %w", b.name, err)
		}
	}
	return nil
}
