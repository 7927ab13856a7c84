package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/cmd/kubectl-drydock/release"
	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// releaser lets go of everything in a namespace, or in the cluster.
type releaser struct {
	*tool
	all, yes, holds bool
}

func newRelease(t *tool) *cobra.Command {
	o := &releaser{tool: t}
	c := &cobra.Command{
		Use:   "release [--all-namespaces] [--yes] [--holds]",
		Short: "Wake and release everything before Drydock is uninstalled",
		Long: "Release pods that are held, wake every set that sleeps, resume the owners that are paused, and remove Drydock's labels\n" +
			"and finalizers from every StatefulSet of the namespace without a running operation. The sets have to opt in again afterwards.\n" +
			"It needs no function to run.\n" +
			"A set whose resize runs is left: wait for its end, or abort it. Where no function works any more, --holds releases the pods that\n" +
			"are held for it, each only if all of its claims are bound: without one of them it would start on an empty volume.\n" +
			"Without --yes it only says what it would do. Run it until nothing is left.",
		Example: "  kubectl drydock release -n shop\n  kubectl drydock release --all-namespaces --yes",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	c.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "every namespace of the cluster")
	c.Flags().BoolVarP(&o.yes, "yes", "y", false, "do it")
	c.Flags().BoolVar(&o.holds, "holds", false, "release held pods although their operation runs; only where no function of Drydock works "+
		"any more")
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
	held, err := s.holdings(ctx)
	if err != nil {
		return err
	}
	open, named := 0, 0
	for _, in := range held {
		in.Holds = o.holds
		left, err := o.release(ctx, s, in)
		if err != nil {
			return err
		}
		if len(left) > 0 {
			open++
		}
		named++
		for _, text := range left {
			fmt.Fprintf(o.Out, "%s/%s: left: %s\n", in.Namespace, in.Name, printable(text))
		}
	}
	if err := o.volumes(ctx, s); err != nil {
		return err
	}
	switch {
	case open > 0:
		return fmt.Errorf("%d of %d StatefulSets are not released yet", open, named)
	case named == 0:
		fmt.Fprintln(o.Out, "Drydock holds nothing here.")
	case !o.yes:
		fmt.Fprintf(o.Out, "%d StatefulSets would be released; do it with --yes.\n", named)
	default:
		fmt.Fprintf(o.Out, "%d StatefulSets are released.\n", named)
	}
	return nil
}

// release makes the writes for one set, and prints them. After a conflict, it reads the set again.
func (o *releaser) release(ctx context.Context, s *session, in release.Input) (left []string, err error) {
	if !o.yes {
		actions, left := release.Decide(in)
		o.tell(in, actions)
		return left, nil
	}
	first := true
	_, err = s.apply.Run(ctx, func(ctx context.Context) (plan.Plan, error) {
		if !first {
			if in, err = s.holding(ctx, in.Namespace, in.Name); err != nil {
				return plan.Plan{}, err
			}
			in.Holds = o.holds
		}
		first = false
		var actions []plan.Action
		actions, left = release.Decide(in)
		o.tell(in, actions)
		return plan.Do(api.CleaningUp, actions...).Then("written", ""), nil
	})
	return left, err
}

func (o *releaser) tell(in release.Input, actions []plan.Action) {
	for _, a := range actions {
		fmt.Fprintf(o.Out, "%s/%s: %s\n", in.Namespace, in.Name, a)
	}
}

// volumes names the old volumes that are kept for a while: nothing gives them back when Drydock is gone.
func (o *releaser) volumes(ctx context.Context, s *session) error {
	kept, err := s.oldVolumes(ctx)
	if err != nil {
		fmt.Fprintf(o.Out, "left: old volumes cannot be listed: %v\n", err)
		return nil
	}
	slices.Sort(kept)
	if len(kept) > 0 {
		fmt.Fprintf(o.Out, "left: old volumes, which nothing deletes any more when Drydock is gone: %s. Delete them yourself, "+
			"or wait for the end of their window.\n", strings.Join(kept, ", "))
	}
	return nil
}
