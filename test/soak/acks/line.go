// Package acks counts acknowledged writes, and finds the ones that a volume has lost.
//
// A writer appends lines to a file on its volume. It acknowledges a line to a Collector after fsync. The Ledger knows every acknowledged
// line, so it notices an older copy of the volume, an empty volume, and the volume of another member.
package acks

import (
	"fmt"
	"strings"
)

// LogName is the name of the file on each volume.
const LogName = "log"

// Drained is the first word of a connection that sends a whole file instead of acknowledgements.
const Drained = "drained"

// Line is a line of a member's file. File identifies the file, so that an empty volume cannot look like a full one.
type Line struct {
	File   string
	Member string
	Number int
}

// String returns the line without its newline.
func (l Line) String() string { return fmt.Sprintf("%s %s %d", l.File, l.Member, l.Number) }

// ParseLine reads a line without its newline.
func ParseLine(text string) (Line, error) {
	var l Line
	if n, err := fmt.Sscanf(text, "%s %s %d", &l.File, &l.Member, &l.Number); err != nil || n != 3 || l.String() != text || l.Number < 1 {
		return Line{}, fmt.Errorf("%q is not a line of a writer", text)
	}
	return l, nil
}

// CompleteLines returns the lines of a file that end with a newline. A writer may be about to write the rest.
func CompleteLines(content string) []string {
	end := strings.LastIndex(content, "\n")
	if end < 0 {
		return nil
	}
	return strings.Split(content[:end], "\n")
}
