package scale

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/text"
)

const (
	// firstRequestInterval is the wait for an answer before the request is sent again. The wait doubles with each request, up to
	// longestRequestInterval.
	firstRequestInterval   = time.Minute
	longestRequestInterval = 16 * time.Minute
	// maxRequestKeys is the number of latest requests whose answers are accepted.
	maxRequestKeys = 8
)

// runHookByEvent sends a CloudEvent to the user's function until it answers, and then calls next. The answer itself is not stored. If the
// write that follows it fails, or the answer is lost, the request is sent again.
func (w work) runHookByEvent(hook string, next func() plan.Plan) plan.Plan {
	failing, answer := hook == failureHook, w.Answer
	switch {
	case w.isAnswerTo(hook) && !answer.Failed:
		return next()
	case failing && (w.isAnswerTo(hook) || w.Rejected != "" || operation.Overdue(w.record, w.Now)):
		return next()
	case w.isAnswerTo(hook):
		return w.failScaling(api.HookFailed, fmt.Sprintf("hook %s failed: its function answered: %s", hook,
			text.Line(answer.Message, maxQuote)))
	case operation.Overdue(w.record, w.Now):
		return w.failScaling(api.DeadlineExceeded, fmt.Sprintf("hook %s was requested %d times and not answered within %s. Check the "+
			"Trigger for "+
			"events of type %s, and its function", hook, requestCount(w.record.HookRequests), w.deadline(w.record.Phase), events.ScaleHookRequested))
	case !w.isRequestRecent():
		return w.sendRequest(hook)
	}
	return w.wait(api.HookRunning, "%d requests were sent to its function, without an answer yet", w.record.HookRequests.Times)
}

// isAnswerTo reports whether the event answers one of the latest requests for the hook.
func (w work) isAnswerTo(hook string) bool {
	a := w.Answer
	return a != nil && a.Operation == w.record.Operation && a.Hook == hook && w.record.HookRequests != nil &&
		slices.Contains(w.record.HookRequests.Keys, hashOf(a.Key))
}

// sendRequest stores the request in the record, and sends it after that write has succeeded.
func (w work) sendRequest(hook string) plan.Plan {
	next := w.record.Clone()
	if next.HookRequests == nil {
		next.HookRequests = &api.HookRequests{}
	}
	next.HookRequests.Times++
	next.HookRequests.Last = *operation.Moment(w.Now)
	next.HookRequests.Keys = append(next.HookRequests.Keys, hashOf(w.Key))
	next.HookRequests.Keys = next.HookRequests.Keys[max(0, len(next.HookRequests.Keys)-maxRequestKeys):]
	// The plan has no other write: if that failed, the request would not be sent.
	request := events.HookRequest{HookFacts: resources.HookFacts(w.Set, next, hook), Key: w.Key}
	return plan.Do(api.HookRequested, operation.Store(w.Set, next).Actions()...).
		Then(events.ScaleHookRequested, next.Operation).With(hook+"/"+strconv.Itoa(next.HookRequests.Times), request)
}

// isRequestRecent reports whether the latest request still has time to be answered. Otherwise, it is sent again.
func (w work) isRequestRecent() bool {
	ask := w.record.HookRequests
	return ask != nil && operation.Within(w.Now, ask.Last.Time, operation.Backoff(firstRequestInterval, longestRequestInterval, ask.Times))
}

// requestCount returns how often the hook was requested; 0 if it was not.
func requestCount(ask *api.HookRequests) int {
	if ask == nil {
		return 0
	}
	return ask.Times
}

// hashOf returns the form of a request's key that the record stores: users who can read the set must not learn the key.
func hashOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}
