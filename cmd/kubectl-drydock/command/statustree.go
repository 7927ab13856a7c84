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
func progressLines(d *progress.Document, t *terminal.Terminal) []string {
	var lines []string
	if len(d.Growing) > 0 {
		lines = append(append(lines, ""), growthTable(d)...)
	}
	if len(d.Members) > 0 {
		lines = append(append(lines, ""), fittingTree(d, t)...)
	}
	return lines
}

func growthTable(d *progress.Document) []string {
	rows := [][]string{{"CLAIM", "GROWS", "STATE"}}
	for _, g := range d.Growing {
		rows = append(rows, []string{text.Printable(g.Claim), change(g.From.String(), text.Printable(g.Target())), g.Words()})
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
func fittingTree(d *progress.Document, t *terminal.Terminal) []string {
	width := t.Width()
	for _, r := range []room{wide, narrow} {
		if lines := memberTree(d, t, r); width == 0 || widest(lines) <= width {
			return lines
		}
	}
	return memberTree(d, t, tight)
}

func widest(lines []string) int {
	most := 0
	for _, line := range lines {
		most = max(most, ansi.StringWidth(line))
	}
	return most
}

// memberTree returns a row for each member, and below it a row for each of its claims.
func memberTree(d *progress.Document, t *terminal.Terminal, r room) []string {
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
		row := []string{branch + fmt.Sprintf("%s-%d", d.Set, m.Ordinal), string(m.Phase), copied(m, r), orDash(m.StopWords())}
		switch {
		case r == wide:
			row = append(row, orDash(text.Printable(m.Waits)))
		case m.Waits != "":
			waits[len(rows)] = terminal.Fold(below+"│  waits for: ", below+"│    ", text.Printable(m.Waits), t.Width())
		}
		rows, phases = append(rows, row), append(phases, m.Phase)
		for j, c := range m.Claims {
			leaf := "├─ "
			if j == len(m.Claims)-1 {
				leaf = "└─ "
			}
			cells := make([]string, len(rows[0]))
			cells[0] = below + leaf + text.Printable(c.Template)
			cells[1] = change(c.From.String(), text.Printable(c.Target()))
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

// copied returns a bar with the copied bytes of the member. While they grow, it adds the rate and the time that is left.
func copied(m progress.Member, r room) string {
	if m.Bytes == 0 {
		return "-"
	}
	words := m.CopiedWords()
	if r != tight {
		words = bar(float64(m.Copied)/float64(m.Bytes)) + " " + words
		if m.Rate > 0 && m.Copied < m.Bytes {
			words += fmt.Sprintf(", %s/s", text.Bytes(m.Rate))
		}
	}
	switch {
	case m.SecondsLeft != nil && m.Copied < m.Bytes:
		words += fmt.Sprintf(", %s left", progress.LeftWords(*m.SecondsLeft))
	case r != tight:
		words += m.FinalPassWords()
	}
	return words
}

// bar returns a bar that is full to this part, from 0 to 1. Users can write any number into a record, so another part is cut.
func bar(part float64) string {
	full := int(min(max(part, 0), 1) * barWidth)
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
}
