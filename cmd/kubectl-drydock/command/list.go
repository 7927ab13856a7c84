package command

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"drydock.dev/cmd/kubectl-drydock/terminal"
	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/overview"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/progress"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// listing holds the state of kubectl drydock list.
type listing struct {
	*tool
	all              bool
	selector, output string
}

func newList(t *tool) *cobra.Command {
	o := &listing{tool: t}
	c := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the StatefulSets that have opted in: what runs on them, who sleeps, and what keeps the others awake",
		Long: "List the StatefulSets that have opted in, with the operation that runs or did not succeed, and whether they sleep. For a set\n" +
			"that sleeps, WHY is what it gets back when it wakes. For a set that is awake, WHY is what keeps it awake.",
		Example: "  kubectl drydock list\n  kubectl drydock list -A\n  kubectl drydock list -A -l app=db -o wide",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	o.addFlags(c.Flags())
	addOutput(c.Flags(), &o.output, "wide, name, json or yaml", "wide", "name", "json", "yaml")
	return c
}

// addFlags adds the flags that select sets.
func (o *listing) addFlags(flags *pflag.FlagSet) {
	flags.BoolVarP(&o.all, "all-namespaces", "A", false, "every namespace of the cluster")
	flags.StringVarP(&o.selector, "selector", "l", "", "only sets with these labels, for example app=db")
}

func (o *listing) run(ctx context.Context) error {
	selector, err := labels.Parse(o.selector)
	if err != nil {
		return fmt.Errorf("reading --selector: %w", err)
	}
	s, err := o.connect()
	if err != nil {
		return err
	}
	if o.all {
		s.namespace = metav1.NamespaceAll
	}
	var sets []overview.Facts
	paused := map[string]bool{}   // by namespace and name
	matching := map[string]bool{} // by namespace and name; others may belong to the same groups
	var lost []*appsv1.StatefulSet
	err = kube.Pages(ctx, s.client, plan.StatefulSets, s.namespace, "", &appsv1.StatefulSetList{},
		func(l *appsv1.StatefulSetList) {
			for i := range l.Items {
				set := &l.Items[i]
				if !statefulset.Managed(set) {
					if hasAnnotations(set) && selector.Matches(labels.Set(set.Labels)) {
						lost = append(lost, set.DeepCopy())
					}
					continue
				}
				sets = append(sets, overview.FactsOf(set))
				paused[set.Namespace+"/"+set.Name] = idle.MemberOf(set).Rules.Paused
				matching[set.Namespace+"/"+set.Name] = selector.Matches(labels.Set(set.Labels))
			}
		})
	if err != nil {
		return err
	}
	o.printLost(ctx, s, lost)
	document := overview.New(sets, o.now())
	for i := range document.Sets {
		if d := &document.Sets[i]; d.State == overview.Asleep && paused[d.Namespace+"/"+d.Name] {
			d.Why = asleepUntilWoken
		}
	}
	document.Sets = slices.DeleteFunc(document.Sets, func(s overview.Set) bool { return !matching[s.Namespace+"/"+s.Name] })
	switch {
	case o.output == "json" || o.output == "yaml":
		return printAs(o.Out, document, o.output)
	case len(document.Sets) == 0:
		fmt.Fprintln(o.ErrOut, nothingListed(s.namespace, o.selector, len(sets)))
		return nil
	case o.output == "name":
		for _, set := range document.Sets {
			fmt.Fprintln(o.Out, "statefulset.apps/"+set.Name)
		}
		return nil
	}
	return o.print(o.Out, document)
}

// hasAnnotations reports whether the set has an annotation of Drydock: somebody has used Drydock for it.
func hasAnnotations(set *appsv1.StatefulSet) bool {
	for key := range set.Annotations {
		if strings.HasPrefix(key, api.Prefix) {
			return true
		}
	}
	return false
}

// printLost names the sets that have annotations of Drydock, but not the label: their operator, a deployment tool or a user has removed it.
func (o *listing) printLost(ctx context.Context, s *session, lost []*appsv1.StatefulSet) {
	if len(lost) == 0 {
		return
	}
	registry := s.registry(ctx)
	for _, set := range lost {
		fmt.Fprintf(o.ErrOut, "StatefulSet %s/%s has annotations of Drydock, but not the label, so Drydock does not touch it. Opt in with: %s\n",
			set.Namespace, set.Name, registry.OptInCommand(set))
	}
}

// nothingListed says why no set is listed.
func nothingListed(namespace, selector string, others int) string {
	where := "In namespace " + namespace
	if namespace == metav1.NamespaceAll {
		where, namespace = "In all namespaces", "NAMESPACE"
	}
	if others > 0 {
		have := map[bool]string{true: "has", false: "have"}[others == 1]
		return fmt.Sprintf("%s, %s %s opted in, but not with the labels %s. List all without --selector.", where,
			counted(others, "StatefulSet"), have, selector)
	}
	return fmt.Sprintf("%s, no StatefulSet has opted in. Opt in with: kubectl label -n %s sts NAME %s=true", where, namespace,
		api.ManagedLabel)
}

// columnWidth is the longest text in a column of the list, except with -o wide.
const columnWidth = 60

func (o *listing) print(out io.Writer, d overview.Document) error {
	screen := terminal.New(out)
	header := []string{"NAME", "READY", "STATE", "SINCE", "OPERATION", "WHY"}
	if o.all {
		header = append([]string{"NAMESPACE"}, header...)
	}
	rows := [][]string{header}
	for _, set := range d.Sets {
		row := []string{set.Name, fmt.Sprintf("%d/%d", set.Ready, set.Replicas), string(set.State), since(set.Since, o.now()),
			o.clip(operationsInList(set)), o.clip(orDash(text.Printable(set.Why)))}
		if o.all {
			row = append([]string{set.Namespace}, row...)
		}
		rows = append(rows, row)
	}
	for i, line := range align(rows) {
		if i > 0 {
			set := d.Sets[i-1]
			line = strings.Replace(line, string(set.State), screen.Styled(stateStyle(set.State), string(set.State)), 1)
		}
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}

func (o *listing) clip(words string) string {
	if o.output == "wide" {
		return words
	}
	return text.Clip(words, columnWidth)
}

// operationsInList returns the operations of the set, and the number of its dead letters.
func operationsInList(set overview.Set) string {
	var all []string
	for _, o := range set.Operations {
		words := strings.ToLower(string(o.Kind))
		if o.Phase != "" {
			words += " " + string(o.Phase)
		}
		if o.Phase == "" || o.Phase.Terminal() {
			words += ": " + string(o.Reason)
		}
		all = append(all, words)
	}
	if n := set.DeadLetters; n > 0 {
		all = append(all, fmt.Sprintf("dead letters: %d", n))
	}
	return orDash(text.Printable(strings.Join(all, "; ")))
}

func since(at *metav1.Time, now time.Time) string {
	if at == nil {
		return "-"
	}
	return progress.Age(now.Sub(at.Time))
}

func stateStyle(state overview.State) terminal.Style {
	switch state {
	case overview.Asleep, overview.AtZero:
		return terminal.Dim
	case overview.FallingAsleep, overview.WakingUp:
		return terminal.Attention
	}
	return terminal.Good
}
