package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/cmd/kubectl-drydock/release"
	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/text"
)

// releaser holds the state of kubectl drydock release.
type releaser struct {
	*tool
	all, yes, holds bool
}

func newRelease(t *tool) *cobra.Command {
	o := &releaser{tool: t}
	c := &cobra.Command{
		Use:   "release [--all-namespaces] [--yes] [--holds]",
		Short: "Wake and release everything before Drydock is uninstalled",
		Long: "Release held pods, wake sleeping StatefulSets, resume paused owners, and remove Drydock's labels and finalizers from every\n" +
			"StatefulSet of the namespace without a running operation. It also removes the annotations that request something, such as\n" +
			"drydock.dev/paused and drydock.dev/resize: otherwise they would act again when the set opts in later. Settings and records stay.\n" +
			"The command does not need Drydock's functions.\n\n" +
			"A set with a running resize is not released: wait for its end, or abort it. If Drydock's functions do not run any more, --holds\n" +
			"releases its held pods. A pod is released only if all of its claims are bound. Otherwise its member would start on an empty\n" +
			"volume.\n\n" +
			"Without --yes the command only shows the changes. Run it until nothing is left.",
		Example: "  kubectl drydock release -n shop\n  kubectl drydock release --all-namespaces --yes",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	c.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "every namespace of the cluster")
	c.Flags().BoolVarP(&o.yes, "yes", "y", false, "make the changes")
	c.Flags().BoolVar(&o.holds, "holds", false, "release the held pods of running operations too. Use it only if Drydock's functions do not "+
		"run any more")
	return c
}

func (o *releaser) run(ctx context.Context) error {
	s, err := o.connect()
	if err != nil {
		return err
	}
	if o.all {
		s.namespace = metav1.NamespaceAll
	}
	inputs, err := s.holdings(ctx)
	if err != nil {
		return err
	}
	unreleased, total := 0, 0
	for _, in := range inputs {
		in.Holds = o.holds
		left, err := o.release(ctx, s, in)
		if err != nil {
			return err
		}
		if len(left) > 0 {
			unreleased++
		}
		total++
		if note := release.Note(in); note != "" {
			fmt.Fprintln(o.Out, o.connection().in(text.Printable(fmt.Sprintf("%s/%s: %s", in.Namespace, in.Name, note))))
		}
		for _, problem := range left {
			fmt.Fprintln(o.Out, o.connection().in(text.Printable(fmt.Sprintf("%s/%s: not released yet: %s", in.Namespace, in.Name, problem))))
		}
	}
	if err := o.printOldVolumes(ctx, s); err != nil {
		return err
	}
	switch {
	case unreleased > 0:
		return fmt.Errorf("%d of %s %s not released yet", unreleased, counted(total, "StatefulSet"), are(unreleased))
	case total == 0:
		fmt.Fprintln(o.Out, "Drydock holds nothing here.")
	case !o.yes:
		fmt.Fprintf(o.Out, "%s would be released. Add --yes to do it.\n", counted(total, "StatefulSet"))
	default:
		fmt.Fprintf(o.Out, "%s %s released.\n", counted(total, "StatefulSet"), are(total))
	}
	return nil
}

// release makes the writes for one set, prints them, and returns the objects that are left. After a conflict it reads the set again.
func (o *releaser) release(ctx context.Context, s *session, in release.Input) (left []string, err error) {
	if !o.yes {
		actions, left := release.Decide(in)
		o.printActions(in, actions)
		return left, nil
	}
	first := true
	_, err = s.apply.Run(ctx, func(ctx context.Context) (plan.Plan, error) {
		if !first {
			if in, err = s.holdingsOf(ctx, in.Namespace, in.Name); err != nil {
				return plan.Plan{}, err
			}
			in.Holds = o.holds
		}
		first = false
		var actions []plan.Action
		actions, left = release.Decide(in)
		o.printActions(in, actions)
		return plan.Do(api.CleaningUp, actions...).Then("written", ""), nil
	})
	return left, err
}

func (o *releaser) printActions(in release.Input, actions []plan.Action) {
	for _, a := range actions {
		fmt.Fprintln(o.Out, text.Printable(fmt.Sprintf("%s/%s: %s", in.Namespace, in.Name, a)))
	}
}

// printOldVolumes lists the old volumes that are still retained. Nothing deletes them after Drydock is uninstalled.
func (o *releaser) printOldVolumes(ctx context.Context, s *session) error {
	names, unused, err := s.oldVolumes(ctx)
	if err != nil {
		fmt.Fprintf(o.Out, "old volumes cannot be listed: %s\n", text.Printable(err.Error()))
		return nil
	}
	if len(names) == 0 {
		return nil
	}
	fmt.Fprintf(o.Out, "old volumes stay, and nothing deletes them after Drydock is uninstalled: %s. Wait until their retention ends",
		strings.Join(names, ", "))
	if unused != "" {
		fmt.Fprintf(o.Out, ", or delete one with its data: %s",
			o.connection().inOwn("kubectl patch pv "+unused+` -p '{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}'`))
	}
	fmt.Fprintln(o.Out, ".")
	return nil
}
