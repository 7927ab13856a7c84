package explain

import (
	"regexp"
	"strings"
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
