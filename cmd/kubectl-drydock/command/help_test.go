package command

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// TestHelpOfEachCommandFitsOnAScreen: only options shows the flags of all commands. Each help names it.
func TestHelpOfEachCommandFitsOnAScreen(t *testing.T) {
	names := []string{""}
	for _, c := range New(genericiooptions.NewTestIOStreamsDiscard()).Commands() {
		names = append(names, c.Name())
	}
	for _, name := range names {
		help := helpOf(t, name)
		switch {
		case name == "help" || name == "completion": // those of the library
		case strings.Contains(help, "--as-group"):
			t.Errorf("the help of %q has the flags of all commands:\n%s", name, help)
		case !strings.Contains(help, toOptions):
			t.Errorf("the help of %q does not name options:\n%s", name, help)
		case strings.Count(help, "\n") > 60:
			t.Errorf("the help of %q has %d lines", name, strings.Count(help, "\n"))
		}
	}
	if out := run(t, "options"); !strings.Contains(out, "--as-group") || !strings.Contains(out, "--context") {
		t.Errorf("options shows\n%s", out)
	}
}

func helpOf(t *testing.T, name string) string {
	t.Helper()
	return run(t, strings.Fields(name+" --help")...)
}

func run(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	root := New(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: io.Discard})
	root.SetArgs(args)
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
