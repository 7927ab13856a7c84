package page

import (
	"fmt"
	"regexp"
	"strings"
)

// Command is a simple command of a script.
type Command struct {
	Line        int               // of the script, from 1
	Assignments map[string]string // before the command
	Words       []string          // without quotes; a substitution stays as it is written
	Input       string            // the here-document
	Reads       []string          // files behind <
	Writes      []string          // files behind > and >>
}

// Commands returns the simple commands of a script in the order in which it writes them, those of $(…) before the command around it.
// It understands what pages need: quotes, comments, lists, pipes, loops, substitutions, redirections and here-documents. Everything else
// is an error, so that pages stay simple.
func Commands(script string) ([]Command, error) {
	s := &splitter{text: script, line: 1}
	if err := s.list(""); err != nil {
		return nil, fmt.Errorf("line %d of the commands: %w", s.line, err)
	}
	return s.commands, nil
}

// splitter reads a script from front to back.
type splitter struct {
	text     string
	at, line int
	commands []Command
	now      Command     // the command that is being read
	started  bool        // now has a word or an assignment
	waiting  []*document // here-documents that begin at the next line
}

type document struct {
	end     string
	command int // its index in commands
}

// keywords come before a command. A loop's variable and values are no command.
var keywords = map[string]bool{"do": true, "then": true, "else": true, "if": true, "while": true, "until": true, "!": true, "{": true}

// closers end a compound command. They stand alone.
var closers = map[string]bool{"done": true, "fi": true, "}": true}

var assignment = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)=(?s)(.*)$`)

// list reads commands until the closing text, which is empty at the end of the script.
func (s *splitter) list(closing string) error {
	outer, started := s.now, s.started
	s.now, s.started = Command{}, false
	for {
		if s.at >= len(s.text) {
			if closing != "" {
				return fmt.Errorf("%q is missing", closing)
			}
			if len(s.waiting) > 0 {
				return fmt.Errorf("the here-document has no end %q", s.waiting[0].end)
			}
			return s.finish()
		}
		rest := s.text[s.at:]
		switch c := rest[0]; {
		case closing != "" && c == closing[0]:
			err := s.finish()
			s.at++
			s.now, s.started = outer, started
			return err
		case c == '\n':
			if err := s.newline(); err != nil {
				return err
			}
		case c == ' ' || c == '\t':
			s.at++
		case strings.HasPrefix(rest, "\\\n"):
			s.at, s.line = s.at+2, s.line+1
		case c == '#':
			s.at += len(strings.SplitN(rest, "\n", 2)[0])
		case strings.ContainsRune(";&|", rune(c)):
			s.at++
			if err := s.finish(); err != nil {
				return err
			}
		case c == '(' || c == ')':
			return fmt.Errorf("%q is not understood; write simpler commands", c)
		case redirection.MatchString(rest):
			if err := s.redirect(); err != nil {
				return err
			}
		default:
			word, err := s.word()
			if err != nil {
				return err
			}
			s.take(word)
		}
	}
}

// take adds a word to the command.
func (s *splitter) take(word string) {
	first := len(s.now.Words) == 0
	if first && !s.started {
		s.now.Line = s.line
	}
	if m := assignment.FindStringSubmatch(word); first && m != nil {
		if s.now.Assignments == nil {
			s.now.Assignments = map[string]string{}
		}
		s.now.Assignments[m[1]], s.started = m[2], true
		return
	}
	if first && keywords[word] {
		return
	}
	s.now.Words, s.started = append(s.now.Words, word), true
}

// finish ends the command.
func (s *splitter) finish() error {
	c := s.now
	s.now, s.started = Command{}, false
	switch {
	case len(c.Words) == 0 && c.Assignments == nil && c.Writes == nil && c.Reads == nil:
		return nil
	case len(c.Words) > 0 && c.Words[0] == "case":
		return fmt.Errorf("case is not understood; write simpler commands")
	case len(c.Words) > 0 && (closers[c.Words[0]] || c.Words[0] == "for"):
		c.Words = nil
	}
	for _, d := range s.waiting {
		if d.command < 0 {
			d.command = len(s.commands)
		}
	}
	s.commands = append(s.commands, c)
	return nil
}

// newline ends the line, and reads the here-documents that begin behind it.
func (s *splitter) newline() error {
	if err := s.finish(); err != nil {
		return err
	}
	s.at, s.line = s.at+1, s.line+1
	for _, d := range s.waiting {
		var lines []string
		for {
			if s.at >= len(s.text) {
				return fmt.Errorf("the here-document has no end %q", d.end)
			}
			line, _, _ := strings.Cut(s.text[s.at:], "\n")
			s.at, s.line = min(s.at+len(line)+1, len(s.text)), s.line+1
			if line == d.end {
				break
			}
			lines = append(lines, line)
		}
		s.commands[d.command].Input = strings.Join(lines, "\n") + "\n"
	}
	s.waiting = nil
	return nil
}

var redirection = regexp.MustCompile(`^([0-9]*)(<<|<|>>|>&|>)`)

// redirect reads a redirection and its file, or the end of a here-document.
func (s *splitter) redirect() error {
	m := redirection.FindStringSubmatch(s.text[s.at:])
	s.at += len(m[0])
	for s.at < len(s.text) && s.text[s.at] == ' ' {
		s.at++
	}
	word, err := s.word()
	if err != nil {
		return err
	}
	switch m[2] {
	case "<<":
		s.waiting = append(s.waiting, &document{end: word, command: -1})
	case "<":
		s.now.Reads = append(s.now.Reads, word)
	case ">", ">>":
		s.now.Writes = append(s.now.Writes, word)
	}
	return nil
}

// word reads a word, without its quotes.
func (s *splitter) word() (string, error) {
	var b strings.Builder
	from := s.at
	for s.at < len(s.text) {
		c := s.text[s.at]
		switch {
		case strings.ContainsRune(" \t\n;&|<>()", rune(c)):
			return s.checked(b.String(), from)
		case strings.HasPrefix(s.text[s.at:], "\\\n"):
			s.at, s.line = s.at+2, s.line+1
		case c == '\\':
			b.WriteByte(s.text[min(s.at+1, len(s.text)-1)])
			s.at += 2
		case c == '\'':
			body, _, found := strings.Cut(s.text[s.at+1:], "'")
			if !found {
				return "", fmt.Errorf("the quote ' has no end")
			}
			b.WriteString(body)
			s.at, s.line = s.at+len(body)+2, s.line+strings.Count(body, "\n")
		case c == '"':
			if err := s.quoted(&b); err != nil {
				return "", err
			}
		case c == '`':
			return "", fmt.Errorf("write $(…) instead of backquotes")
		case strings.HasPrefix(s.text[s.at:], "$("):
			if err := s.substitution(&b); err != nil {
				return "", err
			}
		default:
			b.WriteByte(c)
			s.at++
		}
	}
	return s.checked(b.String(), from)
}

// checked refuses a word that consists of nothing, such as a redirection without a file.
func (s *splitter) checked(word string, from int) (string, error) {
	if s.at == from {
		return "", fmt.Errorf("a word is missing")
	}
	return word, nil
}

// quoted reads a text in double quotes.
func (s *splitter) quoted(b *strings.Builder) error {
	s.at++
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return nil
		case c == '\\' && s.at+1 < len(s.text) && strings.ContainsRune("$`\"\\", rune(s.text[s.at+1])):
			b.WriteByte(s.text[s.at+1])
			s.at += 2
		case strings.HasPrefix(s.text[s.at:], "$("):
			if err := s.substitution(b); err != nil {
				return err
			}
		default:
			if c == '\n' {
				s.line++
			}
			b.WriteByte(c)
			s.at++
		}
	}
	return fmt.Errorf(`the quote " has no end`)
}

// substitution reads $(…) and the commands in it.
func (s *splitter) substitution(b *strings.Builder) error {
	from := s.at
	s.at += 2
	if err := s.list(")"); err != nil {
		return err
	}
	b.WriteString(s.text[from:s.at])
	return nil
}
