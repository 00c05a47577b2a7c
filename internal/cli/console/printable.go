package console

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// printable returns text with control characters in their escaped form, except line breaks and tabs. Messages and statuses contain texts from other
// clusters. Unescaped, these could move the cursor, hide or forge lines, or write to the user's clipboard.
func printable(text string) string {
	if strings.IndexFunc(text, controls) < 0 {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		switch {
		case !controls(r):
			out.WriteRune(r)
		case r <= 0xff:
			fmt.Fprintf(&out, `\x%02x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// controls reports whether a terminal could interpret a character: control characters, and characters that change the direction of the text.
func controls(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r)
}

// textWriter writes text to next with control characters in their escaped form.
type textWriter struct{ next io.Writer }

// Write implements io.Writer.
func (w textWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.next, printable(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
