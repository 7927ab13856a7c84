package check

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"drydock.dev/test/page"
)

// programs are the commands that pages may use beside files of the project: those of a shell and of POSIX, and the tools that a page
// names as a requirement.
var programs = []string{"docker", "func", "curl", "git", "jq", "openssl", "pv-migrate",
	"[", "date", "echo", "exec", "exit", "export", "grep", "printf", "sed", "sleep", "sh", "sort", "true"}

// pathFlags are flags whose value is a file, a folder, or - for the input.
var pathFlags = []string{"-f", "--filename", "-k", "--kustomize", "--patch-file", "--file", "--token-file", "--from-file"}

// projectPath matches words that can only be paths of the project.
var projectPath = regexp.MustCompile(`^(cmd|config|deploy|docs|eventsource|examples|functions|shared|test)/[a-z][A-Za-z0-9_./*-]*$`)

// checkProgram checks a command by its program. A command in a sentence may lack arguments.
func checkProgram(c *checker, command page.Command, inSentence bool) {
	line, name, arguments := command.Line, command.Words[0], command.Words[1:]
	switch {
	case name == "go":
		checkGo(c, line, arguments)
		return
	case name == "make":
		checkMake(c, line, arguments)
		return
	case name == "cd":
		c.files(line, arguments)
		c.folder = path.Join(append([]string{c.folder}, arguments...)...)
		return
	case name == "mkdir":
		for _, folder := range arguments {
			c.made[folder] = true
		}
		return
	case name == "cp" && len(arguments) == 2:
		c.file(line, arguments[0])
		c.made[arguments[1]], c.made[path.Join(arguments[1], path.Base(arguments[0]))] = true, true
		return
	case name == "kubectl":
		checkKubectl(c, line, arguments, inSentence)
	case name == "cat" || name == "diff":
		c.files(line, arguments)
	case strings.Contains(name, "/"):
		c.file(line, name)
	case !slices.Contains(programs, name):
		c.report(line, "%s is not in the table of programs in test/page/check", name)
	}
	checkPaths(c, line, arguments)
}

// checkPaths checks the values of flags that name files, and every word that is a path of the project.
func checkPaths(c *checker, line int, arguments []string) {
	for i, argument := range arguments {
		name, value, isAssigned := strings.Cut(argument, "=")
		switch {
		case isAssigned && slices.Contains(pathFlags, name):
			c.file(line, value)
		case i > 0 && slices.Contains(pathFlags, arguments[i-1]), projectPath.MatchString(argument):
			c.file(line, argument)
		}
	}
}

var makeVariable = regexp.MustCompile(`^([A-Z_]+)=(.*)$`)

// checkMake checks targets and variables of the Makefile.
func checkMake(c *checker, line int, arguments []string) {
	for _, argument := range arguments {
		m := makeVariable.FindStringSubmatch(argument)
		switch {
		case m != nil && !strings.Contains(c.project.makefile, "$("+m[1]+")") && !strings.Contains(c.project.makefile, "(or $("+m[1]):
			c.report(line, "the Makefile has no variable %s", m[1])
		case m != nil && m[1] == "CONFIG" && m[2] != "":
			c.file(line, m[2])
		case m == nil && !strings.HasPrefix(argument, "-") && !c.project.targets[argument]:
			c.report(line, "the Makefile has no target %s", argument)
		}
	}
}
