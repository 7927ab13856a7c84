package command

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/uuid"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/text"
)

// redeliver holds the state of kubectl drydock redeliver.
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
		Short: "Send dead letters again: events that no function accepted",
		Long: "Send the dead letters of a StatefulSet again, all of them or those with the IDs.\n" +
			"A dead letter is an event that no function accepted. Orders are not listed: send them again with emit and a token.\n\n" +
			"If the Broker accepts an event, the command removes it from the annotation " + api.DeadLettersAnnotation + ".\n" +
			"If the event fails again, it returns to the list.",
		Example: "  kubectl drydock redeliver sts/web --list\n  kubectl drydock redeliver sts/web\n  kubectl drydock redeliver sts/web 3f2a91c0",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0], args[1:]) },
	}
	o.sink.add(c.Flags())
	c.Flags().BoolVar(&o.list, "list", false, "print the dead letters instead of sending them")
	addDryRun(c, &o.dryRun, "the same as --list")
	return c
}

func (o *redeliver) run(ctx context.Context, argument string, ids []string) error {
	dryRun, err := isDryRun(o.dryRun)
	if err != nil {
		return err
	}
	s, err := o.open(argument)
	if err != nil {
		return err
	}
	set, err := s.managed(ctx)
	if err != nil {
		return err
	}
	letters, err := api.LoadDeadLetters(set)
	if err != nil {
		return err
	}
	chosen, err := chooseLetters(letters, ids)
	switch {
	case err != nil:
		return err
	case len(chosen) == 0:
		fmt.Fprintf(o.ErrOut, "no dead letters on StatefulSet %s/%s\n", set.Namespace, set.Name)
		return nil
	case o.list || dryRun:
		return printLetters(o.Out, chosen, o.now())
	}
	return o.sendAll(ctx, s, set, chosen)
}

// chooseLetters returns the letters with the IDs, which are those of the table or of the events. Without IDs it returns all letters.
func chooseLetters(letters []api.UndeliveredEvent, ids []string) ([]api.UndeliveredEvent, error) {
	if len(ids) == 0 {
		return letters, nil
	}
	var chosen []api.UndeliveredEvent
	for _, l := range letters {
		if slices.Contains(ids, l.Key()) || slices.Contains(ids, l.ID) {
			chosen = append(chosen, l)
		}
	}
	for _, id := range ids {
		if !slices.ContainsFunc(chosen, func(l api.UndeliveredEvent) bool { return l.Key() == id || l.ID == id }) {
			return nil, fmt.Errorf("no dead letter has the ID %q. List them with --list", id)
		}
	}
	return chosen, nil
}

// sendAll marks the letters as resent before it sends them, and removes the accepted ones afterwards. If an event fails again in between,
// dead-letter replaces the marked letter, and the new letter stays in the list.
func (o *redeliver) sendAll(ctx context.Context, s *session, set *appsv1.StatefulSet, letters []api.UndeliveredEvent) error {
	to, err := o.sink.open(ctx, s.raw)
	if err != nil {
		return err
	}
	keys := keysOf(letters)
	if err := s.changeLetters(ctx, func(now []api.UndeliveredEvent) []api.UndeliveredEvent { return markResent(now, keys, o) }); err != nil {
		return fmt.Errorf("marking the dead letters as resent: %w", err)
	}
	var failed error
	var accepted []string
	for _, l := range letters {
		e, err := s.resendable(ctx, l, set)
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
	// After an interrupt too, accepted letters must leave the list.
	if err := s.changeLetters(context.WithoutCancel(ctx), func(now []api.UndeliveredEvent) []api.UndeliveredEvent {
		return removeResent(now, accepted)
	}); err != nil {
		failed = errors.Join(failed, fmt.Errorf("removing the sent dead letters from the list: %w", err))
	}
	return failed
}

func keysOf(letters []api.UndeliveredEvent) []string {
	var keys []string
	for _, l := range letters {
		keys = append(keys, l.Key())
	}
	return keys
}

// markResent returns the letters with the time of the resend on those with the keys.
func markResent(letters []api.UndeliveredEvent, keys []string, o *redeliver) []api.UndeliveredEvent {
	marked := slices.Clone(letters)
	for i := range marked {
		if slices.Contains(keys, marked[i].Key()) && marked[i].Resent == nil {
			marked[i].Resent = operation.Moment(o.now())
		}
	}
	return marked
}

// removeResent removes the letters with the keys. A letter without the mark failed again after the resend and stays.
func removeResent(letters []api.UndeliveredEvent, keys []string) []api.UndeliveredEvent {
	return slices.DeleteFunc(
		slices.Clone(letters),
		func(l api.UndeliveredEvent) bool { return l.Resent != nil && slices.Contains(keys, l.Key()) },
	)
}

// changeLetters rewrites the list of dead letters on the live set.
func (s *session) changeLetters(ctx context.Context, change func([]api.UndeliveredEvent) []api.UndeliveredEvent) error {
	return s.write(ctx, func(set *appsv1.StatefulSet) (*plan.Patch, error) {
		letters, err := api.LoadDeadLetters(set)
		if err != nil {
			return nil, err
		}
		patch := plan.PatchOf(plan.StatefulSets, set)
		if len(letters) == 0 { // a successful operation has removed them
			return patch, nil
		}
		if letters = change(letters); len(letters) == 0 {
			return patch.Unannotate(api.DeadLettersAnnotation), nil
		}
		return patch.Annotate(api.DeadLettersAnnotation, api.EncodeDeadLetters(letters)), nil
	})
}

// resendable returns a new event for a dead letter. An event of the event source carries an object, so it is made from the live object.
func (s *session) resendable(ctx context.Context, l api.UndeliveredEvent, set *appsv1.StatefulSet) (event.Event, error) {
	ref := refOf(set)
	if !events.IsSource(l.Type) {
		return events.Resend(l, ref)
	}
	reference, err := events.ObjectOfLetter(l)
	if err != nil {
		return event.Event{}, err
	}
	if !reference.Watched() || reference.Namespace != set.Namespace {
		return event.Event{}, fmt.Errorf("letter %s is for a %s in namespace %s, which does not belong to StatefulSet %s/%s",
			l.Key(), text.Printable(reference.Kind), reference.Namespace, set.Namespace, set.Name)
	}
	object, err := s.object(ctx, reference)
	if err != nil {
		return event.Event{}, err
	}
	if object == nil || !belongsTo(object, set) {
		// Without the object the event has no data. The functions read the live objects anyway.
		return events.NewFromUser(events.ObjectChanged, ref, uuid.NewString(), wakeable...), nil
	}
	return events.NewSource(events.SourceUpdate, l.Source, uuid.NewString(), object)
}

// belongsTo reports whether the object is the set, or linked to it. Every user who may annotate a set can write letters. A forged letter
// must not make another user send events about other objects of the namespace.
func belongsTo(object *unstructured.Unstructured, set *appsv1.StatefulSet) bool {
	if object.GetKind() == events.KindStatefulSet {
		return object.GetUID() == set.UID
	}
	link, err := api.LoadLink(object)
	return err == nil && link != nil && link.Namespace == set.Namespace && link.Set.Name == set.Name
}
