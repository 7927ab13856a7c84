package main

import (
	"fmt"
	"strings"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// Messages in the log of drydock-standalone.
const (
	doneMessage     = "done"                                  // package apply: a plan was carried out
	conflictMessage = "another process wrote, deciding again" // package apply: a conflict ended a plan before its last action
	givenUpMessage  = "event was given up"                    // dead-letter
)

// write is one write to the API server.
type write struct {
	function string
	reason   string
	action   string
}

// writesOf reads from the log what the operation wrote, in order. Volumes of other operations, which the sweep may have
// come across meanwhile, are left out. Of a plan that was given up because of a conflict the actions before it count.
func writesOf(lines []logLine, status *api.Resize) []write {
	var writes []write
	names := aliases(status)
	for _, line := range lines {
		if line.Message != doneMessage && line.Message != conflictMessage {
			continue
		}
		reason, actions := readPlan(line.Plan)
		for _, action := range actions {
			if line.Message == conflictMessage && strings.HasPrefix(line.Conflict, action) {
				break
			}
			if !foreignVolume(action, status) {
				writes = append(writes, write{line.Function, reason, names.Replace(action)})
			}
		}
	}
	return writes
}

// hurdles says what did not go smoothly on the way; empty if everything did.
func hurdles(lines []logLine) string {
	count := map[string]int{}
	for _, line := range lines {
		count[line.Message]++
	}
	var parts []string
	if n := count[conflictMessage]; n > 0 {
		parts = append(parts, fmt.Sprintf("plans that met a conflict and were decided anew: %d", n))
	}
	if n := givenUp(lines); n > 0 {
		parts = append(parts, fmt.Sprintf("events that were given up: %d", n))
	}
	return strings.Join(parts, ", ")
}

// aliases names what is called otherwise in each run.
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

// readPlan takes a plan's text apart: "do Reason: action; action -> announcement".
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

// splitUnquoted splits at the character where it is not within double quotes.
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

// numbered renders the list for people.
func numbered(writes []write) []string {
	lines := make([]string, 0, len(writes))
	for i, w := range writes {
		lines = append(lines, fmt.Sprintf("%3d  %-13s  %-15s  %s", i+1, w.function, w.reason, w.action))
	}
	return lines
}

// givenUp counts the events that went to the dead-letter sink.
func givenUp(lines []logLine) int {
	n := 0
	for _, line := range lines {
		if line.Message == givenUpMessage {
			n++
		}
	}
	return n
}
