package command

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/charmbracelet/x/ansi"

	"drydock.dev/cmd/kubectl-drydock/terminal"
	"drydock.dev/shared/api"
	"drydock.dev/shared/progress"
	"drydock.dev/shared/text"
)

// barWidth is the number of characters of a bar.
const barWidth = 10

// progressLines returns the claims that grow, and the members as a tree.
func progressLines(d *progress.Document, t *terminal.Terminal, flags connection) []string {
	var lines []string
	if len(d.Growing) > 0 {
		lines = append(append(lines, ""), growthTable(d)...)
	}
	if len(d.Members) > 0 {
		lines = append(append(lines, ""), fittingTree(d, t, flags)...)
	}
	return lines
}

func growthTable(d *progress.Document) []string {
	rows := [][]string{{"CLAIM", "GROWS", "STATE"}}
	for _, g := range d.Growing {
		rows = append(rows, []string{text.Printable(g.Claim), change(g.From.String(), sizeAndClass(g.To.String(), "", g.Attributes)), g.Words()})
	}
	return align(rows)
}

// room says how much room a tree of members has.
type room int

const (
	wide   room = iota // every column
	narrow             // what a member waits for is below it
	tight              // also without bars, rates and the bytes of the final pass
)

// fittingTree returns the widest tree of members that fits on the screen.
func fittingTree(d *progress.Document, t *terminal.Terminal, flags connection) []string {
	width := t.Width()
	for _, r := range []room{wide, narrow} {
		if lines := memberTree(d, t, r, flags); width == 0 || widest(lines) <= width {
			return lines
		}
	}
	return memberTree(d, t, tight, flags)
}

func widest(lines []string) int {
	most := 0
	for _, line := range lines {
		most = max(most, ansi.StringWidth(line))
	}
	return most
}

// memberTree returns a row for each member, and below it a row for each of its claims.
func memberTree(d *progress.Document, t *terminal.Terminal, r room, flags connection) []string {
	rows := [][]string{{"MEMBER", "PHASE", "COPIED", "STOP"}}
	if r == wide {
		rows[0] = append(rows[0], "WAITS FOR")
	}
	waits := map[int][]string{}     // lines below a row
	phases := []api.MemberPhase{""} // of each row; empty for rows without one
	for i, m := range d.Members {
		branch, below := "├─ ", "│  "
		if i == len(d.Members)-1 {
			branch, below = "└─ ", "   "
		}
		row := []string{branch + fmt.Sprintf("%s-%d", d.Set, m.Ordinal), string(m.Phase), copied(m, r), stopTime(m)}
		switch {
		case r == wide:
			row = append(row, orDash(flags.in(text.Printable(m.Waits))))
		case m.Waits != "":
			waits[len(rows)] = wrap(below+"│  waits for: "+flags.in(text.Printable(m.Waits)), t.Width(), below+"│    ")
		}
		rows, phases = append(rows, row), append(phases, m.Phase)
		for j, c := range m.Claims {
			leaf := "├─ "
			if j == len(m.Claims)-1 {
				leaf = "└─ "
			}
			cells := make([]string, len(rows[0]))
			cells[0] = below + leaf + text.Printable(c.Template)
			cells[1] = change(c.From.String(), sizeAndClass(c.To.String(), c.Class, c.Attributes))
			rows = append(rows, cells)
			phases = append(phases, "")
		}
	}
	var lines []string
	for i, line := range align(rows) {
		if phase := phases[i]; phase != "" {
			line = strings.Replace(line, string(phase), t.Styled(memberStyle(phase), string(phase)), 1)
		}
		lines = append(append(lines, line), waits[i]...)
	}
	return lines
}

// wrap returns the line as lines that fit into the width. All but the first begin with the indent. A width of 0 has no limit. A word is
// never broken, not even at a hyphen: half a name in a command may be the name of another object.
func wrap(line string, width int, indent string) []string {
	if width-ansi.StringWidth(indent) < 1 || ansi.StringWidth(line) <= width {
		return []string{line}
	}
	var lines []string
	begun, isEmpty := "", true // the last line
	for _, word := range strings.Split(line, " ") {
		switch {
		case isEmpty:
			begun += word
		case ansi.StringWidth(begun)+1+ansi.StringWidth(word) <= width:
			begun += " " + word
		default:
			lines, begun = append(lines, strings.TrimRight(begun, " ")), indent+word
		}
		isEmpty = false
	}
	return append(lines, strings.TrimRight(begun, " "))
}

// memberStyle returns the look of the phase: green for moved members, and yellow for those that do not serve.
func memberStyle(phase api.MemberPhase) terminal.Style {
	switch phase {
	case api.MemberMoved:
		return terminal.Good
	case api.MemberStopping, api.MemberFinalPass, api.MemberGrowing, api.MemberSwapping, api.MemberStarting:
		return terminal.Attention
	}
	return terminal.Plain
}

// align returns the rows as lines with aligned columns. Every row must have the same number of cells. A cell may quote other users: it gets
// no control characters, so that each row is one line and each cell is in its column.
func align(rows [][]string) []string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = strings.Map(printable, cell)
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	_ = table.Flush() // writes to memory
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

// sizeAndClass returns the size with the StorageClass and VolumeAttributesClass, as a request writes them.
func sizeAndClass(size, class string, attributes *string) string {
	if class != "" {
		size += "@" + class
	}
	if attributes != nil && *attributes != "" {
		size += "%" + *attributes
	}
	return text.Printable(size)
}

// copied returns a bar with the copied bytes of the member. While they grow, it adds the rate and the time that is left.
func copied(m progress.Member, r room) string {
	if m.Bytes == 0 {
		return "-"
	}
	words := copiedWords(m)
	if r != tight {
		words = bar(float64(m.Copied)/float64(m.Bytes)) + " " + words
		if m.Rate > 0 && m.Copied < m.Bytes {
			words += fmt.Sprintf(", %s/s", text.Bytes(m.Rate))
		}
	}
	switch {
	case m.SecondsLeft != nil && m.Copied < m.Bytes:
		words += fmt.Sprintf(", %s left", progress.LeftWords(*m.SecondsLeft))
	case m.FinalPassBytes > 0 && r != tight:
		words += fmt.Sprintf(" (final pass %s)", text.Bytes(m.FinalPassBytes))
	}
	return words
}

// copiedWords returns the copied bytes of the member, and all bytes if some are missing.
func copiedWords(m progress.Member) string {
	if m.Copied >= m.Bytes {
		return text.Bytes(m.Bytes)
	}
	return text.Bytes(m.Copied) + " of " + text.Bytes(m.Bytes)
}

// bar returns a bar that is full to this part, from 0 to 1. Users can write any number into a record, so another part is cut.
func bar(part float64) string {
	full := int(min(max(part, 0), 1) * barWidth)
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
}

// stopTime returns how long the member was, is, or will be stopped.
func stopTime(m progress.Member) string {
	switch {
	case m.DownSeconds != nil && m.Phase == api.MemberMoved:
		return fmt.Sprintf("%d s", *m.DownSeconds)
	case m.DownSeconds != nil:
		return fmt.Sprintf("%d s so far", *m.DownSeconds)
	case m.ForecastSeconds > 0 && (m.Phase == api.MemberCopying || m.Phase == api.MemberWaiting):
		return fmt.Sprintf("final pass of %.0f s", m.ForecastSeconds)
	}
	return "-"
}
