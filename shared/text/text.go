// Package text makes untrusted text fit for messages, records, logs and terminals: printable, valid UTF-8 and of limited length. It also
// makes words agree with a number.
package text

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// cut stands where text is missing.
const cut = "..."

// Clip returns the beginning of the text, in at most limit bytes of valid UTF-8. It ends with "..." if the rest is missing. Bytes that are
// not UTF-8 become a question mark.
func Clip(text string, limit int) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= limit {
		return text
	}
	if limit <= len(cut) {
		return head(text, limit)
	}
	return head(text, limit-len(cut)) + cut
}

// ClipStart is like Clip, but returns the end of the text. It begins with "..." if the start is missing.
func ClipStart(text string, limit int) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= limit {
		return text
	}
	if limit <= len(cut) {
		return tail(text, limit)
	}
	return cut + tail(text, limit-len(cut))
}

// ClipMiddle is like Clip, but cuts in the middle, where long paths are, so that the remedy at the end of a message stays. It returns
// nothing if the limit leaves no room for both ends.
func ClipMiddle(text string, limit int) string {
	const gap = " " + cut + " "
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= limit {
		return text
	}
	if limit < len(gap)+2 {
		return ""
	}
	half := (limit - len(gap)) / 2
	return head(text, half) + gap + tail(text, half)
}

// Line returns the text as one line of printable characters, in at most limit bytes.
func Line(text string, limit int) string { return Clip(Printable(text), limit) }

// Printable returns the text as one line. Control characters, characters that hide or move other text, and bytes that are not UTF-8 become
// spaces. Neighbouring spaces become one.
func Printable(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return r == ' ' || r == utf8.RuneError || !unicode.IsPrint(r)
	}), " ")
}

// EscapeJSON returns the JSON document with escapes in place of characters up to U+FFFF that do not print. The values stay the same. Such
// characters move text on a terminal, and converters to YAML reject some of them.
func EscapeJSON(document []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(document) {
		switch {
		case r < utf8.RuneSelf && r != 0x7f || unicode.IsPrint(r), r > 0xffff: // JSON escapes these as surrogates, which YAML does not read
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}

// Bytes returns the number of bytes with a unit, for example "1.5 GiB".
func Bytes(n int64) string {
	value, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		if value < 1024 {
			break
		}
		value, unit = value/1024, next
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", value), ".0") + " " + unit
}

// head returns at most the first n bytes of the text, without half a rune at the end.
func head(text string, n int) string {
	n = max(n, 0)
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// tail returns at most the last n bytes of the text, without half a rune at the start.
func tail(text string, n int) string {
	from := len(text) - max(n, 0)
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	return text[from:]
}

// Number returns the number with the words that agree with it.
func Number(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
