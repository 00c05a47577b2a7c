// Package excerpt shortens and cleans texts from other parties, so that people can read them. A text that a provider, a peer or a driver reports may
// be huge, or have control characters.
package excerpt

import (
	"strings"
	"unicode"
)

// more marks a text that was cut.
const more = "..."

// Needs returns the maximum number of bytes that the function Of reads from a text, for an excerpt of the given length. A caller that reads from a
// stream can stop there.
func Needs(length int) int { return 4*length + 1 }

// Line works as Of does, and also replaces white space and line breaks by single spaces, so that the excerpt fits into a sentence.
func Line(text string, length int) string {
	return Of(strings.Join(strings.FieldsFunc(text[:min(len(text), Needs(length))], func(r rune) bool {
		return unicode.IsSpace(r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)
	}), " "), length)
}

// Of returns an excerpt of at most length bytes, which ends with "..." if the text was cut. It has no control characters except newlines and tabs,
// and no characters that change the direction of writing.
func Of(text string, length int) string {
	cut := len(text) >= Needs(length) // a huge text costs nothing
	if cut {
		text = text[:Needs(length)]
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if !cut && len(text) <= length {
		return text
	}
	return strings.ToValidUTF8(text[:min(len(text), length-len(more))], "") + more
}
