package show

import (
	"strings"
	"unicode/utf8"
)

// Table renders rows in columns. The first row is the header. Every line begins with the indent and has no trailing blanks.
func Table(indent string, rows ...[]string) []string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	lines := make([]string, 0, len(rows)+1)
	for i, row := range rows {
		lines = append(lines, indent+line(row, widths))
		if i == 0 {
			lines = append(lines, indent+rule(widths))
		}
	}
	return lines
}

const gap = "  "

func line(row []string, widths []int) string {
	var b strings.Builder
	for i, cell := range row {
		b.WriteString(cell)
		b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)))
		b.WriteString(gap)
	}
	return strings.TrimRight(b.String(), " ")
}

func rule(widths []int) string {
	parts := make([]string, len(widths))
	for i, width := range widths {
		parts[i] = strings.Repeat("─", width)
	}
	return strings.Join(parts, gap)
}
