package resize

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/sts"
)

// How often a refusal is judged anew while nothing on the set itself changes: with each tick at first, later every tenth minute.
const (
	freshRefusal   = time.Hour
	refusalMinutes = 10
)

// onlyTheSet are reasons that nothing but a change of the set itself can take away.
var onlyTheSet = []api.Reason{api.RequestInvalid, api.MethodUnknown, api.UnknownTemplate, api.NoTemplates, api.NameTooLong}

// withFigures are reasons whose message has figures of the whole namespace, which change without any news for the user.
var withFigures = []api.Reason{api.QuotaExceeded, api.TooManyRetained, api.Rejected}

// JudgedOn returns a digest of everything on the set that a resize is judged on: a refusal with another digest is judged anew.
func JudgedOn(set *appsv1.StatefulSet) string {
	h := sha256.New()
	for _, key := range []string{api.ResizeAnnotation, api.ResizeMethodAnnotation, api.ResizeParallelismAnnotation,
		api.MoverAnnotation, api.OwnerPolicyAnnotation} {
		fmt.Fprintf(h, "%q ", set.Annotations[key])
	}
	fmt.Fprintf(h, "%d %q", set.Generation, set.Finalizers)
	if owner := sts.Controller(set); owner != nil {
		fmt.Fprintf(h, " %q", owner.UID)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// Refuses reports whether the status is the refusal of this very request.
func Refuses(status *api.Resize, request string) bool {
	return status != nil && status.Phase == api.Refused && status.Request == request
}

// Outdated reports whether the set has changed since its request was refused.
func Outdated(set *appsv1.StatefulSet, status *api.Resize) bool {
	return status.Judged != JudgedOn(set)
}

// DueAgain reports whether a tick has the refusal judged anew, because its cause may be gone: a quota, a class, a claim, a label of the
// namespace.
func DueAgain(status *api.Resize, now time.Time) bool {
	if slices.Contains(onlyTheSet, status.Reason) {
		return false
	}
	fresh := status.Finished != nil && now.Sub(status.Finished.Time) < freshRefusal
	return fresh || now.Minute()%refusalMinutes == 0
}

// Standing returns the refusal of this very request that the set has; nil if there is none, or the user asks for another attempt.
func (in Input) Standing() *api.Resize {
	status, err := in.Status()
	if err != nil || in.retried() || !Refuses(status, in.Set.Annotations[api.ResizeAnnotation]) {
		return nil
	}
	return status
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
