package logs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// timeLayout has milliseconds: the functions need less than a second for several steps.
const timeLayout = "2006-01-02T15:04:05.000Z"

// maxOrigin is the widest column of origins. Longer names are not cut.
const maxOrigin = 44

// Render returns a line of text for each line: its time, its origin and its content.
func Render(lines []Line) []string {
	width := 0
	for _, l := range lines {
		width = max(width, min(maxOrigin, utf8.RuneCountInString(l.Origin)))
	}
	rendered := make([]string, len(lines))
	for i, l := range lines {
		rendered[i] = fmt.Sprintf("%s  %-*s  %s", l.Time.UTC().Format(timeLayout), width, l.Origin, l.Content())
	}
	return rendered
}

// Content returns the line without its time and origin. A line with fields begins with the message or the result.
func (l Line) Content() string {
	if l.Fields == nil {
		return l.Text
	}
	var words []string
	if level := plain(l.Fields["level"]); level != "" && level != "INFO" {
		words = append(words, level)
	}
	for _, key := range []string{"msg", "result", "phase"} {
		if word := plain(l.Fields[key]); word != "" {
			words = append(words, word)
			break
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(l.Fields), compareKeys) {
		switch key {
		case "level", "msg", "result", "phase", "function":
			continue
		}
		words = append(words, key+"="+quoted(plain(l.Fields[key])))
	}
	return strings.Join(words, " ")
}

// first has the fields that readers look for first, and last the long ones. The others are between them, by name.
var (
	first = []string{"claim", "pass", "bytesDone", "bytesTotal", "filesDone", "filesTotal", "reason", "message", "code", "outcome", "took",
		"type", "subject", "reply", "set"}
	last = []string{"plan", "conflict", "error", "panic", "stack"}
)

func compareKeys(a, b string) int {
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
}

func rank(key string) int {
	if i := slices.Index(first, key); i >= 0 {
		return i
	}
	return len(first) + 1 + slices.Index(last, key)
}

// plain returns a value as text: a string as it is, and anything else as JSON.
func plain(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return string(encoded)
}

func quoted(word string) string {
	if word == "" || strings.ContainsAny(word, ` "=`) {
		return strconv.Quote(word)
	}
	return word
}
