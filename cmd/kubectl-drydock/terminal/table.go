package terminal

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

const (
	// columnGap is the space between two columns of a table.
	columnGap = "   "
	// leastLast is the width that the last column of a table should have. Its text is wrapped.
	leastLast = 24
)

// Wrap breaks the text between words into lines of at most width columns. A word that is wider gets a line of its own. So does a command,
// which stays on one line, so that it can be copied. A width of 0 has no limit.
func Wrap(text string, width int) []string {
	if width <= 0 || ansi.StringWidth(text) <= width {
		return []string{text}
	}
	return fill(wordsAndCommands(text), width)
}

// Fold breaks the text like Wrap into lines that begin with the indent, except the first, which begins with first. It also breaks commands
// that are too wide, because a frame would cut them.
func Fold(first, indent, text string, width int) []string {
	if width <= 0 || ansi.StringWidth(first+text) <= width {
		return []string{first + text}
	}
	room := max(1, width-max(ansi.StringWidth(first), ansi.StringWidth(indent)))
	var words []string
	for _, word := range wordsAndCommands(text) {
		if ansi.StringWidth(word) > room {
			words = append(words, strings.Fields(word)...)
		} else {
			words = append(words, word)
		}
	}
	lines := fill(words, room)
	for i := range lines {
		lines[i] = first + lines[i]
		first = indent
	}
	return lines
}

// fill joins the words to lines of at most width columns. A word that is wider gets a line of its own.
func fill(words []string, width int) []string {
	var lines []string
	line := ""
	for _, word := range words {
		if line != "" && ansi.StringWidth(line)+1+ansi.StringWidth(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// wordsAndCommands returns the words of the text. A command of kubectl, up to the end of its clause, counts as one word.
func wordsAndCommands(text string) []string {
	var words []string
	inCommand := false
	for _, word := range strings.Fields(text) {
		if inCommand {
			words[len(words)-1] += " " + word
		} else {
			words = append(words, word)
		}
		inCommand = (inCommand || word == "kubectl") && !strings.ContainsAny(word[len(word)-1:], ".,;")
	}
	return words
}

// Table aligns the cells of the rows, the first of which is the header. If the table is wider than width, it omits the columns leastNeeded,
// in their order, until the rest fits. It wraps the text of the last column. A width of 0 has no limit.
func Table(rows [][]string, width int, leastNeeded ...string) []string {
	for _, column := range leastNeeded {
		if fits(rows, width) {
			break
		}
		if i := slices.Index(rows[0], column); i >= 0 {
			rows = without(rows, i)
		}
	}
	widths := widthsOf(rows)
	var lines []string
	for _, row := range rows {
		lines = append(lines, rowLines(row, widths, width)...)
	}
	return lines
}

// fits reports whether the last column has enough space for its text, or at least leastLast columns.
func fits(rows [][]string, width int) bool {
	widths := widthsOf(rows)
	last := widths[len(widths)-1]
	return width <= 0 || indentOf(widths)+min(last, leastLast) <= width
}

// without returns the rows without the column.
func without(rows [][]string, column int) [][]string {
	var rest [][]string
	for _, row := range rows {
		rest = append(rest, slices.Delete(slices.Clone(row), column, column+1))
	}
	return rest
}

// widthsOf returns the width of each column.
func widthsOf(rows [][]string) []int {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], ansi.StringWidth(cell))
		}
	}
	return widths
}

// indentOf returns the number of columns before the last cell.
func indentOf(widths []int) int {
	indent := 0
	for _, w := range widths[:len(widths)-1] {
		indent += w + len(columnGap)
	}
	return indent
}

// rowLines returns the lines of a row. If the last cell has less than leastLast columns, it is not wrapped, because the lines would get
// too short to be read.
func rowLines(row []string, widths []int, width int) []string {
	var before strings.Builder
	last := len(row) - 1
	for i, cell := range row[:last] {
		before.WriteString(cell + strings.Repeat(" ", widths[i]-ansi.StringWidth(cell)) + columnGap)
	}
	indent := indentOf(widths)
	room := width - indent
	if room < leastLast {
		room = 0
	}
	lines := Wrap(row[last], room)
	for i := range lines {
		if i == 0 {
			lines[i] = strings.TrimRight(before.String()+lines[i], " ")
		} else {
			lines[i] = strings.Repeat(" ", indent) + lines[i]
		}
	}
	return lines
}
