// Package page reads the commands and the output that a page of docs shows, so that a test can run and compare them.
//
// The commands of a page that a test runs lie between two lines:
//
//	<!-- A test runs these commands: begin -->
//	<!-- A test runs these commands: end -->
//
// A block of language sh is run. A block of language text behind it is the output. In it, … stands for any text, and the number of spaces
// does not count. A page may have several such parts, which run in their order. Between blocks, a line
//
//	<!-- A test also runs: COMMANDS -->
//
// has commands that a reader does not need, for example those that wait.
package page

import (
	"fmt"
	"regexp"
	"strings"
)

// Step is a block of commands with the output that the page shows.
type Step struct {
	Line     int // of the page, where the block begins
	Commands string
	Output   string // empty if the page shows none
}

// Steps returns the steps of the page's marked parts, in order.
func Steps(text string) ([]Step, error) {
	blocks, err := Blocks(text)
	if err != nil {
		return nil, err
	}
	var steps []Step
	for _, block := range blocks {
		if !block.Tested {
			continue
		}
		if steps, err = add(steps, block); err != nil {
			return nil, err
		}
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("the page has no commands behind %q", begin)
	}
	return steps, nil
}

func add(steps []Step, block Block) ([]Step, error) {
	switch block.Language {
	case "sh":
		return append(steps, Step{Line: block.Line, Commands: block.Text}), nil
	case "text":
		if len(steps) == 0 || steps[len(steps)-1].Output != "" {
			return nil, fmt.Errorf("line %d: output without commands before it", block.Line)
		}
		steps[len(steps)-1].Output = block.Text
		return steps, nil
	}
	return nil, fmt.Errorf("line %d: a block of language %q; write sh for commands and text for their output", block.Line, block.Language)
}

// Missing returns the lines of the expected output that the output does not have, in this order.
func Missing(want, got string) []string {
	var missing []string
	left := strings.Split(got, "\n")
	for _, line := range strings.Split(want, "\n") {
		if strings.TrimSpace(line) == "" || strings.TrimSpace(line) == "…" {
			continue
		}
		found := -1
		for i, candidate := range left {
			if pattern(line).MatchString(strings.Join(strings.Fields(candidate), " ")) {
				found = i
				break
			}
		}
		if found < 0 {
			missing = append(missing, line)
			continue
		}
		left = left[found+1:]
	}
	return missing
}

// pattern returns the expression that a line of output matches.
func pattern(line string) *regexp.Regexp {
	words := regexp.QuoteMeta(strings.Join(strings.Fields(line), " "))
	return regexp.MustCompile("^" + strings.ReplaceAll(words, "…", ".*") + "$")
}
