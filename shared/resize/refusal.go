package resize

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// How often a refusal is judged anew while nothing on the set itself changes: with each tick at first, later every tenth minute.
const (
	freshRefusal   = time.Hour
	refusalMinutes = 10
)

// onlyTheSet are reasons that nothing but a change of the set itself can take away.
var onlyTheSet = []api.Reason{api.RequestInvalid, api.MethodUnknown, api.UnknownTemplate, api.NoTemplates, api.NameTooLong,
	api.CheckInvalid, api.HookInvalid, api.TemplateMounted}

// withFigures are reasons whose message has figures of the whole namespace, which change without any news for the user.
var withFigures = []api.Reason{api.QuotaExceeded, api.TooManyRetained, api.Rejected}

// JudgedOn returns a digest of everything on the set that a resize is judged on: a refusal with another digest is judged anew.
func JudgedOn(set *appsv1.StatefulSet) string {
	h := sha256.New()
	for _, key := range []string{api.ResizeAnnotation, api.ResizeMethodAnnotation, api.ResizeParallelismAnnotation, api.StrategyAnnotation,
		api.CutoverAnnotation, api.MaxStopAnnotation, api.MemberCheckAnnotation, api.BeforeMemberAnnotation, api.AfterMemberAnnotation,
		api.MoverAnnotation, api.OwnerPolicyAnnotation} {
		fmt.Fprintf(h, "%q ", set.Annotations[key])
	}
	fmt.Fprintf(h, "%d %q", set.Generation, set.Finalizers)
	if owner := statefulset.Controller(set); owner != nil {
		fmt.Fprintf(h, " %q", owner.UID)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// Refuses reports whether the record is the refusal of this very request.
func Refuses(record *api.Resize, request string) bool {
	return record != nil && record.Phase == api.Refused && record.Request == request
}

// Outdated reports whether the set has changed since its request was refused.
func Outdated(set *appsv1.StatefulSet, record *api.Resize) bool {
	return record.Judged != JudgedOn(set)
}

// DueAgain reports whether a tick has the refusal judged anew, because its cause may be gone: a quota, a class, a claim, a label of the
// namespace.
func DueAgain(record *api.Resize, now time.Time) bool {
	if slices.Contains(onlyTheSet, record.Reason) {
		return false
	}
	fresh := record.Finished != nil && now.Sub(record.Finished.Time) < freshRefusal
	return fresh || now.Minute()%refusalMinutes == 0
}

// Standing returns the refusal of this very request that the set has; nil if there is none, or the user asks for another attempt.
func (in Input) Standing() *api.Resize {
	record, err := in.Record()
	if err != nil || in.retried() || !Refuses(record, in.Set.Annotations[api.ResizeAnnotation]) {
		return nil
	}
	return record
}

// Restated returns the standing refusal with the words of the problem that was found now, which has the same reason; nil if they are not
// worth a write. Figures of the namespace are brought up to date every tenth minute.
func (in Input) Restated(standing *api.Resize, found Problem) *api.Resize {
	figures := slices.Contains(withFigures, found.Reason) && in.Now.Minute()%refusalMinutes != 0
	if !Outdated(in.Set, standing) && (standing.Message == found.Message || figures) {
		return nil
	}
	next := standing.Clone()
	next.Message, next.Judged = found.Message, JudgedOn(in.Set)
	return next
}
