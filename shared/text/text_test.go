package text

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestClip(t *testing.T) {
	for name, row := range map[string]struct {
		clip  func(string, int) string
		text  string
		limit int
		want  string
	}{
		"fits":                            {Clip, "volume", 6, "volume"},
		"too long":                        {Clip, "volumes", 6, "vol..."},
		"nothing":                         {Clip, "", 0, ""},
		"no room for the mark":            {Clip, "volumes", 3, "vol"},
		"no room":                         {Clip, "volumes", 0, ""},
		"a negative limit":                {Clip, "volumes", -1, ""},
		"a rune would be cut in half":     {Clip, "vöééé", 6, "vö..."},
		"a rune at the cut, no mark":      {Clip, "éé", 3, "é"},
		"invalid UTF-8":                   {Clip, "a\xffb", 9, "a?b"},
		"the end":                         {ClipStart, "volumes", 6, "...mes"},
		"the end fits":                    {ClipStart, "volume", 6, "volume"},
		"half a rune before the end":      {ClipStart, "éééb", 6, "...éb"},
		"the end, no room for the mark":   {ClipStart, "volumes", 2, "es"},
		"both ends":                       {ClipMiddle, "cannot copy /a/very/long/path. Retry", 25, "cannot cop ... ath. Retry"},
		"both ends fit":                   {ClipMiddle, "cannot copy", 11, "cannot copy"},
		"no room for both ends":           {ClipMiddle, "cannot copy", 6, ""},
		"both ends with halves of runes":  {ClipMiddle, "éééééééé", 11, "é ... é"},
		"one line":                        {Line, "  two\r\n\tlines  ", 99, "two lines"},
		"colours of a terminal":           {Line, "\x1b[31mred\x1b[0m", 99, "[31mred [0m"},
		"the order of text is turned":     {Line, "web\u202ebew", 99, "web bew"},
		"a zero-width space":              {Line, "we\u200bb", 99, "we b"},
		"the character for invalid bytes": {Line, "a\ufffd\xffb", 99, "a b"},
		"a long line":                     {Line, "a\n\n\nbcdef", 6, "a b..."},
	} {
		if got := row.clip(row.text, row.limit); got != row.want {
			t.Errorf("%s: %q to %d bytes is %q, want %q", name, row.text, row.limit, got, row.want)
		}
	}
}

func FuzzClip(f *testing.F) {
	f.Add("volume web-0", 6)
	f.Add("é\xff\x1b[0m", 3)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		for name, clip := range map[string]func(string, int) string{"Clip": Clip, "ClipStart": ClipStart, "ClipMiddle": ClipMiddle,
			"Line": Line} {
			got := clip(text, limit)
			if len(got) > max(limit, 0) || !utf8.ValidString(got) {
				t.Errorf("%s of %q to %d bytes is %q, of %d bytes", name, text, limit, got, len(got))
			}
		}
		if got := Printable(text); strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q has characters that cannot be printed", got)
		}
	})
}

// TestEscapesKeepTheValues: a document for programs has the same content, and shows nothing else on a terminal.
func TestEscapesKeepTheValues(t *testing.T) {
	value := map[string]string{"k\u202e": "a\x00\x1b\x7f\u0085\u009b\u2028\u2066\ufeff\ufffe\U000e0041é漢😀\"\\\t\n"}
	document, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	escaped := EscapeJSON(document)
	var got map[string]string
	if err := json.Unmarshal(escaped, &got); err != nil || !reflect.DeepEqual(got, value) {
		t.Errorf("%q, %v", got, err)
	}
	hidden := strings.ContainsFunc(string(escaped), func(r rune) bool { return !unicode.IsPrint(r) && r <= 0xffff })
	if hidden || !strings.Contains(string(escaped), "é漢😀") {
		t.Errorf("%q", escaped)
	}
}

func TestNumberAgreesWithItsWords(t *testing.T) {
	for n, want := range map[int]string{0: "0 pods", 1: "1 pod", 2: "2 pods"} {
		if got := Number(n, "pod", "pods"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
