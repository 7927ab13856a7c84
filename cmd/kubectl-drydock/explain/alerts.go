package explain

import (
	"regexp"
	"strings"

	"drydock.dev/docs"
)

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
