package command

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"

	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
)

// writer names this program for the executor of plans.
const writer api.Function = "kubectl"

// tool has the flags and streams that the commands share.
type tool struct {
	genericiooptions.IOStreams
	config *genericclioptions.ConfigFlags
	flags  *pflag.FlagSet // of all commands
	now    func() time.Time
	// suggested says whether the output named a command.
	suggested bool
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

// connectionFlags are the flags of all commands that choose the cluster or the account.
var connectionFlags = []string{"kubeconfig", "context", "cluster", "user", "server", "tls-server-name", "insecure-skip-tls-verify",
	"certificate-authority", "client-certificate", "client-key", "as", "as-uid", "as-group", "as-user-extra"}

// secretFlag is the connection flag whose value must not get into a terminal or a log.
const secretFlag = "token"

// connection returns the flags with which the user chose the cluster and the account, written for a shell, for example " --context=prod".
func (t *tool) connection() string {
	var words strings.Builder
	for _, name := range connectionFlags {
		for _, value := range t.given(name) {
			words.WriteString(" --" + name + "=" + shellWord(value))
		}
	}
	if len(t.given(secretFlag)) > 0 {
		words.WriteString(" --" + secretFlag + "=TOKEN")
	}
	return words.String()
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

// noticing is a stream that notices commands in what is written.
type noticing struct {
	io.Writer
	command *bool
}

func (n noticing) Write(content []byte) (int, error) {
	*n.command = *n.command || bytes.Contains(content, []byte("kubectl"))
	return n.Writer.Write(content)
}

// Unwrap returns the stream itself, which may be a terminal.
func (n noticing) Unwrap() io.Writer { return n.Writer }

// remindOfFlags names the flags of the connection after an output or an error that suggests a command: without them, that command would
// change the default cluster. The suggestion itself stays as it is. It may quote a tenant, who must not get an administrator's flags into a
// command.
func (t *tool) remindOfFlags(err error) {
	flags := t.connection()
	if flags != "" && (t.suggested || err != nil && (strings.Contains(err.Error(), "kubectl") || apierrors.IsForbidden(err))) {
		fmt.Fprintf(t.ErrOut, "Add your flags to suggested commands:%s\n", flags)
	}
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
