package progress

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/world"
)

// New returns the progress of the set's latest resize or rollback. The document of a set without one names no operation. It returns an
// error if the record cannot be read.
func New(o *world.Observed) (*Document, error) {
	d, err := FromRecord(o)
	if err != nil {
		return nil, err
	}
	record, _ := o.Record() // FromRecord has read it
	w := waitReasons{o, record}
	if !record.Active() {
		d.Waits = append(w.ownerReasons(), w.heldPodReasons()...)
		return d, nil
	}
	d.Waits = append(w.operationReasons(), w.ownerReasons()...)
	for i := range d.Members {
		d.Members[i].Waits = w.memberReason(record.Member(d.Members[i].Ordinal))
	}
	return d, nil
}

// FromRecord returns what the record on the set says about the progress. Only the set must have been read: the document has no reasons to
// wait.
func FromRecord(o *world.Observed) (*Document, error) {
	record, err := o.Record()
	if err != nil {
		return nil, err
	}
	d := &Document{Version: Version, Namespace: o.Set.Namespace, Set: o.Set.Name}
	if d.GrowthByUsage, err = api.LoadGrowth(o.Set); err != nil {
		return nil, err
	}
	if record == nil {
		return d, nil
	}
	d.Kind, d.Operation, d.Request, d.Phase, d.Strategy = record.Kind, record.Operation, record.Purpose(), record.Phase, record.Strategy
	d.Withdrawn = operation.Of(o.Set).Withdrawn(record)
	d.Started, d.Finished, d.Deadline = &record.Started, record.Finished, record.Deadline
	d.Reason, d.Message, d.Function = record.Reason, record.Message, operation.MovedBy(record)
	for _, e := range record.Expansions {
		d.Growing = append(d.Growing, Growth{Claim: e.Claim, From: e.From, To: e.To, Attributes: e.Attributes, Done: e.Done})
	}
	for i := range record.Members {
		d.Members = append(d.Members, memberStatus(&record.Members[i], o.Now))
	}
	slices.Reverse(d.Members) // the record has the lowest first
	return d, nil
}

// memberStatus returns the progress of the member, without the reason why it waits.
func memberStatus(m *api.Member, now time.Time) Member {
	member := Member{Ordinal: m.Ordinal, Phase: m.Phase, ForecastSeconds: m.Forecast, DownSeconds: downSeconds(m, now)}
	if m.Phase == api.MemberCopying {
		member.ReportedAt = m.ProgressAt
	}
	for i := range m.Claims {
		move := &m.Claims[i]
		member.Copied, member.Bytes = member.Copied+move.BytesDone, member.Bytes+move.BytesTotal
		member.FinalPassBytes += move.BytesFinal
		member.SizeUnknown = member.SizeUnknown || move.BytesTotal == 0
		member.Claims = append(member.Claims, Claim{Name: move.Claim, Template: move.Template, From: move.From, To: move.To,
			Class:      move.Class,
			Attributes: move.Attributes,
			OldVolume:  move.OldVolume, NewVolume: move.NewVolume, Warnings: move.Warnings})
	}
	return member
}

// downSeconds returns how many seconds the member is or was stopped. It returns nil if the member was not stopped, has no pod, or if the
// end is unknown.
func downSeconds(m *api.Member, now time.Time) *int64 {
	switch {
	case m.HeldAt == nil || m.Locked:
		return nil
	case m.ReadyAt != nil:
		return secondsBetween(m.HeldAt, m.ReadyAt.Time)
	case m.Phase == api.MemberMoved || m.Phase == api.MemberKept:
		return nil // the record does not show when it was ready
	}
	return secondsBetween(m.HeldAt, now)
}

func secondsBetween(from *metav1.Time, to time.Time) *int64 {
	n := int64(to.Sub(from.Time) / time.Second)
	return &n
}

// NextStep returns the command that a user can run about an operation that has not succeeded. It is empty if there is nothing to do.
func (d *Document) NextStep() string {
	set := fmt.Sprintf("-n %s sts/%s", d.Namespace, d.Set)
	switch {
	case d.Withdrawn:
	case d.Phase == api.Refused && d.Kind == api.KindResize:
		return "kubectl drydock plan " + set + "   # shows every cause. The resize begins when they are removed"
	case d.Phase == api.Failed && d.Kind == api.KindRollback:
		return "kubectl drydock rollback " + set
	case d.Phase == api.Failed:
		return "kubectl drydock retry " + set + "   # when the cause is removed. If a new volume is too small, request a larger size instead"
	}
	return ""
}
