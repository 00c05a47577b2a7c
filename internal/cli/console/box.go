package console

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Box is a titled frame with lines of text, indented by their depth.
type Box struct {
	Title string
	lines []string
}

// Line adds "key: value" at a depth; without a value only the key.
func (b *Box) Line(depth int, key, value string) {
	line := strings.Repeat("    ", depth) + key
	if value != "" {
		line += ": " + value
	}
	b.lines = append(b.lines, line)
}

// Write draws the box.
func (b *Box) Write(w io.Writer) error {
	width := utf8.RuneCountInString(b.Title) + 4
	for _, line := range b.lines {
		width = max(width, utf8.RuneCountInString(line)+2)
	}
	pad := func(n int, fill string) string { return strings.Repeat(fill, max(n, 0)) }
	var text strings.Builder
	fmt.Fprintf(&text, "┌─ %s %s┐\n", b.Title, pad(width-utf8.RuneCountInString(b.Title)-3, "─"))
	for _, line := range b.lines {
		fmt.Fprintf(&text, "│ %s%s │\n", line, pad(width-2-utf8.RuneCountInString(line), " "))
	}
	fmt.Fprintf(&text, "└%s┘\n", pad(width, "─"))
	_, err := io.WriteString(w, text.String())
	return err
}
