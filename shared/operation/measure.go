package operation

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// Measure returns what ends when the record replaces the one on the set: the operation, a copy, a downtime or a wake-up. Each ends in
// exactly one write. An operation that begins in a terminal phase has no duration.
func Measure(set *appsv1.StatefulSet, next Record) []plan.Measurement {
	before := Of(set).Find(next.Head().Operation)
	if before == nil || !before.Active() {
		return nil
	}
	found := duration(next.Head())
	switch next := next.(type) {
	case *api.Resize:
		if former, ok := before.(*api.Resize); ok {
			found = append(found, membersMeasured(former, next)...)
		}
	case *api.Sleep:
		found = append(found, wakeMeasured(next)...)
	}
	return found
}

// duration returns the duration of an operation in a terminal phase.
func duration(head *api.Header) []plan.Measurement {
	if !head.Phase.Terminal() || head.Finished == nil {
		return nil
	}
	return []plan.Measurement{{Figure: plan.OperationSeconds, Kind: head.Kind, Phase: head.Phase, Value: secondsBetween(&head.Started,
		head.Finished)}}
}

// membersMeasured returns the copies that were verified and the downtimes that ended between the two records.
func membersMeasured(before, next *api.Resize) []plan.Measurement {
	var found []plan.Measurement
	for i := range next.Members {
		present := &next.Members[i]
		former := before.Member(present.Ordinal)
		if former == nil {
			continue
		}
		if former.Phase == api.MemberFinalPass && present.Phase == api.MemberSwapping {
			found = append(found, plan.Measurement{Figure: plan.CopiedBytes, Kind: next.Kind, Value: bytesOf(present)})
		}
		if former.ReadyAt == nil && present.ReadyAt != nil && present.HeldAt != nil && !former.Locked {
			found = append(found, plan.Measurement{Figure: plan.DowntimeSeconds, Kind: next.Kind,
				Value: secondsBetween(present.HeldAt, present.ReadyAt)})
		}
	}
	return found
}

// wakeMeasured returns the duration of a wake-up whose set is ready.
func wakeMeasured(sleep *api.Sleep) []plan.Measurement {
	if sleep.Phase != api.Succeeded || sleep.ReadyAt == nil || !sleep.ReadyAt.Equal(sleep.Finished) {
		return nil
	}
	return []plan.Measurement{{Figure: plan.WakeSeconds, Kind: sleep.Kind, Value: secondsBetween(sleep.WakeBegan(), sleep.ReadyAt)}}
}

func bytesOf(member *api.Member) float64 {
	total := int64(0)
	for _, move := range member.Claims {
		total += move.BytesDone
	}
	return float64(total)
}

// secondsBetween returns the seconds between two times, at least 0: the clocks of two functions may differ.
func secondsBetween(from, to *metav1.Time) float64 {
	return max(0, to.Sub(from.Time).Seconds())
}
