package command

import (
	"strings"
	"testing"

	"drydock.dev/cmd/kubectl-drydock/terminal"
	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/progress"
	"drydock.dev/test/kit/build"
	"drydock.dev/test/kit/screen"
)

// TestWrappedLinesKeepWholeWords: a name that is broken at its hyphen becomes two names, of which one may exist.
func TestWrappedLinesKeepWholeWords(t *testing.T) {
	const line = "ClaimLost: claim data-web-0 is gone. Look at kubectl describe pvc data-orders-archive-web-0, then repeat the resize of " +
		"drydock-orders-archive with kubectl drydock retry -n team-shop sts/orders-archive   # when the cause is removed"
	for width := 20; width < 100; width++ {
		lines := terminal.Fold("", "  ", line, width)
		got := strings.Fields(strings.Join(lines, " "))
		for i, word := range strings.Fields(line) {
			if i >= len(got) || got[i] != word {
				t.Fatalf("with %d columns, %q is broken:\n%s", width, word, strings.Join(lines, "\n"))
			}
		}
	}
}

// TestCommandOfStatusIsWholeOnTheScreen: a command that is cut would change another set.
func TestCommandOfStatusIsWholeOnTheScreen(t *testing.T) {
	t.Setenv("TERM", "xterm")
	for columns := 80; columns <= 140; columns++ {
		d := &progress.Document{Namespace: "shop", Set: "orders-archive", Kind: api.KindResize, Operation: build.ID, Request: "data=2Gi",
			Phase: api.Failed, Started: operation.Moment(build.Now), Finished: operation.Moment(build.Now), Reason: api.CopyFailed,
			Message: "copying the claims of pod orders-archive-0 failed. Look at kubectl describe job copy-orders-archive-0, then retry"}
		seen := screen.New(t, columns, 40)
		shown := terminal.New(seen.Terminal)
		if err := shown.Show(statusLines(d, build.Set("web"), build.Now, shown)); err != nil {
			t.Fatal(err)
		}
		text := seen.Close()
		words := strings.Join(strings.Fields(text), " ")
		for _, want := range []string{"sts/orders-archive", "kubectl describe job copy-orders-archive-0",
			"kubectl drydock retry -n shop"} {
			if !strings.Contains(words, want) {
				t.Fatalf("with %d columns, %q is missing:\n%s", columns, want, text)
			}
		}
	}
}
