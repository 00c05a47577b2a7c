// Command site renders the documents of Liqo to static pages with a search. A broken link fails it.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run writes the site of a checkout into a folder, once all of it is rendered.
func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: site CHECKOUT FOLDER")
	}
	files, err := build(os.DirFS(args[0]))
	if err != nil {
		return err
	}
	for name, content := range files {
		file := filepath.Join(args[1], filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return err
		}
	}
	fmt.Println(filepath.Join(args[1], "index.html"))
	return nil
}
