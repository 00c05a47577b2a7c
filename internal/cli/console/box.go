package console

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// Box is a titled frame around lines of text. Each line is indented by its depth.
type Box struct {
	Title string
	lines []string
}

// Line adds "key: value" at the given depth. If the value is empty, it adds only the key.
func (b *Box) Line(depth int, key, value string) {
	line := strings.Repeat("    ", depth) + key
	if value != "" {
		line += ": " + value
	}
	b.lines = append(b.lines, printable(strings.ReplaceAll(line, "\n", " ")))
}

const (
	// frame is the number of columns that the frame of a box uses.
	frame = 4
	// someColumns is the assumed width if the output is not a terminal or the terminal does not report its width.
	someColumns = 120
)

// columns returns the width of the terminal that w writes to.
func columns(w io.Writer) int {
	if text, ok := w.(textWriter); ok {
		w = text.next
	}
	if file, ok := w.(*os.File); ok {
		if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > frame {
			return columns
		}
	}
	return someColumns
}

// wrap breaks a line at spaces so that each part has at most the given number of columns. Continuation lines are indented two columns more
// than the line. A word longer than that is not broken.
func wrap(line string, columns int) []string {
	indent := strings.Repeat(" ", len(line)-len(strings.TrimLeft(line, " "))+2)
	var out []string
	for utf8.RuneCountInString(line) > columns {
		runes := []rune(line)
		begin := len(runes) - utf8.RuneCountInString(strings.TrimLeft(line, " "))
		at := -1
		for i := begin; i < len(runes) && (i <= columns || at < 0); i++ {
			if runes[i] == ' ' {
				at = i
			}
		}
		if at < 0 {
			break
		}
		out = append(out, string(runes[:at]))
		line = indent + strings.TrimLeft(string(runes[at:]), " ")
	}
	return append(out, line)
}

// Write draws the box and wraps longer lines, so that the box is no wider than the terminal.
func (b *Box) Write(w io.Writer) error {
	width := utf8.RuneCountInString(b.Title) + 4
	var lines []string
	for _, line := range b.lines {
		lines = append(lines, wrap(line, columns(w)-frame)...)
	}
	for _, line := range lines {
		width = max(width, utf8.RuneCountInString(line)+2)
	}
	pad := func(n int, fill string) string { return strings.Repeat(fill, max(n, 0)) }
	var text strings.Builder
	fmt.Fprintf(&text, "┌─ %s %s┐\n", b.Title, pad(width-utf8.RuneCountInString(b.Title)-3, "─"))
	for _, line := range lines {
		fmt.Fprintf(&text, "│ %s%s │\n", line, pad(width-2-utf8.RuneCountInString(line), " "))
	}
	fmt.Fprintf(&text, "└%s┘\n", pad(width, "─"))
	_, err := io.WriteString(w, text.String())
	return err
}
