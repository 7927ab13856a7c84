package command

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"drydock.dev/shared/progress"
)

// connection has the flags with which the user chose the cluster and the account, written for a shell, for example " --context=prod". The
// commands that Drydock suggests need them too: without them, they would change the default cluster.
type connection string

// connectionFlags are the flags of all commands that choose the cluster or the account.
var connectionFlags = []string{"kubeconfig", "context", "cluster", "user", "server", "tls-server-name", "insecure-skip-tls-verify",
	"certificate-authority", "client-certificate", "client-key", "as", "as-uid", "as-group", "as-user-extra"}

// secretFlag is the connection flag whose value must not get into a terminal or a log.
const secretFlag = "token"

// connection returns the connection flags of the command line.
func (t *tool) connection() connection {
	var words strings.Builder
	for _, name := range connectionFlags {
		for _, value := range t.given(name) {
			words.WriteString(" --" + name + "=" + shellWord(value))
		}
	}
	if len(t.given(secretFlag)) > 0 {
		words.WriteString(" --" + secretFlag + "=TOKEN")
	}
	return connection(words.String())
}

// given returns the values that the user gave for the flag. It returns none if the user did not give it.
func (t *tool) given(name string) []string {
	if t.flags == nil {
		return nil
	}
	flag := t.flags.Lookup(name)
	if flag == nil || !flag.Changed {
		return nil
	}
	if list, repeated := flag.Value.(pflag.SliceValue); repeated {
		return list.GetSlice()
	}
	if name == "server" {
		return []string{withoutPassword(flag.Value.String())}
	}
	return []string{flag.Value.String()}
}

// withoutPassword returns the address with a placeholder for its password, which is as secret as a token.
func withoutPassword(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return "SERVER"
	}
	if _, has := parsed.User.Password(); !has {
		return address
	}
	parsed.User = url.UserPassword(parsed.User.Username(), "PASSWORD")
	return parsed.String()
}

// ownCommand matches the start of a command of kubectl or kubectl drydock. It does not match kubectl as the name of a field manager or in
// an annotation.
var ownCommand = regexp.MustCompile(
	`\bkubectl (?:drydock\b|(?:-n \S+ )?(?:annotate|apply|create|delete|describe|get|label|logs|patch|rollout|scale)\s)`)

// harmlessCommand matches the start of a command that deletes nothing and runs nothing, so that it may get the flags although a tenant may
// have written it: messages in records are quoted.
var harmlessCommand = regexp.MustCompile(`\bkubectl (?:drydock (?:abort|approve|doctor|explain|list|logs|plan|rbac|report|resize|retry|` +
	`rollback|status|wake)\b|(?:-n \S+ )?(?:annotate|describe|get|label|logs|scale)\s)`)

// in returns the text with the connection flags in each harmless command that it suggests. The text may quote records. kubectl and kubectl
// drydock take the flags before the verb.
func (c connection) in(text string) string { return c.added(text, harmlessCommand) }

// inOwn returns the text, which quotes no user, with the connection flags in each command that it suggests.
func (c connection) inOwn(text string) string { return c.added(text, ownCommand) }

func (c connection) added(text string, command *regexp.Regexp) string {
	if c == "" {
		return text
	}
	return command.ReplaceAllStringFunc(text, func(start string) string {
		program, rest := "kubectl", strings.TrimPrefix(start, "kubectl")
		if after, plugin := strings.CutPrefix(rest, " drydock"); plugin {
			program, rest = "kubectl drydock", after
		}
		return program + string(c) + rest
	})
}

// inEach returns the lines with the connection flags in each command.
func (c connection) inEach(lines []string) []string {
	all := make([]string, len(lines))
	for i, line := range lines {
		all[i] = c.in(line)
	}
	return all
}

// inDocument returns the document with the connection flags in the commands that its members' reasons to wait suggest.
func (c connection) inDocument(d *progress.Document) *progress.Document {
	connected := *d
	connected.Members = slices.Clone(d.Members)
	for i := range connected.Members {
		connected.Members[i].Waits = c.in(connected.Members[i].Waits)
	}
	return &connected
}

// plainWord matches words that a shell does not interpret.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shellWord quotes a word for a shell.
func shellWord(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// connectedError is an error whose suggested commands have the connection flags.
type connectedError struct {
	error
	connection connection
}

func (e connectedError) Error() string { return e.connection.in(e.error.Error()) }

func (e connectedError) Unwrap() error { return e.error }

// withConnection returns the error of a command with the connection flags in each command that it suggests.
func (c connection) withConnection(err error) error {
	if err == nil || c == "" {
		return err
	}
	return connectedError{err, c}
}
