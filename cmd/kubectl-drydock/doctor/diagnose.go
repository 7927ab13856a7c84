// Package doctor checks an installation of Drydock. It is pure: Facts has what the command read from the cluster, and Diagnose returns a
// finding for each check, with the remedy.
package doctor

import (
	"fmt"
	"slices"
	"strings"

	"drydock.dev/shared/text"
)

// maxText is the longest text of a finding, in bytes.
const maxText = 2000

// Diagnose returns the findings. The texts of other users in them have no control characters, and are not longer than maxText.
func Diagnose(f Facts) []Finding {
	all := slices.Concat(server(f.Server), installation(f), tick(f), policies(f), accounts(f), rights(f), storage(f), owned(f))
	for i := range all {
		all[i].State, all[i].Remedy = text.Line(all[i].State, maxText), text.Line(all[i].Remedy, maxText)
	}
	return all
}

// Level says how serious a finding is.
type Level string

// The levels of findings. Only a Problem fails the command.
const (
	OK Level = "ok"
	// Note: an optional part is missing, or a thing deserves attention. Operations work.
	Note Level = "note"
	// Unknown: the user may not read the facts, or they do not show the state.
	Unknown Level = "unknown"
	Problem Level = "problem"
)

// Finding is the result of a check.
type Finding struct {
	Subject string `json:"subject"`
	Level   Level  `json:"level"`
	State   string `json:"state"`
	// Remedy is the command or the action that improves the state. It is empty if there is nothing to do.
	Remedy string `json:"remedy,omitempty"`
}

// Version is the version of the documents. New fields do not change it.
const Version = 1

// Document is the output of kubectl drydock doctor -o json or -o yaml.
type Document struct {
	Version  int       `json:"version"`
	Findings []Finding `json:"findings"`
}

// Problems returns the subjects of the findings that are problems.
func Problems(findings []Finding) []string {
	var subjects []string
	for _, f := range findings {
		if f.Level == Problem {
			subjects = append(subjects, f.Subject)
		}
	}
	return subjects
}

// missing returns the expected names that are not among the present ones.
func missing(expected, present []string) []string {
	return slices.DeleteFunc(slices.Clone(expected), func(name string) bool { return slices.Contains(present, name) })
}

// shown is how many names a message lists.
const shown = 6

// list returns the names as a text. It lists some and counts the others.
func list(names []string) string {
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

// count returns the number with the noun, in the plural if it is not 1.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
