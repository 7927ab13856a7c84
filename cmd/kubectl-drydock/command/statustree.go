package command

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

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
		lines = append(append(lines, ""), memberTree(d, t)...)
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

// memberTree returns a row for each member, and below it a row for each of its claims.
func memberTree(d *progress.Document, t *terminal.Terminal) []string {
	rows := [][]string{{"MEMBER", "PHASE", "COPIED", "STOP", "WAITS FOR"}}
	phases := []api.MemberPhase{""} // of each row; empty for rows without one
	for i, m := range d.Members {
		branch, below := "├─ ", "│  "
		if i == len(d.Members)-1 {
			branch, below = "└─ ", "   "
		}
		rows = append(rows, []string{branch + fmt.Sprintf("%s-%d", d.Set, m.Ordinal), string(m.Phase), copied(m), stopTime(m),
			orDash(text.Printable(m.Waits))})
		phases = append(phases, m.Phase)
		for j, c := range m.Claims {
			leaf := "├─ "
			if j == len(m.Claims)-1 {
				leaf = "└─ "
			}
			rows = append(rows, []string{below + leaf + text.Printable(c.Template),
				change(c.From.String(), sizeAndClass(c.To.String(), c.Class, c.Attributes)), "", "", ""})
			phases = append(phases, "")
		}
	}
	lines := align(rows)
	for i, phase := range phases {
		if phase != "" {
			lines[i] = strings.Replace(lines[i], string(phase), t.Styled(memberStyle(phase), string(phase)), 1)
		}
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
func copied(m progress.Member) string {
	switch {
	case m.Bytes == 0:
		return "-"
	case m.Copied >= m.Bytes:
		return bar(1) + " " + text.Bytes(m.Bytes)
	}
	words := fmt.Sprintf("%s %s of %s", bar(float64(m.Copied)/float64(m.Bytes)), text.Bytes(m.Copied), text.Bytes(m.Bytes))
	if m.Rate > 0 {
		left := time.Duration((m.Bytes-m.Copied)/m.Rate) * time.Second
		words += fmt.Sprintf(", %s/s, %s left", text.Bytes(m.Rate), duration.HumanDuration(left))
	}
	return words
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
