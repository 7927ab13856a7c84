package check

import (
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	plugin "drydock.dev/cmd/kubectl-drydock/command"
	"drydock.dev/test/page"
)

// valueFlags are flags of kubectl that pages write before its subcommand, with a value behind them.
var valueFlags = map[string]bool{"-n": true, "--namespace": true, "--context": true, "--kubeconfig": true}

// checkKubectl checks the plugin's subcommand, flags and arguments, and the keys that kubectl label, annotate and -l name.
func checkKubectl(c *checker, line int, arguments []string, inSentence bool) {
	first := 0 // the subcommand
	for first < len(arguments) && strings.HasPrefix(arguments[first], "-") {
		if valueFlags[arguments[first]] {
			first++
		}
		first++
	}
	if first >= len(arguments) {
		c.report(line, "kubectl has no subcommand here")
		return
	}
	verb, rest := arguments[first], arguments[first+1:]
	switch {
	case verb == "drydock" && first > 0:
		c.report(line, "kubectl takes the flags of a plugin only behind its name: kubectl drydock %s", strings.Join(arguments[:first], " "))
	case verb == "drydock":
		checkPlugin(c, line, rest, inSentence)
	}
	for i, argument := range rest {
		switch {
		case verb == "label", i > 0 && (rest[i-1] == "-l" || rest[i-1] == "--selector"):
			checkKind(c, line, argument, "Label")
		case verb == "annotate":
			checkKind(c, line, argument, "Annotation")
		}
	}
}

// checkPlugin asks the commands of kubectl drydock themselves.
func checkPlugin(c *checker, line int, arguments []string, inSentence bool) {
	root := plugin.New(genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	command, rest, err := root.Find(arguments)
	if err != nil || command == root && len(arguments) > 0 && !strings.HasPrefix(arguments[0], "-") {
		c.report(line, "kubectl drydock has no subcommand %s", strings.Join(arguments, " "))
		return
	}
	command.InitDefaultHelpFlag()
	if inSentence && len(rest) > 0 && strings.HasPrefix(rest[len(rest)-1], "-") { // a flag may lack its value
		name := rest[len(rest)-1]
		if !strings.Contains(name, "=") && command.Flag(strings.TrimLeft(name, "-")) != nil {
			rest = rest[:len(rest)-1]
		}
	}
	if err := command.ParseFlags(rest); err != nil {
		c.report(line, "kubectl drydock %s: %v", command.Name(), err)
		return
	}
	for _, name := range []string{"image", "standalone-image"} {
		if flag := command.Flags().Lookup(name); flag != nil && flag.Changed {
			checkImage(c, line, flag.Value.String(), command.Flags().Changed("allow-tags"))
		}
	}
	if err := command.ValidateArgs(command.Flags().Args()); err != nil && !inSentence {
		c.report(line, "kubectl drydock %s: %v", command.Name(), err)
	}
}

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
