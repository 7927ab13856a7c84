// Package explain finds the documentation of a reason or of an alert. It is pure.
package explain

import (
	"regexp"
	"slices"
	"strings"

	"drydock.dev/docs"
)

// Explanation is the documentation of a reason or of an alert.
type Explanation struct {
	Reason  string `json:"reason"`
	Meaning string `json:"meaning"`
	// Cases are the situations with this reason, and their remedies. There may be none.
	Cases []Case `json:"cases,omitempty"`
	// Notes are further facts. Those of an alert are what to do, step by step.
	Notes []string `json:"notes,omitempty"`
}

// Case is one situation.
type Case struct {
	Situation string `json:"situation"`
	Cause     string `json:"cause"`
	Remedy    string `json:"remedy"`
}

// items returns the items of the page's lists, each on one line and without its marker.
func items(page string) []string {
	var all []string
	open := false
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		rest, begins := strings.CutPrefix(line, "- ")
		switch {
		case begins:
			all, open = append(all, rest), true
		case open && strings.HasPrefix(line, "  "):
			all[len(all)-1] += " " + strings.TrimSpace(line)
		default:
			open = false
		}
	}
	return all
}

var link = regexp.MustCompile(`\[([^\]]+)\]\(([^)]*)\)`)

// plain returns the text without the marks of Markdown. A link becomes its text, with the page in parentheses.
func plain(text string) string {
	text = link.ReplaceAllStringFunc(text, func(found string) string {
		parts := link.FindStringSubmatch(found)
		if strings.HasPrefix(parts[2], "#") {
			return parts[1]
		}
		return parts[1] + " (docs/" + parts[2] + ")"
	})
	return strings.TrimSpace(strings.NewReplacer("`", "", "**", "").Replace(text))
}

// Names returns all reasons and alerts.
func Names() []string { return append(Reasons(), Alerts()...) }

// Reasons returns all reasons in alphabetical order.
func Reasons() []string {
	var names []string
	for _, item := range items(docs.Reasons) {
		if name, _, ok := reasonOf(item); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Find returns the explanation of the reason or alert, in any case of letters. It reports false if there is none with this name.
func Find(reason string) (Explanation, bool) {
	for _, item := range items(docs.Reasons) {
		if name, meaning, ok := reasonOf(item); ok && strings.EqualFold(name, reason) {
			return Explanation{Reason: name, Meaning: plain(meaning), Cases: casesOf(name), Notes: notesOf(name)}, true
		}
	}
	if e, ok := cause(reason); ok {
		return e, true
	}
	return alert(reason)
}

// cause returns the explanation of a cause that the message of a reason names, such as NoSpace in "CopyFailed: ... NoSpace: ...".
func cause(name string) (Explanation, bool) {
	for _, row := range rows() {
		if row.reason != "" && strings.EqualFold(plain(row.cells[0]), name) {
			meaning := "A cause of " + row.reason + ": " + plain(row.cells[1])
			cases := []Case{{Situation: row.situation, Remedy: plain(row.cells[2])}}
			return Explanation{Reason: plain(row.cells[0]), Meaning: meaning, Cases: cases}, true
		}
	}
	return Explanation{}, false
}

// reasonOf splits an item such as "`UpToDate`: Every claim ...".
func reasonOf(item string) (name, meaning string, ok bool) {
	name, meaning, ok = strings.Cut(item, ": ")
	return strings.Trim(name, "`"), meaning, ok && strings.HasPrefix(name, "`")
}

// casesOf returns the rows about the reason in the tables of the page about troubleshooting.
func casesOf(reason string) []Case {
	var cases []Case
	for _, row := range rows() {
		n := len(row.cells)
		c := Case{Situation: row.situation, Cause: plain(row.cells[n-2]), Remedy: plain(row.cells[n-1])}
		switch {
		case row.reason == reason:
			c.Cause = plain(row.cells[0]) + ": " + c.Cause
		case !strings.Contains(strings.Join(row.cells, "|"), "`"+reason+"`"):
			continue
		case n == 2:
			c.Cause = "" // the table has no column for it
		}
		cases = append(cases, c)
	}
	return cases
}

// row is a row of a table on the page about troubleshooting, under the heading situation. If the table explains the messages of one reason,
// reason is its name, and the row has three cells: the words in the message, their meaning and the remedy.
type row struct {
	situation, reason string
	cells             []string
}

// messageTable is the line above the table that explains the messages of a reason.
var messageTable = regexp.MustCompile("^\\*\\*The message of `([A-Za-z]+)`\\*\\*$")

// rows returns the rows of all tables on the page about troubleshooting that have at least two cells.
func rows() []row {
	var all []row
	var situation, reason string
	for line := range strings.Lines(docs.Troubleshooting) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "## "); ok {
			situation = title
		}
		if table := messageTable.FindStringSubmatch(line); table != nil {
			reason = table[1]
		} else if line != "" && !strings.HasPrefix(line, "|") {
			reason = ""
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if !strings.HasPrefix(line, "|") || len(cells) < 2 || strings.HasPrefix(line, "|--") {
			continue
		}
		if reason != "" && (len(cells) != 3 || plain(cells[0]) == "it says") {
			continue
		}
		all = append(all, row{situation, reason, cells})
	}
	return all
}

// notesOf returns the items about the reason in the page about troubleshooting.
func notesOf(reason string) []string {
	var notes []string
	for _, item := range items(docs.Troubleshooting) {
		if strings.HasPrefix(item, "`"+reason+"` ") {
			notes = append(notes, plain(item))
		}
	}
	return notes
}

// Alerts returns the names of all alerts, in the order of the page about alerts.
func Alerts() []string {
	var names []string
	for _, section := range alertSections() {
		names = append(names, section.name)
	}
	return names
}

// alert returns the explanation of the alert, in any case of letters. It reports false for an unknown alert.
func alert(name string) (Explanation, bool) {
	for _, section := range alertSections() {
		if !strings.EqualFold(section.name, name) {
			continue
		}
		blocks := blocksOf(section.text)
		return Explanation{Reason: section.name, Meaning: blocks[0], Notes: blocks[1:]}, true
	}
	return Explanation{}, false
}

type alertSection struct{ name, text string }

// alertSections returns the sections of the page about alerts that explain an alert.
func alertSections() []alertSection {
	var all []alertSection
	for i, part := range strings.Split(docs.Alerts, "\n### ") {
		name, text, _ := strings.Cut(part, "\n")
		if i == 0 {
			continue // what precedes the first alert
		}
		text, _, _ = strings.Cut(text, "\n## ")
		all = append(all, alertSection{name: name, text: text})
	}
	return all
}

var step = regexp.MustCompile(`^([0-9]+\.|-) `)

// blocksOf returns the paragraphs and list items of the text, each on one line and without the marks of Markdown. It returns at least one.
func blocksOf(text string) []string {
	blocks := []string{""}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		last := &blocks[len(blocks)-1]
		switch {
		case *last != "" && (line == "" || step.MatchString(line)):
			blocks = append(blocks, line)
		case *last == "":
			*last = line
		default:
			*last += " " + line
		}
	}
	if len(blocks) > 1 && blocks[len(blocks)-1] == "" {
		blocks = blocks[:len(blocks)-1]
	}
	for i := range blocks {
		blocks[i] = plain(blocks[i])
	}
	return blocks
}
