package gateway

import (
	"strings"
	"unicode"
)

// clean returns the text on one line with at most so many runes. It removes characters that move or hide other text.
func clean(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsGraphic(r), r == unicode.ReplacementChar: // includes direction overrides
			return -1
		}
		return r
	}, text)
	return clip(strings.TrimSpace(text), most)
}

// clip shortens the text to so many runes.
func clip(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most-1]) + "…"
}
