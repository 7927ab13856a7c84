package command

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"

	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/progress"
)

// writer names this program for the executor of plans.
const writer api.Function = "kubectl"

// tool has the flags and streams that the commands share.
type tool struct {
	genericiooptions.IOStreams
	config *genericclioptions.ConfigFlags
	flags  *pflag.FlagSet // of all commands
	now    func() time.Time
}

// open returns a session for the StatefulSet that the argument names.
func (t *tool) open(argument string) (*session, error) {
	name, err := parseSet(argument)
	if err != nil {
		return nil, err
	}
	s, err := t.connect()
	if err != nil {
		return nil, err
	}
	s.name = name
	return s, nil
}

// connect returns a session for the namespace of the flags or the kubeconfig.
func (t *tool) connect() (*session, error) {
	config, err := t.config.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	namespace, _, err := t.config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("finding the namespace: %w", err)
	}
	raw, err := newRaw(config)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	client := kube.NewClient(config)
	return &session{client: client, raw: raw, objects: objects, refresh: refreshPeriod,
		apply:     apply.New(client, writer, slog.New(slog.DiscardHandler)),
		namespace: namespace, rights: map[string]bool{}}, nil
}

// completeSets completes the first argument of a command with the opted-in StatefulSets of the namespace. Without a cluster there are none.
func (t *tool) completeSets(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	s, err := t.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	err = kube.Pages(c.Context(), s.client, plan.StatefulSets, s.namespace, api.ManagedLabel+"=true", &appsv1.StatefulSetList{},
		func(l *appsv1.StatefulSetList) {
			for i := range l.Items {
				names = append(names, "sts/"+l.Items[i].Name)
			}
		})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

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
