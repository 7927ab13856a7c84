package command

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
)

// redeliver sends dead letters again.
type redeliver struct {
	*tool
	sink   sinkFlags
	list   bool
	dryRun string
}

func newRedeliver(t *tool) *cobra.Command {
	o := &redeliver{tool: t}
	c := &cobra.Command{
		Use:   "redeliver sts/NAME [ID...]",
		Short: "Send the events again that no function took",
		Long: "Send the events about a StatefulSet again that no function took, all of them or those with the IDs.\n" +
			"An event that the Broker accepts leaves the list in the annotation " + api.DeadLettersAnnotation +
			"; if it fails again, it comes back.",
		Example: "  kubectl drydock redeliver sts/web --list\n  kubectl drydock redeliver sts/web\n  kubectl drydock redeliver sts/web 3f2a91c0",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0], args[1:]) },
	}
	o.sink.add(c.Flags())
	c.Flags().BoolVar(&o.list, "list", false, "print them instead of sending them")
	addDryRun(c, &o.dryRun, "the same as --list")
	return c
}

func (o *redeliver) run(ctx context.Context, argument string, ids []string) error {
	printed, err := dry(o.dryRun)
	if err != nil {
		return err
	}
	s, err := o.open(argument)
	if err != nil {
		return err
	}
	set, err := s.set(ctx)
	if err != nil {
		return err
	}
	letters, err := api.LoadDeadLetters(set)
	if err != nil {
		return err
	}
	chosen, err := choose(letters, ids)
	switch {
	case err != nil:
		return err
	case len(chosen) == 0:
		fmt.Fprintf(o.ErrOut, "no dead letters on StatefulSet %s/%s\n", set.Namespace, set.Name)
		return nil
	case o.list || printed:
		return printLetters(o.Out, chosen, o.now())
	}
	return o.sendAll(ctx, s, set, chosen)
}

// choose picks the letters with the IDs of the list, or of their events; all of them if none is given.
func choose(letters []api.Letter, ids []string) ([]api.Letter, error) {
	if len(ids) == 0 {
		return letters, nil
	}
	var chosen []api.Letter
	for _, l := range letters {
		if slices.Contains(ids, l.Key()) || slices.Contains(ids, l.ID) {
			chosen = append(chosen, l)
		}
	}
	for _, id := range ids {
		if !slices.ContainsFunc(chosen, func(l api.Letter) bool { return l.Key() == id || l.ID == id }) {
			return nil, fmt.Errorf("no dead letter has the ID %q; --list shows those there are", id)
		}
	}
	return chosen, nil
}

// sendAll marks the letters before it sends them: a function may give an event up again before we take its letter out,
// and must find that this is news.
func (o *redeliver) sendAll(ctx context.Context, s *session, set *appsv1.StatefulSet, letters []api.Letter) error {
	to, err := o.sink.open(ctx, s.raw)
	if err != nil {
		return err
	}
	keys := keysOf(letters)
	if err := s.change(ctx, func(now []api.Letter) []api.Letter { return mark(now, keys, o) }); err != nil {
		return fmt.Errorf("writing down that events are sent again: %w", err)
	}
	var failed error
	var accepted []string
	for _, l := range letters {
		e, err := s.again(ctx, l, set)
		if err == nil {
			err = to.send(ctx, e)
		}
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		accepted = append(accepted, l.Key())
		fmt.Fprintf(o.Out, "statefulset.apps/%s: event %s sent to %s (%s)\n", set.Name, e.Type(), to.name, l.Key())
	}
	// Also after an interrupt: accepted letters must not stay in the list.
	if err := s.change(context.WithoutCancel(ctx), func(now []api.Letter) []api.Letter { return drop(now, accepted) }); err != nil {
		failed = errors.Join(failed, fmt.Errorf("taking the sent letters out of the list: %w", err))
	}
	return failed
}

func keysOf(letters []api.Letter) []string {
	var keys []string
	for _, l := range letters {
		keys = append(keys, l.Key())
	}
	return keys
}

// mark says of the letters that they are being sent again.
func mark(letters []api.Letter, keys []string, o *redeliver) []api.Letter {
	marked := slices.Clone(letters)
	for i := range marked {
		if slices.Contains(keys, marked[i].Key()) && marked[i].Resent == nil {
			marked[i].Resent = operation.Moment(o.now())
		}
	}
	return marked
}

// drop takes the letters out, except letters that came back since they were marked.
func drop(letters []api.Letter, keys []string) []api.Letter {
	return slices.DeleteFunc(slices.Clone(letters), func(l api.Letter) bool { return l.Resent != nil && slices.Contains(keys, l.Key()) })
}

// change rewrites the live list.
func (s *session) change(ctx context.Context, change func([]api.Letter) []api.Letter) error {
	return s.write(ctx, func(set *appsv1.StatefulSet) (*plan.Patch, error) {
		letters, err := api.LoadDeadLetters(set)
		if err != nil {
			return nil, err
		}
		patch := plan.PatchOf(plan.StatefulSets, set)
		if len(letters) == 0 { // an operation has succeeded since
			return patch, nil
		}
		if letters = change(letters); len(letters) == 0 {
			return patch.Unannotate(api.DeadLettersAnnotation), nil
		}
		return patch.Annotate(api.DeadLettersAnnotation, api.EncodeDeadLetters(letters)), nil
	})
}
