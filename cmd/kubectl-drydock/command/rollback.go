package command

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/text"
	"drydock.dev/shared/world"
)

// rollback holds the state of kubectl drydock rollback.
type rollback struct {
	*tool
	operation string
	yes       bool
}

func newRollback(t *tool) *cobra.Command {
	o := &rollback{tool: t}
	c := &cobra.Command{
		Use:   "rollback sts/NAME",
		Short: "Put back the old volumes that a resize replaced",
		Long: "Put back the old volumes that a resize replaced, as long as they are retained, with the templates of that time.\n" +
			"Members are stopped for this, together or one at a time according to " + api.StrategyAnnotation + ".\n" +
			"Nothing is copied: data that was written since the resize is not on the old volumes. It stays on the set's present volumes, which\n" +
			"are retained in turn.\n\n" +
			"Without --yes the command only shows the volumes. With --yes it writes the annotation " + api.RollbackAnnotation + ".",
		Example: "  kubectl drydock rollback sts/web\n  kubectl drydock rollback sts/web --yes",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
	}
	c.Flags().StringVar(&o.operation, "operation", "", "the operation to undo; needed only if several operations have old volumes")
	c.Flags().BoolVarP(&o.yes, "yes", "y", false, "request the rollback")
	return c
}

func (o *rollback) run(ctx context.Context, argument string) error {
	s, err := o.open(argument)
	if err != nil {
		return err
	}
	if _, err := s.managed(ctx); err != nil {
		return err
	}
	in, unread, err := s.observeRollback(ctx)
	switch {
	case err != nil:
		return err
	case in.Set == nil:
		return fmt.Errorf("StatefulSet %s/%s is gone", s.namespace, s.name)
	case unread != nil:
		fmt.Fprintf(o.ErrOut, "The obstacles to the rollback are not checked here, because you lack a right: %s. Drydock checks them before it "+
			"stops a member.\n", text.Printable(unread.Error()))
	}
	operation, err := operationToUndo(in, o.operation)
	if err != nil {
		return err
	}
	request, err := acceptedRollback(in, operation)
	if err != nil {
		return err
	}
	if err := o.show(in, request, operation); err != nil {
		return err
	}
	if !o.yes {
		fmt.Fprintln(o.ErrOut, "Nothing was changed. To put these volumes back, add --yes.")
		return nil
	}
	err = s.write(ctx, func(live *appsv1.StatefulSet) (*plan.Patch, error) {
		if err := unchanged(in.Set, live); err != nil {
			return nil, err
		}
		record, err := statusOf(live)
		order := resize.RollbackOrder(live, record, operation, time.Now())
		return plan.PatchOf(plan.StatefulSets, live).Annotate(api.RollbackAnnotation, order), err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "statefulset.apps/%s: the rollback of operation %s begins with the next event or tick\n", s.name, operation)
	return nil
}

// observeRollback reads the set, the objects around it and the facts of its cluster. If the user may not read all of those, it reads only
// what a rollback needs, and returns the error of the missing right: the set, its claims and the old volumes.
func (s *session) observeRollback(ctx context.Context) (in resize.Input, unread, err error) {
	in = resize.Input{Registry: owners.BuiltIn()}
	ref := events.Ref{Namespace: s.namespace, Name: s.name}
	in.Observed, err = s.client.Observe(ctx, ref)
	if err == nil {
		in.Cluster, err = s.client.Cluster(ctx, s.namespace)
	}
	if !apierrors.IsForbidden(err) {
		return in, nil, err
	}
	unread, in.Cluster = err, nil
	in.Observed, err = s.client.ObserveIf(ctx, ref, func(*world.Observed) bool { return false })
	if err != nil || in.Set == nil {
		return in, unread, err
	}
	gather := func(l *corev1.PersistentVolumeClaimList) {
		for i := range l.Items {
			in.Claims = append(in.Claims, &l.Items[i])
		}
	}
	if err = kube.Pages(ctx, s.client, plan.Claims, s.namespace, "", &corev1.PersistentVolumeClaimList{}, gather); err != nil {
		return in, unread, err
	}
	selector := api.OperationLabel + "," + api.NamespaceLabel + "=" + s.namespace
	err = kube.Pages(ctx, s.client, plan.Volumes, "", selector, &corev1.PersistentVolumeList{}, func(l *corev1.PersistentVolumeList) {
		for i := range l.Items {
			in.Volumes[l.Items[i].Name] = &l.Items[i]
		}
	})
	return in, unread, err
}

// operationToUndo returns the operation of the flag, or else the only operation that has old volumes of the set.
func operationToUndo(in resize.Input, flag string) (string, error) {
	found := map[string]bool{}
	for _, v := range in.Volumes {
		if link, err := api.LoadLink(v); err == nil && link != nil && resize.IsOldVolume(v, link.Operation, in.Set.Name, link.Claim) {
			found[link.Operation] = true
		}
	}
	operations := slices.Sorted(maps.Keys(found))
	switch {
	case flag != "":
		return flag, nil
	case len(operations) == 1:
		return operations[0], nil
	case len(operations) == 0:
		return "", fmt.Errorf("StatefulSet %s/%s has no old volumes to put back", in.Set.Namespace, in.Set.Name)
	}
	return "", fmt.Errorf("StatefulSet %s/%s has old volumes of the operations %s. Name one with --operation", in.Set.Namespace,
		in.Set.Name, strings.Join(operations, ", "))
}

// acceptedRollback returns the request for the rollback, or an error with the first reason to refuse it. Without the facts of the
// cluster, it checks only the volumes.
func acceptedRollback(in resize.Input, operation string) (*resize.Changes, error) {
	refuse := func(why string) error {
		return fmt.Errorf("StatefulSet %s/%s: the rollback is not possible: %s", in.Set.Namespace, in.Set.Name, why)
	}
	switch reason, err := resize.Busy(in); {
	case err != nil:
		return nil, refuse(err.Error())
	case reason != "":
		return nil, refuse(fmt.Sprintf("another operation runs, or the set sleeps (%s). Wait until it has ended", reason))
	}
	request := resize.Rollback(in, operation)
	problems := request.Problems
	switch {
	case in.Cluster != nil:
		problems = slices.Concat(problems, resize.PreflightRollback(in, request, operation), resize.StartObstacles(in, request))
	case len(request.Claims) == 0 && len(problems) == 0:
		return nil, refuse(fmt.Sprintf("operation %q has no old volume that is still retained for the set", operation))
	}
	if len(problems) > 0 {
		return nil, refuse(problems[0].Message)
	}
	return request, nil
}

// show prints the volumes that would return, and the consequences.
func (o *rollback) show(in resize.Input, request *resize.Changes, operation string) error {
	table := tabwriter.NewWriter(o.Out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "CLAIM\tPRESENT VOLUME\tSIZE\tOLD VOLUME\tSIZE\tRETAINED UNTIL")
	record := request.Record(in)
	for _, move := range record.Moves() {
		old := in.Volume(move.NewVolume)
		fmt.Fprintln(table, strings.Join([]string{move.Claim, move.OldVolume, move.From.String(), move.NewVolume, move.To.String(),
			text.Printable(old.Annotations[api.RetainedUntilAnnotation])}, "\t"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	since := "operation " + operation + " ended"
	if last, err := in.Record(); err == nil && last != nil && last.Operation == operation && last.Finished != nil {
		since = last.Finished.UTC().Format("2006-01-02 15:04:05 MST")
	}
	fmt.Fprintf(o.Out, "\n%s and started on the old volumes. Data that was written since %s is not on the old volumes. "+
		"It stays on the present volumes, which are retained.\n", memberStopWords(record), since)
	return nil
}

// memberStopWords says how many members a rollback stops at once.
func memberStopWords(record *api.Resize) string {
	members := counted(len(record.Members), "member") + " " + are(len(record.Members))
	if len(record.Members) == 1 {
		return members + " stopped"
	}
	if record.Strategy == api.StrategyRolling {
		return members + " stopped, one at a time"
	}
	return members + " stopped together"
}
