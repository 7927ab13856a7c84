package command

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// consent asks the user the question, unless yes is true. It returns an error if the answer is no, if the user interrupts it, or if there
// is no terminal to ask on.
func (t *tool) consent(ctx context.Context, question string, yes bool) error {
	switch {
	case yes:
		return nil
	case !isTerminal(t.In):
		return fmt.Errorf("nothing was changed. There is no terminal to ask you on. Add --yes to agree in advance")
	}
	fmt.Fprintf(t.ErrOut, "%s [y/N] ", question)
	answered := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(t.In).ReadString('\n') // an error is no consent
		answered <- strings.ToLower(strings.TrimSpace(line))
	}()
	answer := ""
	select {
	case answer = <-answered:
	case <-ctx.Done(): // the signal does not end the read
		fmt.Fprintln(t.ErrOut)
	}
	if answer == "y" || answer == "yes" {
		return nil
	}
	return fmt.Errorf("nothing was changed, because you did not answer with y")
}

func isTerminal(in io.Reader) bool {
	file, ok := in.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
