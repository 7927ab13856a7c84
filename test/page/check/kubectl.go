package check

import (
	"io"
	"strings"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	plugin "drydock.dev/cmd/kubectl-drydock/command"
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
