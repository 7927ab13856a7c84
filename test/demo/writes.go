package main

import (
	"fmt"
	"strings"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// Messages in the log of drydock-standalone.
const (
	doneMessage       = "done"               // package apply: a plan was applied
	deadLetterMessage = "event was given up" // function dead-letter
)

// write is one write to the API server.
type write struct {
	function string
	reason   string
	action   string
}

// writesOf returns the operation's writes from the log, in order. It omits volumes of other operations, which a sweep may have
// touched in between. If a plan met a conflict, the actions before the conflict count.
func writesOf(lines []logLine, status *api.Resize) []write {
	var writes []write
	names := aliases(status)
	for _, line := range lines {
		if line.Message != doneMessage && line.Conflict == "" {
			continue
		}
		reason, actions := readPlan(line.Plan)
		for _, action := range actions {
			if line.Conflict != "" && strings.HasPrefix(line.Conflict, action) {
				break
			}
			if !foreignVolume(action, status) {
				writes = append(writes, write{line.Function, reason, names.Replace(action)})
			}
		}
	}
	return writes
}

// incidents counts the conflicts and the dead-lettered events. The text is empty if there were none.
func incidents(lines []logLine) string {
	conflicts := 0
	for _, line := range lines {
		if line.Conflict != "" {
			conflicts++
		}
	}
	var parts []string
	if conflicts > 0 {
		parts = append(parts, fmt.Sprintf("plans decided again after a conflict: %d", conflicts))
	}
	if n := countDeadLettered(lines); n > 0 {
		parts = append(parts, fmt.Sprintf("dead-lettered events: %d", n))
	}
	return strings.Join(parts, ", ")
}

// aliases replaces names that differ in each run.
func aliases(status *api.Resize) *strings.Replacer {
	var pairs []string
	for _, move := range status.Moves() {
		pairs = append(pairs, move.OldVolume, "OLD("+move.Claim+")", status.TargetOf(move), "TARGET("+move.Claim+")")
		if move.NewVolume != "" {
			pairs = append(pairs, move.NewVolume, "NEW("+move.Claim+")")
		}
	}
	for _, m := range status.Members {
		for attempt := range m.Attempt {
			pairs = append(pairs, api.MoverName(status.Operation, m.Ordinal, attempt+1), fmt.Sprintf("MOVER(%d)", m.Ordinal))
		}
	}
	return strings.NewReplacer(append(pairs, api.JournalName(status.Operation), "JOURNAL", status.Operation, "OPERATION")...)
}

func foreignVolume(action string, status *api.Resize) bool {
	fields := strings.Fields(action)
	if len(fields) < 3 || fields[1] != string(plan.Volumes) {
		return false
	}
	for _, move := range status.Moves() {
		if fields[2] == move.OldVolume || fields[2] == move.NewVolume {
			return false
		}
	}
	return true
}

// readPlan parses the text of a plan: "do Reason: action; action -> announcement".
func readPlan(text string) (reason string, actions []string) {
	head, rest, _ := strings.Cut(text, ": ")
	fields := strings.Fields(head)
	if len(fields) < 2 || fields[0] != string(plan.KindDo) {
		return "", nil
	}
	for _, part := range splitUnquoted(rest, ';') {
		if i := strings.LastIndex(part, " -> "); i >= 0 && !strings.Contains(part[i:], `"`) {
			part = part[:i]
		}
		actions = append(actions, strings.TrimSpace(part))
	}
	return fields[1], actions
}

// splitUnquoted splits the text at the character, except within double quotes.
func splitUnquoted(text string, at rune) []string {
	var parts []string
	begin, quoted, escaped := 0, false, false
	for i, c := range text {
		switch {
		case escaped:
			escaped = false
		case c == '\\' && quoted:
			escaped = true
		case c == '"':
			quoted = !quoted
		case c == at && !quoted:
			parts = append(parts, text[begin:i])
			begin = i + 1
		}
	}
	return append(parts, text[begin:])
}

// numbered formats the list for the reader.
func numbered(writes []write) []string {
	lines := make([]string, 0, len(writes))
	for i, w := range writes {
		lines = append(lines, fmt.Sprintf("%3d  %-13s  %-15s  %s", i+1, w.function, w.reason, w.action))
	}
	return lines
}

// countDeadLettered counts the events that went to the dead-letter sink.
func countDeadLettered(lines []logLine) int {
	n := 0
	for _, line := range lines {
		if line.Message == deadLetterMessage {
			n++
		}
	}
	return n
}
