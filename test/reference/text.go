package reference

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// width is the maximum length of a line in a generated page. Rows of tables and single words may be longer.
const width = 120

// wrap breaks the text into lines. A code span stays on one line.
func wrap(text string) string { return wrapAfter(text, "") }

// wrapItem breaks an item of a list into lines. The lines after the first are indented to the item's text.
func wrapItem(text string) string { return wrapAfter(text, "  ") }

// wrapAfter breaks the text into lines, and puts the indent before each line after the first.
func wrapAfter(text, indent string) string {
	var b strings.Builder
	line := ""
	for _, word := range words(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			b.WriteString(line + "\n")
			line = indent + word
		default:
			line += " " + word
		}
	}
	return b.String() + line + "\n"
}

// words splits the text at spaces. A code span or the text of a link stays one word.
func words(text string) []string {
	code, brackets := false, 0
	return strings.FieldsFunc(text, func(r rune) bool {
		switch r {
		case '`':
			code = !code
		case '[':
			brackets++
		case ']':
			brackets--
		}
		return r == ' ' && !code && brackets <= 0
	})
}

// capital returns the text with its first letter in upper case.
func capital(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// anchor returns the anchor of a heading in the rendered page.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}
