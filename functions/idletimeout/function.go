// Package idletimeout decides when an idle StatefulSet falls asleep, and when it is awake. It writes that into the set's annotations.
// scale carries it out: it scales the set to zero and back. The sets of a group sleep and wake together.
//
//	in    activity, wake, sleep (for a set or a group); StatefulSets that are not in the requested state; the tick
//	get   the StatefulSet and the other sets of its group, and the Scalers that their records name; for an activity probe: pods
//	do    patch StatefulSets: sleep, last-activity; remove retry and abort
//	out   sleep.decided, wake.decided, scaled, operation.failed
//	never puts a set to sleep while any of its inputs is unknown; never moves a time earlier; never decides that a set is stopped before
//	pause-owner has the consent of its owner
package idletimeout

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// Function is idle-timeout.
type Function struct {
	client   *kube.Client
	apply    *apply.Executor
	prober   *prober
	settings api.Settings
	log      *slog.Logger
}

// New returns the function.
func New(client *kube.Client, settings api.Settings, log *slog.Logger) *Function {
	return &Function{client: client, apply: apply.New(client, api.IdleTimeout, log), prober: newProber(client, settings, log),
		settings: settings, log: log}
}

// Handle is safe to repeat, to reorder and to run concurrently. An event only triggers a reconcile, or reports an activity. An activity can
// only move the last activity later. If the API server permanently rejects a write for another member of the group, the rest of the group
// continues without it.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	if namespace, group, ok := events.GroupOf(e); ok {
		name, err := f.representativeOf(ctx, namespace, group)
		if err != nil || name == "" {
			return nil, err
		}
		e = events.WithSet(e, events.Ref{Namespace: namespace, Name: name})
	}
	signal, answers := signalOf(e, time.Now()), map[string]ProbeResult{}
	return f.apply.HandleFailures(ctx, e, func(ctx context.Context, ref events.Ref, failures plan.Failures) (plan.Plan, error) {
		in, err := f.observe(ctx, ref, signal, answers)
		if err != nil {
			return plan.Plan{}, err
		}
		if in.mayStartSleep() {
			in.Trace = f.apply.Begin(ctx)
		}
		in.Failures = failures
		return Decide(in), nil
	})
}

// signalOf returns the signal that the event carries. A recent event counts as happening now, so one queued event can stand
// for others that were coalesced behind it. An older event keeps its own time: an event that was lost for a day wakes no set.
func signalOf(e event.Event, now time.Time) Signal {
	at := now
	if events.IsOld(e, now) {
		at = e.Time()
	}
	switch e.Type() {
	case events.Activity, events.Wake, events.Sleep, events.Retry:
		return Signal{Type: e.Type(), At: at}
	}
	return Signal{}
}

// Signal is the information that an event carries besides the name of a set. Type is activity, wake, sleep, retry, or empty.
type Signal struct {
	Type string
	At   time.Time
}

// reportsUse reports whether the event says that the set is in use, or is about to be used.
func (s Signal) reportsUse() bool { return s.Type == events.Activity || s.Type == events.Wake }

// reportsCurrentUse reports whether the event says so and is recent.
func (s Signal) reportsCurrentUse(now time.Time) bool {
	return s.reportsUse() && now.Sub(s.At) <= events.Fresh
}

// sleepRequestedAt returns when the event requested a sleep, or the zero time.
func (s Signal) sleepRequestedAt() time.Time {
	if s.Type == events.Sleep {
		return s.At
	}
	return time.Time{}
}

const (
	// maxAnswerBytes limits the answer to a probe, in bytes.
	maxAnswerBytes = 1 << 20
	// maxProbes limits the sets that are asked in one event.
	maxProbes = 50
	// reservedForWrites is the part of the event's time that is reserved for the writes after the probes.
	reservedForWrites = 10 * time.Second
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
