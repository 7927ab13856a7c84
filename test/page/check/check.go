// Package check finds commands, paths, keys and manifests of a page that do not exist in the project.
package check

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"drydock.dev/test/page"
)

// Problems returns a sentence for each mistake on a page. The name is its path in the project.
func (p *Project) Problems(name, text string) []string {
	blocks, err := page.Blocks(text)
	if err != nil {
		return []string{fmt.Sprintf("%s: %v", name, err)}
	}
	var problems []string
	offset := 0
	c := &checker{project: p, folder: ".", made: map[string]bool{}, variables: map[string]string{},
		report: func(line int, format string, args ...any) {
			problems = append(problems, fmt.Sprintf("%s:%d: %s", name, offset+line, fmt.Sprintf(format, args...)))
		}}
	for _, block := range blocks {
		if first, _, _ := strings.Cut(block.Text, "\n"); block.Language == "yaml" && strings.HasPrefix(first, "# ") {
			c.made[strings.TrimPrefix(first, "# ")] = true
		}
	}
	for _, block := range blocks {
		offset = block.Line
		c.folder = "." // each block begins in the checkout
		checkBlock(c, block)
	}
	for _, span := range page.Spans(text) {
		offset = span.Line - 1
		c.folder = "."
		checkSpan(c, span.Text)
	}
	return problems
}

// languages are the languages that a block may have. Commands of another language, such as bash, would not be checked.
var languages = []string{"", "sh", "text", "yaml", "go", "json", "mermaid", "nginx"}

func checkBlock(c *checker, block page.Block) {
	if !slices.Contains(languages, block.Language) {
		c.report(0, "a block of language %q is not checked. Write sh for commands", block.Language)
	}
	if block.Language != "go" {
		for i, line := range strings.Split(block.Text, "\n") {
			checkKeys(c, i+1, line)
		}
	}
	checkImages(c, block.Text)
	if block.Language == "yaml" {
		checkManifests(c, 1, block.Text)
	}
	commands, err := page.Commands(block.Script())
	if err != nil {
		c.report(0, "%v", err)
		return
	}
	for _, command := range commands {
		checkCommand(c, command)
	}
}

var (
	commandSpan = regexp.MustCompile(`^(kubectl drydock|make|go test) [a-z./-]`)
	testSpan    = regexp.MustCompile(`^(Test|Benchmark|Fuzz)[A-Z][A-Za-z0-9]*$`)
)

// checkSpan checks a command, a test or a path in a sentence.
func checkSpan(c *checker, text string) {
	checkKeys(c, 1, text)
	checkImages(c, text)
	switch {
	case commandSpan.MatchString(text):
		commands, err := page.Commands(text)
		if err != nil {
			c.report(1, "%v", err)
		}
		for _, command := range commands {
			checkProgram(c, command, true)
		}
	case testSpan.MatchString(text) && !c.project.tests[text]:
		c.report(1, "there is no test %s", text)
	case projectPath.MatchString(text):
		c.file(1, text)
	}
}

// checkCommand checks a command of a block, and remembers the files that it makes.
func checkCommand(c *checker, command page.Command) {
	for name, value := range command.Assignments {
		c.variables[name] = value
		if strings.HasPrefix(name, "DRYDOCK_") && !c.project.variables[name] {
			c.report(command.Line, "no program reads the variable %s", name)
		}
	}
	for i, word := range command.Words {
		command.Words[i] = c.expand(word)
	}
	for _, file := range command.Reads {
		c.file(command.Line, c.expand(file))
	}
	if len(command.Words) > 0 {
		checkProgram(c, command, false)
	}
	for _, file := range command.Writes {
		c.made[c.expand(file)] = true
	}
	if strings.Contains(command.Input, "kind:") {
		checkManifests(c, command.Line+1, command.Input)
	}
}

// checker holds the effects of the earlier commands of a page.
type checker struct {
	project   *Project
	folder    string            // where the next command runs
	made      map[string]bool   // files and folders that commands have written, or that the page shows
	variables map[string]string // of the shell
	// report adds a problem. The line counts from the block's first line, 1.
	report func(line int, format string, args ...any)
}

// expand replaces the variables that the page has set.
func (c *checker) expand(word string) string {
	return os.Expand(word, func(name string) string {
		if value, known := c.variables[name]; known {
			return value
		}
		return "${" + name + "}"
	})
}

// file checks that a file or folder is in the project, that a command of the page has made it, or that a block of YAML shows it: the
// first line of the block is # and the name.
func (c *checker) file(line int, name string) {
	name = strings.TrimSuffix(name, "/")
	inProject := path.Join(c.folder, name)
	switch {
	case name == "-" || strings.HasPrefix(name, "/") || strings.ContainsAny(name, "$*") || strings.Contains(name, "://"):
	case c.made[name] || c.project.exists(inProject) || c.project.isBuilt(inProject):
	default:
		c.report(line, "there is no %s, no command before has made it, and no block of YAML begins with # %s", inProject, name)
	}
}

// files checks the arguments that are files.
func (c *checker) files(line int, arguments []string) {
	for _, argument := range arguments {
		if !strings.HasPrefix(argument, "-") {
			c.file(line, argument)
		}
	}
}
