// Package explain finds the documentation of a reason or of an alert. It is pure.
package explain

import (
	"regexp"
	"slices"
	"strings"

	"drydock.dev/docs"
)

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
