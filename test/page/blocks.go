package page

import (
	"fmt"
	"regexp"
	"strings"
)

const (
	begin = "<!-- A test runs these commands: begin -->"
	end   = "<!-- A test runs these commands: end -->"
)

// Block is a fenced block of a page. The indentation of its fence is removed from its lines.
type Block struct {
	Line     int // of the page, where the block begins
	Language string
	Text     string
	Tested   bool // it is in a part whose commands a test runs
}

var hiddenCommands = regexp.MustCompile("^<!-- A test also runs: (.+) -->$")

var fenceLine = regexp.MustCompile("^( *)```(.*)$")

// Blocks returns the fenced blocks of a page, in order. Hidden commands are a block, too.
func Blocks(text string) ([]Block, error) {
	var blocks []Block
	var block *Block
	tested, indent, lines := false, "", []string(nil)
	for i, line := range strings.Split(text, "\n") {
		fence, hidden := fenceLine.FindStringSubmatch(line), hiddenCommands.FindStringSubmatch(line)
		switch {
		case block == nil && line == begin:
			tested = true
		case block == nil && line == end:
			tested = false
		case block == nil && hidden != nil:
			blocks = append(blocks, Block{Line: i, Language: "sh", Text: hidden[1], Tested: tested})
		case block == nil && fence != nil:
			indent, lines = fence[1], nil
			block = &Block{Line: i + 1, Language: strings.TrimSpace(fence[2]), Tested: tested}
		case block != nil && fence != nil && fence[2] == "":
			block.Text = strings.Join(lines, "\n")
			blocks, block = append(blocks, *block), nil
		case block != nil:
			lines = append(lines, strings.TrimPrefix(line, indent))
		}
	}
	if tested || block != nil {
		return nil, fmt.Errorf("the page ends inside a block, or before %q", end)
	}
	return blocks, nil
}

// Script returns the commands of a block: all of a block of language sh, and the lines behind "$ " of a block that shows a terminal.
// Lines of output become empty, so that the numbers of the other lines stay.
func (b Block) Script() string {
	if b.Language == "sh" {
		return b.Text
	}
	if b.Language != "" && b.Language != "text" {
		return ""
	}
	var lines []string
	continued := false
	for _, line := range strings.Split(b.Text, "\n") {
		command, isCommand := strings.CutPrefix(line, "$ ")
		if !isCommand && !continued {
			command = ""
		}
		continued = strings.HasSuffix(command, `\`)
		lines = append(lines, command)
	}
	return strings.Join(lines, "\n")
}

// Span is a piece of code in a sentence or a table.
type Span struct {
	Line int
	Text string
}

var codeSpan = regexp.MustCompile("``([^`]+)``|`([^`]+)`")

// Spans returns the code of a page outside of its blocks. A line break in it counts as a space.
func Spans(text string) []Span {
	inBlock := false
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if fenceLine.MatchString(line) {
			inBlock = !inBlock
			lines[i] = ""
		}
		if inBlock {
			lines[i] = ""
		}
	}
	prose := strings.Join(lines, "\n")
	var spans []Span
	for _, at := range codeSpan.FindAllStringSubmatchIndex(prose, -1) {
		first, last := at[2], at[3]
		if first < 0 {
			first, last = at[4], at[5]
		}
		spans = append(spans, Span{Line: 1 + strings.Count(prose[:first], "\n"), Text: strings.Join(strings.Fields(prose[first:last]), " ")})
	}
	return spans
}
