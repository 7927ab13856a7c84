package resize

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
)

// A refused request is judged again although the set has not changed: with each tick while the refusal is recent, later every ten minutes.
const (
	recentRefusal   = time.Hour
	refusalInterval = 10 * time.Minute
)

// reasonsInTheSet are the reasons that only a change of the set itself can remove.
var reasonsInTheSet = []api.Reason{api.RequestInvalid, api.MethodUnknown, api.UnknownTemplate, api.NoTemplates, api.NameTooLong,
	api.CheckInvalid, api.HookInvalid, api.TemplateMounted}

// reasonsWithFigures are the reasons whose message contains figures of the whole namespace. These change without any news for the user.
var reasonsWithFigures = []api.Reason{api.QuotaExceeded, api.TooManyRetained, api.Rejected}

// RefusalDigest returns a digest of everything on the set that can lead to a refusal. A refusal with another digest is out of date.
func RefusalDigest(set *appsv1.StatefulSet) string {
	h := sha256.New()
	for _, key := range []string{api.ResizeAnnotation, api.ResizeMethodAnnotation, api.ResizeParallelismAnnotation, api.StrategyAnnotation,
		api.CutoverAnnotation, api.MaxStopAnnotation, api.FirstPassAnnotation, api.MemberCheckAnnotation, api.BeforeMemberAnnotation,
		api.AfterMemberAnnotation, api.MoverAnnotation, api.OwnerPolicyAnnotation} {
		fmt.Fprintf(h, "%q ", set.Annotations[key])
	}
	fmt.Fprintf(h, "%d %q", set.Generation, set.Finalizers)
	if owner := statefulset.Controller(set); owner != nil {
		fmt.Fprintf(h, " %q", owner.UID)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// IsRefusalOf reports whether the record is the refusal of this very request.
func IsRefusalOf(record *api.Resize, request string) bool {
	return record != nil && record.Phase == api.Refused && record.Request == request
}

// RefusalOutdated reports whether the set has changed since its request was refused.
func RefusalOutdated(set *appsv1.StatefulSet, record *api.Resize) bool {
	return record.RefusalDigest != RefusalDigest(set)
}

// RefusalDue reports whether this tick judges the refused request again. The cause may be gone: a quota, a class, a claim or a label of the
// namespace may have changed.
func RefusalDue(c operation.Change, record *api.Resize) bool {
	if slices.Contains(reasonsInTheSet, record.Reason) {
		return false
	}
	return isRecent(record, c.Now) || c.Due(string(c.Set.UID), refusalInterval)
}

func isRecent(refusal *api.Resize, now time.Time) bool {
	return refusal.Finished != nil && now.Sub(refusal.Finished.Time) < recentRefusal
}

// StandingRefusal returns the set's refusal of this very request. It is nil if there is none, or the user requests another attempt.
func (in Input) StandingRefusal() *api.Resize {
	record, err := in.Record()
	if err != nil || in.retryRequested() || !IsRefusalOf(record, in.Set.Annotations[api.ResizeAnnotation]) {
		return nil
	}
	return record
}

// UpdatedRefusal returns the standing refusal with the message of the problem found now, which has the same reason. It is nil if the change
// is not worth a write: while the refusal is recent, figures of the namespace are updated only every tenth minute.
func (in Input) UpdatedRefusal(standing *api.Resize, found Problem) *api.Resize {
	figures := slices.Contains(reasonsWithFigures, found.Reason) && isRecent(standing, in.Now) &&
		in.Now.Minute()%int(refusalInterval/time.Minute) != 0
	if !RefusalOutdated(in.Set, standing) && (standing.Message == found.Message || figures) {
		return nil
	}
	next := standing.Clone()
	next.Message, next.RefusalDigest = found.Message, RefusalDigest(in.Set)
	return next
}
