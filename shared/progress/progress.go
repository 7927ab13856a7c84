// Package progress computes the progress of a StatefulSet's resize or rollback, and why it waits, from the record and the live objects. It
// is pure.
package progress

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/world"
)

// Version is the version of the documents. New fields do not change it.
const Version = 1

// Document is the output of kubectl drydock status -o json or -o yaml. Bytes and seconds are whole numbers. An absent field is empty.
type Document struct {
	Version   int          `json:"version"`
	Namespace string       `json:"namespace"`
	Set       string       `json:"set"`
	Kind      api.Kind     `json:"kind,omitempty"`
	Operation string       `json:"operation,omitempty"`
	Request   string       `json:"request,omitempty"`
	Phase     api.Phase    `json:"phase,omitempty"`
	Strategy  api.Strategy `json:"strategy,omitempty"`
	// Withdrawn is true if the operation failed or was refused, and its request is no longer on the set.
	Withdrawn bool         `json:"withdrawn,omitempty"`
	Started   *metav1.Time `json:"started,omitempty"`
	Finished  *metav1.Time `json:"finished,omitempty"`
	// Deadline is when the present phase fails, unless it ends before.
	Deadline *metav1.Time `json:"deadline,omitempty"`
	Reason   api.Reason   `json:"reason,omitempty"`
	Message  string       `json:"message,omitempty"`
	// Function is the function that takes the next step of the operation. It is empty when the operation has ended.
	Function api.Function `json:"function,omitempty"`
	// Waits lists why the operation as a whole waits. After its end, it lists the pods that are still held, with the reasons. Reasons of
	// single members are in Members.
	Waits []string `json:"waits,omitempty"`
	// Unread says why the reasons to wait are missing, if the user may not read the objects around the set.
	Unread string `json:"unread,omitempty"`
	// Growing are the claims that grow in place, or get another VolumeAttributesClass.
	Growing []Growth `json:"growing,omitempty"`
	// Members are the members whose claims get other volumes, the highest ordinal first.
	Members []Member `json:"members,omitempty"`
	// GrowthByUsage contains the latest requests of grow-volumes and its Warnings. It is nil if the set does not grow by usage.
	GrowthByUsage *api.Growth `json:"growthByUsage,omitempty"`
}

// Growth is a claim that grows in place, or gets another VolumeAttributesClass.
type Growth struct {
	Claim string            `json:"claim"`
	From  resource.Quantity `json:"from"`
	To    resource.Quantity `json:"to"`
	// Attributes is the new VolumeAttributesClass of the volume. It is absent if the class does not change.
	Attributes *string `json:"attributes,omitempty"`
	Done       bool    `json:"done"`
}

// Member is one ordinal whose claims get other volumes.
type Member struct {
	Ordinal int             `json:"ordinal"`
	Phase   api.MemberPhase `json:"phase"`
	Claims  []Claim         `json:"claims"`
	// Copied and Bytes are the copied and all bytes of the member's claims. Both are 0 until the first pass reports.
	Copied int64 `json:"copiedBytes"`
	Bytes  int64 `json:"bytes"`
	// FinalPassBytes are the bytes of Copied that the final pass wrote. They are 0 before its end.
	FinalPassBytes int64 `json:"finalPassBytes,omitempty"`
	// SizeUnknown is true while the mover has not begun a claim of the member, so Bytes lacks it. The time that is left is unknown then.
	SizeUnknown bool `json:"-"`
	// ReportedAt is when the running pass last reported Copied. It is nil between the passes.
	ReportedAt *metav1.Time `json:"reportedAt,omitempty"`
	// Rate is how many bytes are copied in a second. It is known after two reports during status --watch or --wait.
	Rate int64 `json:"bytesPerSecond,omitempty"`
	// SecondsLeft is how long the first pass still copies at this rate. It is nil if that is unknown.
	SecondsLeft *int64 `json:"secondsLeft,omitempty"`
	// ForecastSeconds is the mover's latest forecast for the final pass, in seconds. It is 0 without a forecast.
	ForecastSeconds float64 `json:"forecastSeconds,omitempty"`
	// DownSeconds is how many seconds the member is or was stopped, until its replacement was ready. It is nil if that is unknown.
	DownSeconds *int64 `json:"downSeconds,omitempty"`
	// Waits is why the member waits. It is empty if the member does not wait.
	Waits string `json:"waits,omitempty"`
}

// Claim is a claim of a member with its old and new volume.
type Claim struct {
	Name       string            `json:"name"`
	Template   string            `json:"template"`
	From       resource.Quantity `json:"from"`
	To         resource.Quantity `json:"to"`
	Class      string            `json:"class,omitempty"`
	Attributes *string           `json:"attributes,omitempty"`
	OldVolume  string            `json:"oldVolume"`
	NewVolume  string            `json:"newVolume,omitempty"`
	Warnings   []string          `json:"warnings,omitempty"`
}

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

// Age returns a duration in words, for example "97s", "4m" or "3h5m". From two minutes on it has no seconds, so that a text that is drawn
// again rarely changes. It is never negative, because clocks differ.
func Age(d time.Duration) string {
	if d >= 2*time.Minute {
		d = d.Truncate(time.Minute)
	}
	return duration.HumanDuration(max(d, 0))
}
