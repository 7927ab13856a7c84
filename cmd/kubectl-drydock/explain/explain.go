// Package explain finds the documentation of a reason or of an alert. It is pure.
package explain

import (
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
	return alert(reason)
}

// reasonOf splits an item such as "`UpToDate`: Every claim ...".
func reasonOf(item string) (name, meaning string, ok bool) {
	name, meaning, ok = strings.Cut(item, ": ")
	return strings.Trim(name, "`"), meaning, ok && strings.HasPrefix(name, "`")
}

// casesOf returns the rows about the reason in the tables of the page about troubleshooting.
func casesOf(reason string) []Case {
	var cases []Case
	situation := ""
	for line := range strings.Lines(docs.Troubleshooting) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "## "); ok {
			situation = title
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if !strings.HasPrefix(line, "|") || len(cells) < 2 || !strings.Contains(line, "`"+reason+"`") {
			continue
		}
		c := Case{Situation: situation, Cause: plain(cells[len(cells)-2]), Remedy: plain(cells[len(cells)-1])}
		if len(cells) == 2 {
			c.Cause = "" // the table has no column for it
		}
		cases = append(cases, c)
	}
	return cases
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
