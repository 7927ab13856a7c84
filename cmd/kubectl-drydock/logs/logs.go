// Package logs selects the log lines that belong to one operation on a StatefulSet, and merges those of several containers in order of
// time. The text of a log is hostile: every part of a line becomes printable, and loses its credentials. The package is pure.
package logs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"drydock.dev/shared/moverreport"
)

// Version is the version of the documents. New fields do not change it.
const Version = 1

// Kind is the work of a container.
type Kind string

// The kinds of containers.
const (
	Function Kind = "function"
	Mover    Kind = "mover"
	Hook     Kind = "hook"
	Cleanup  Kind = "cleanup"
)

// Source is a container whose log is read.
type Source struct {
	Kind      Kind
	Namespace string
	Pod       string
	Container string
	// Previous is true for the log of the container before its last restart.
	Previous bool
}

// Name returns the name of the source for readers: pod/container.
func (s Source) Name() string { return s.Pod + "/" + s.Container }

// MoverContainers are the containers of a mover's pod that write reports. Injected containers have other names.
var MoverContainers = []string{moverreport.FirstContainer, moverreport.FinalContainer, moverreport.PinContainer}

// Line is a line of a log.
type Line struct {
	// Time is when the container runtime received the line, as the API server returns it.
	Time time.Time `json:"time"`
	// Origin is the name of a function, or pod/container.
	Origin string `json:"origin"`
	Kind   Kind   `json:"kind"`
	// Fields has the line of a function or mover, and Text any other line.
	Fields map[string]any `json:"fields,omitempty"`
	Text   string         `json:"text,omitempty"`
}

// Document is the output of kubectl drydock logs -o json.
type Document struct {
	Version   int    `json:"version"`
	Namespace string `json:"namespace"`
	Set       string `json:"set"`
	Operation string `json:"operation"`
	Lines     []Line `json:"lines"`
	// Notes say which lines are missing, and why.
	Notes []string `json:"notes,omitempty"`
}

// maxKept limits the lines that are kept, in bytes of the raw lines. Decoded, they take a few times as much.
const maxKept = 16 << 20

// Collector keeps the lines of all sources, within a limit.
type Collector struct {
	lines []Line
	size  int
	left  int // lines that did not fit
}

// Add keeps the line, which had that many bytes.
func (c *Collector) Add(line Line, size int) {
	if c.size+size > maxKept {
		c.left++
		return
	}
	c.size += size
	c.lines = append(c.lines, line)
}

// Omitted returns how many lines did not fit.
func (c *Collector) Omitted() int { return c.left }

// Merged returns the lines in order of time. Lines with the same time keep the order of Add.
func (c *Collector) Merged() []Line {
	merged := slices.Clone(c.lines)
	slices.SortStableFunc(merged, func(a, b Line) int { return a.Time.Compare(b.Time) })
	return merged
}

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
