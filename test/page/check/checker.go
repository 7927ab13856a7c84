package check

import (
	"os"
	"path"
	"strings"
)

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
