package command

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/cmd/kubectl-drydock/release"
	"drydock.dev/shared/api"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// releasing finds what Drydock holds.
type releasing struct{ *session }

func (s *session) releasing() releasing { return releasing{s} }

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
	inputs, err := s.releasing().holdings(ctx)
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
			fmt.Fprintln(o.Out, text.Printable(fmt.Sprintf("%s/%s: %s", in.Namespace, in.Name, note)))
		}
		for _, problem := range left {
			fmt.Fprintln(o.Out, text.Printable(fmt.Sprintf("%s/%s: not released yet: %s", in.Namespace, in.Name, problem)))
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
			if in, err = s.releasing().holdingsOf(ctx, in.Namespace, in.Name); err != nil {
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
	names, unused, err := s.releasing().oldVolumes(ctx)
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
			"kubectl patch pv "+unused+` -p '{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}'`)
	}
	fmt.Fprintln(o.Out, ".")
	return nil
}

// holdings reads every set of the namespace with something to release, sorted by namespace and name.
func (r releasing) holdings(ctx context.Context) ([]release.Input, error) {
	found := map[types.NamespacedName]*release.Input{}
	inputOf := func(namespace, name string) *release.Input {
		key := types.NamespacedName{Namespace: namespace, Name: name}
		if found[key] == nil {
			found[key] = &release.Input{Now: time.Now(), Namespace: namespace, Name: name}
		}
		return found[key]
	}
	var revisions []*appsv1.ControllerRevision
	gather := func(l *appsv1.ControllerRevisionList) {
		for i := range l.Items {
			revisions = append(revisions, &l.Items[i])
		}
	}
	err := kube.Pages(ctx, r.client, plan.ControllerRevisions, r.namespace, api.OperationLabel, &appsv1.ControllerRevisionList{}, gather)
	if err != nil {
		return nil, err
	}
	for _, revision := range revisions {
		link := api.RevisionLink(revision)
		if link == nil || link.Namespace != revision.Namespace {
			continue // not a record of Drydock
		}
		r.addRecord(ctx, inputOf(link.Namespace, link.Set.Name), revision, link)
	}
	if err := r.addHeldPods(ctx, inputOf); err != nil {
		return nil, err
	}
	err = kube.Pages(ctx, r.client, plan.StatefulSets, r.namespace, "", &appsv1.StatefulSetList{}, func(l *appsv1.StatefulSetList) {
		for i := range l.Items {
			set := &l.Items[i]
			if _, known := found[types.NamespacedName{Namespace: set.Namespace, Name: set.Name}]; known || isMarked(set) {
				inputOf(set.Namespace, set.Name).Set = set
			}
		}
	})
	var all []release.Input
	for _, in := range found {
		all = append(all, *in)
	}
	slices.SortFunc(all, func(a, b release.Input) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all, err
}

// addHeldPods adds the pods with a hold to their sets, and the claims of their namespaces.
func (r releasing) addHeldPods(ctx context.Context, inputOf func(namespace, name string) *release.Input) error {
	setsIn := map[string][]*release.Input{} // by namespace
	err := kube.Pages(ctx, r.client, plan.Pods, r.namespace, api.OperationLabel, &corev1.PodList{}, func(l *corev1.PodList) {
		for i := range l.Items {
			pod := &l.Items[i]
			link, err := api.LoadLink(pod)
			if err != nil || link == nil || link.Role != api.RoleHeld || !statefulset.Held(pod) {
				continue
			}
			in := inputOf(pod.Namespace, link.Set.Name)
			in.Held = append(in.Held, pod)
			if !slices.Contains(setsIn[pod.Namespace], in) {
				setsIn[pod.Namespace] = append(setsIn[pod.Namespace], in)
			}
		}
	})
	if err != nil {
		return err
	}
	for namespace, sets := range setsIn {
		var claims []*corev1.PersistentVolumeClaim
		gather := func(l *corev1.PersistentVolumeClaimList) {
			for i := range l.Items {
				claims = append(claims, &l.Items[i])
			}
		}
		if err := kube.Pages(ctx, r.client, plan.Claims, namespace, "", &corev1.PersistentVolumeClaimList{}, gather); err != nil {
			return err
		}
		for _, in := range sets {
			in.Claims = claims
		}
	}
	return nil
}

// isMarked reports whether the set has a label, finalizer or active record of Drydock. A release keeps its configuration and the records of
// ended operations.
func isMarked(set *appsv1.StatefulSet) bool {
	for _, label := range []string{api.ManagedLabel, api.FinalizerLabel} {
		if _, ok := set.Labels[label]; ok {
			return true
		}
	}
	records := operation.Of(set)
	return records.Resizing() || records.Sleeping() || slices.Contains(set.Finalizers, api.CleanupFinalizer)
}

// addRecord adds a record to the facts about its set.
func (r releasing) addRecord(ctx context.Context, in *release.Input, revision *appsv1.ControllerRevision, link *api.Link) {
	switch link.Role {
	case api.RoleStop:
		in.Stops = append(in.Stops, revision)
	case api.RoleJournal:
		in.Journals = append(in.Journals, revision)
	case api.RoleOwner:
		o := release.Owner{Record: revision, Operation: link.Operation, Set: link.Set.Name}
		o.Err = r.readOwner(ctx, &o)
		in.Owners = append(in.Owners, o)
	}
}

// readOwner reads the owner that the record names.
func (r releasing) readOwner(ctx context.Context, o *release.Owner) error {
	doc, err := api.LoadPausedOwner(o.Record)
	if err != nil {
		return err
	}
	gv, err := schema.ParseGroupVersion(doc.APIVersion)
	if err != nil {
		return err
	}
	// Any user of the namespace may have written the record, and the user of this command may have more rights.
	if err := owners.CheckGroup(gv.Group); err != nil {
		return err
	}
	o.Doc = doc
	object, resource, err := r.client.GetCustom(ctx, plan.CustomResource(doc.Resource, gv), o.Record.Namespace, doc.Name)
	o.Resource = resource
	if object != nil && owners.IsRecorded(object, doc, o.Operation, o.Set) {
		o.Object = object
	}
	return err
}

// holdingsOf reads the facts about one set again.
func (r releasing) holdingsOf(ctx context.Context, namespace, name string) (release.Input, error) {
	one := *r.session
	one.namespace = namespace
	all, err := one.releasing().holdings(ctx)
	for _, in := range all {
		if in.Name == name {
			return in, err
		}
	}
	return release.Input{Namespace: namespace, Name: name}, err
}

// oldVolumes returns the names of the volumes that operations have replaced and that are retained, and one of them that no claim uses. A
// user may have bound a claim to an old volume again, which then has the only data.
func (r releasing) oldVolumes(ctx context.Context) (names []string, unused string, err error) {
	selector := api.OperationLabel
	if r.namespace != "" {
		selector += "," + api.NamespaceLabel + "=" + r.namespace
	}
	err = kube.Pages(ctx, r.client, plan.Volumes, "", selector, &corev1.PersistentVolumeList{}, func(l *corev1.PersistentVolumeList) {
		for i := range l.Items {
			volume := &l.Items[i]
			link, err := api.LoadLink(volume)
			if err != nil || link == nil || link.Role != api.RoleOldVolume {
				continue
			}
			names = append(names, volume.Name)
			if volume.Status.Phase == corev1.VolumeReleased && (unused == "" || volume.Name < unused) {
				unused = volume.Name
			}
		}
	})
	slices.Sort(names)
	return names, unused, err
}
