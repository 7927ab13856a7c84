package idletimeout

import (
	"context"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// observe reads what Decide needs. Answers are those of the probes that were asked in this event already: each set is asked once.
func (f *Function) observe(ctx context.Context, ref events.Ref, signal Signal, answers map[string]Probed) (Input, error) {
	in := Input{Now: time.Now(), Name: ref.Name, Signal: signal, Settings: f.settings, Probes: map[string]Probed{}, Records: map[string][]Record{}}
	set := &appsv1.StatefulSet{}
	found, err := f.client.Get(ctx, plan.StatefulSets, ref.Namespace, ref.Name, set)
	if err != nil {
		return in, err
	}
	if found {
		if in.Group, err = f.group(ctx, set); err != nil {
			return in, err
		}
	}
	if err := f.observeScalers(ctx, &in); err != nil {
		return in, err
	}
	if in.mayHaveRecords() {
		if err := f.observeRecords(ctx, ref.Namespace, in.Records); err != nil {
			return in, err
		}
	}
	due := in.toProbe()
	unasked := slices.DeleteFunc(slices.Clone(due), func(m idle.Member) bool { _, ok := answers[m.Set.Name]; return ok })
	if len(unasked) > 0 && in.complete(due) {
		maps.Copy(answers, f.prober.askAll(ctx, in.Group, unasked))
	}
	for _, m := range due {
		if answer, ok := answers[m.Set.Name]; ok {
			in.Probes[m.Set.Name] = answer
		}
	}
	return in, nil
}

// complete reports whether the members that are due are all that would have to say that they are idle. Otherwise the group stays
// awake whatever they say.
func (in Input) complete(due []idle.Member) bool {
	asked := map[string]Probed{}
	for _, m := range due {
		asked[m.Set.Name] = Probed{}
	}
	return cleared(asked, in.Group)
}

// observeRecords reads the records of sleeps, by set.
func (f *Function) observeRecords(ctx context.Context, namespace string, into map[string][]Record) error {
	return kube.Pages(ctx, f.client, plan.ControllerRevisions, namespace, api.OperationLabel, &appsv1.ControllerRevisionList{}, func(l *appsv1.ControllerRevisionList) {
		for i := range l.Items {
			link := api.LoadRecord(&l.Items[i])
			if link == nil || link.Role != api.RoleSleep {
				continue
			}
			into[link.Set.Name] = append(into[link.Set.Name], Record{Revision: &l.Items[i], Link: link})
		}
	})
}

// group reads the opted-in sets of the set's group. One that is not opted in, or in no group, is alone.
func (f *Function) group(ctx context.Context, set *appsv1.StatefulSet) (idle.Group, error) {
	name := set.Labels[api.GroupLabel]
	if name == "" || !statefulset.Managed(set) {
		return idle.Group{idle.MemberOf(set)}, nil
	}
	return f.members(ctx, set.Namespace, name)
}

func (f *Function) members(ctx context.Context, namespace, group string) (idle.Group, error) {
	var members idle.Group
	selector := api.ManagedLabel + "=true," + api.GroupLabel + "=" + group
	err := kube.Pages(ctx, f.client, plan.StatefulSets, namespace, selector, &appsv1.StatefulSetList{}, func(l *appsv1.StatefulSetList) {
		for i := range l.Items {
			members = append(members, idle.MemberOf(&l.Items[i]))
		}
	})
	return members, err
}

// firstOf names the set that stands for a group, empty if there is none: each member's activity is the group's.
func (f *Function) firstOf(ctx context.Context, namespace, group string) (string, error) {
	members, err := f.members(ctx, namespace, group)
	if err != nil || len(members) == 0 {
		return "", err
	}
	sorted := members.InOrder()
	for _, m := range sorted {
		if !m.Rules.Paused {
			return m.Set.Name, nil
		}
	}
	return sorted[0].Set.Name, nil
}

// observeScalers reads the Scalers of the group's sets that have one, as their records tell. A set whose Scaler is gone is scaled as any other.
func (f *Function) observeScalers(ctx context.Context, in *Input) error {
	in.Scalers = map[string]*v1alpha1.Scaler{}
	for _, m := range in.Group {
		record := operation.Of(m.Set).Scale
		if record == nil || len(validation.IsDNS1123Subdomain(record.Scaler.Name)) > 0 {
			continue
		}
		scaler := &v1alpha1.Scaler{}
		found, err := f.client.Get(ctx, plan.Scalers, m.Set.Namespace, record.Scaler.Name, scaler)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if found && scaler.UID == record.Scaler.UID && scaler.DeletionTimestamp == nil && scaler.Spec.Target == m.Set.Name {
			in.Scalers[m.Set.Name] = scaler
		}
	}
	return nil
}
