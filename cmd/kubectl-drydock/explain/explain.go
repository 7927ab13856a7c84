// Package explain finds the documentation of a reason. It is pure.
package explain

import (
	"regexp"
	"slices"
	"strings"

	"drydock.dev/docs"
)

// Explanation is the documentation of a reason.
type Explanation struct {
	Reason  string `json:"reason"`
	Meaning string `json:"meaning"`
	// Cases are the situations with this reason, and their remedies. There may be none.
	Cases []Case `json:"cases,omitempty"`
	// Notes are further facts.
	Notes []string `json:"notes,omitempty"`
}

// Case is one situation.
type Case struct {
	Situation string `json:"situation"`
	Cause     string `json:"cause"`
	Remedy    string `json:"remedy"`
}

// Names returns all reasons in alphabetical order.
func Names() []string {
	var names []string
	for _, item := range items(docs.Reasons) {
		if name, _, ok := reasonOf(item); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Find returns the explanation of the reason, in any case of letters. It reports false for an unknown reason.
func Find(reason string) (Explanation, bool) {
	for _, item := range items(docs.Reasons) {
		if name, meaning, ok := reasonOf(item); ok && strings.EqualFold(name, reason) {
			return Explanation{Reason: name, Meaning: plain(meaning), Cases: casesOf(name), Notes: notesOf(name)}, true
		}
	}
	return Explanation{}, false
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
