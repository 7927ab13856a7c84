package idletimeout

import (
	"context"
	"errors"
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

// observe reads the objects that Decide needs, and asks the probes. Answers holds the probe results of this event so far, because
// each set is asked only once per event.
func (f *Function) observe(ctx context.Context, ref events.Ref, signal Signal, answers map[string]ProbeResult) (Input, error) {
	in := Input{Now: time.Now(), Name: ref.Name, Signal: signal, Settings: f.settings, Probes: map[string]ProbeResult{}}
	set := &appsv1.StatefulSet{}
	found, err := f.client.Get(ctx, plan.StatefulSets, ref.Namespace, ref.Name, set)
	if err != nil {
		return in, err
	}
	if found {
		if in.Group, err = f.observeGroup(ctx, set); err != nil {
			return in, err
		}
	}
	if err := f.observeScalers(ctx, &in); err != nil {
		return in, err
	}
	due := in.membersToProbe()
	unasked := slices.DeleteFunc(slices.Clone(due), func(m idle.Member) bool { _, ok := answers[m.Set.Name]; return ok })
	if len(unasked) > 0 && in.coversAllProbes(due) {
		if f.prober.probeTime(ctx) <= 0 {
			return in, errors.New("the event has waited too long to ask the probes; a repeated delivery has time for them")
		}
		maps.Copy(answers, f.prober.askAll(ctx, in.Group, unasked))
	}
	for _, m := range due {
		if answer, ok := answers[m.Set.Name]; ok {
			in.Probes[m.Set.Name] = answer
		}
	}
	return in, nil
}

// coversAllProbes reports whether every member with a probe is due. Otherwise the group stays awake whatever the probes answer.
func (in Input) coversAllProbes(due []idle.Member) bool {
	asked := map[string]ProbeResult{}
	for _, m := range due {
		asked[m.Set.Name] = ProbeResult{}
	}
	return allProbed(asked, in.Group)
}

// observeGroup reads the opted-in sets of the set's group. A set that is not opted in, or has no group, is alone.
func (f *Function) observeGroup(ctx context.Context, set *appsv1.StatefulSet) (idle.Group, error) {
	name := set.Labels[api.GroupLabel]
	if name == "" || !statefulset.Managed(set) {
		return idle.Group{idle.MemberOf(set)}, nil
	}
	return f.listMembers(ctx, set.Namespace, name)
}

// listMembers reads the opted-in sets of the group.
func (f *Function) listMembers(ctx context.Context, namespace, group string) (idle.Group, error) {
	var members idle.Group
	selector := api.ManagedLabel + "=true," + api.GroupLabel + "=" + group
	err := kube.Pages(ctx, f.client, plan.StatefulSets, namespace, selector, &appsv1.StatefulSetList{}, func(l *appsv1.StatefulSetList) {
		for i := range l.Items {
			members = append(members, idle.MemberOf(&l.Items[i]))
		}
	})
	return members, err
}

// representativeOf returns the name of the set that handles an event for the whole group, or "". A member that is paused, that is being
// deleted, or that another client has scaled to zero is the last choice, because its activity keeps no other member awake.
func (f *Function) representativeOf(ctx context.Context, namespace, group string) (string, error) {
	members, err := f.listMembers(ctx, namespace, group)
	if err != nil || len(members) == 0 {
		return "", err
	}
	sorted := members.InWakeOrder()
	for _, m := range sorted {
		if !m.Rules.Paused && m.CanWake() && m.Set.DeletionTimestamp == nil {
			return m.Set.Name, nil
		}
	}
	return sorted[0].Set.Name, nil
}

// observeScalers reads the Scalers that the records of the group's sets name. A set whose Scaler is gone is scaled like a set
// without one.
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
