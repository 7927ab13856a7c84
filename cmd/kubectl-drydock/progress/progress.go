package progress

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/world"
)

// Of tells how far the set's latest resize or rollback is. A set without one has a document without an operation.
func Of(o *world.Observed) (*Document, error) {
	record, err := o.Record()
	if err != nil {
		return nil, err
	}
	d := &Document{Version: Version, Namespace: o.Set.Namespace, Set: o.Set.Name}
	if d.GrowthByUsage, err = api.LoadGrowth(o.Set); err != nil {
		return nil, err
	}
	w := waiting{o, record}
	if !record.Active() {
		d.Waits = w.stillHeld()
	}
	if record == nil {
		return d, nil
	}
	d.Kind, d.Operation, d.Request, d.Phase, d.Strategy = record.Kind, record.Operation, record.Request, record.Phase, record.Strategy
	d.Started, d.Finished, d.Deadline = &record.Started, record.Finished, record.Deadline
	d.Reason, d.Message, d.By = record.Reason, record.Message, operation.MovedBy(record)
	for _, e := range record.Expansions {
		d.Growing = append(d.Growing, Growth{Claim: e.Claim, From: e.From, To: e.To, Attributes: e.Attributes, Done: e.Done})
	}
	for i := range record.Members {
		d.Members = append(d.Members, w.member(&record.Members[i]))
	}
	slices.Reverse(d.Members) // the record has the lowest first
	if record.Active() {
		d.Waits = w.operation()
	}
	return d, nil
}

func (w waiting) member(m *api.Member) Member {
	member := Member{Ordinal: m.Ordinal, Phase: m.Phase, Forecast: m.Forecast, Down: down(m, w.Now)}
	for i := range m.Claims {
		move := &m.Claims[i]
		member.Copied, member.Bytes = member.Copied+move.BytesDone, member.Bytes+move.BytesTotal
		member.Claims = append(member.Claims, Claim{Name: move.Claim, Template: move.Template, From: move.From, To: move.To, Class: move.Class,
			Attributes: move.Attributes,
			OldVolume:  move.OldVolume, NewVolume: move.NewVolume, Warnings: move.Warnings})
	}
	if w.record.Active() {
		member.Waits = w.of(m)
	}
	return member
}

// down is for how many seconds the member is, or was, stopped; nil if it was not, or has no pod.
func down(m *api.Member, now time.Time) *int64 {
	switch {
	case m.Held == nil || m.Locked:
		return nil
	case m.Ready != nil:
		return seconds(m.Held, m.Ready.Time)
	case m.Phase == api.MemberMoved || m.Phase == api.MemberKept:
		return nil // when it was ready is not known
	}
	return seconds(m.Held, now)
}

func seconds(from *metav1.Time, to time.Time) *int64 {
	n := int64(to.Sub(from.Time) / time.Second)
	return &n
}
