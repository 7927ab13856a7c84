package command

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// consent asks the user the question, unless yes is true. It returns an error if the answer is no, or if there is no terminal to ask on.
func (t *tool) consent(question string, yes bool) error {
	switch {
	case yes:
		return nil
	case !isTerminal(t.In):
		return fmt.Errorf("nothing was changed. There is no terminal to ask you on. Add --yes to agree in advance")
	}
	fmt.Fprintf(t.ErrOut, "%s [y/N] ", question)
	answer, err := bufio.NewReader(t.In).ReadString('\n')
	if err != nil && err != io.EOF {
		return fmt.Errorf("reading your answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return fmt.Errorf("nothing was changed, because you did not answer with y")
}

func isTerminal(in io.Reader) bool {
	file, ok := in.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
