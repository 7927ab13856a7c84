package resize

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/world"
)

// reasonsInTheSet are the reasons that only a change of the set itself can remove.
var reasonsInTheSet = []api.Reason{api.RequestInvalid, api.MethodUnknown, api.UnknownTemplate, api.NoTemplates, api.NameTooLong,
	api.CheckInvalid, api.HookInvalid, api.TemplateMounted}

// reasonsWithFigures are the reasons whose message contains figures of the whole namespace. These change without any news for the user.
var reasonsWithFigures = []api.Reason{api.QuotaExceeded, api.TooManyRetained, api.Rejected}

// IsRefusalOf reports whether the record is the refusal of the set's present request, or of its present floors of growth by usage.
func IsRefusalOf(record *api.Resize, set *appsv1.StatefulSet) bool {
	request, _ := api.RequestOf(set)
	return record != nil && record.Phase == api.Refused && record.Request == request &&
		(!record.IsGrowth() || record.GrowTo == world.GrowTo(set, record, false))
}

// RefusalDue reports whether this tick judges the refused request again. The cause may be gone: a quota, a class, a claim or a label of the
// namespace may have changed.
func RefusalDue(c operation.Change, record *api.Resize) bool {
	return !slices.Contains(reasonsInTheSet, record.Reason) && operation.RefusalDue(c, &record.Header)
}

// StandingRefusal returns the set's refusal of these very changes. It is nil if there is none, or the user requests another attempt.
func (in Input) StandingRefusal(w *Changes) *api.Resize {
	record, err := in.Record()
	if err != nil || in.retryRequested() || !IsRefusalOf(record, in.Set) || record.GrowTo != w.GrowTo {
		return nil
	}
	return record
}

// UpdatedRefusal returns the standing refusal with the message of the problem found now, which has the same reason. It is nil if the change
// is not worth a write: while the refusal is recent, figures of the namespace are updated only every tenth minute.
func (in Input) UpdatedRefusal(standing *api.Resize, found Problem) *api.Resize {
	figures := slices.Contains(reasonsWithFigures, found.Reason) && operation.IsRecentRefusal(&standing.Header, in.Now) &&
		in.Now.Minute()%int(operation.RefusalInterval/time.Minute) != 0
	if !operation.RefusalOutdated(in.Set, &standing.Header) && (standing.Message == found.Message || figures) {
		return nil
	}
	next := standing.Clone()
	next.Message, next.RefusalDigest = found.Message, operation.RefusalDigest(in.Set)
	return next
}
