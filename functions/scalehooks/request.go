package scalehooks

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
)

const (
	// firstAsk is how long an answer is waited for before the request is sent again. The time doubles with each one, up to longestAsk.
	firstAsk   = time.Minute
	longestAsk = 16 * time.Minute
	// mostKeys is how many of the latest requests can be answered.
	mostKeys = 8
)

// runByEvent asks the user's function by a CloudEvent until it answers, and then calls then. The answer is not stored: if the write after it
// fails, or the answer is lost, the request is sent again.
func (w work) runByEvent(hook string, then func() plan.Plan) plan.Plan {
	failing, answer := hook == failureHook, w.Answer
	switch {
	case w.answers(hook) && !answer.Failed:
		return then()
	case failing && (w.answers(hook) || w.Rejected != "" || operation.Overdue(w.record, w.Now)):
		return then()
	case w.answers(hook):
		return w.giveUp(api.HookFailed, fmt.Sprintf("hook %s did not succeed: its function answers: %s", hook, printable(answer.Message, longestQuote)))
	case operation.Overdue(w.record, w.Now):
		return w.giveUp(api.DeadlineExceeded, fmt.Sprintf("hook %s was requested %d times, without an answer within %s; look at the Trigger of "+
			"the type %s and at its function", hook, times(w.record.Ask), w.deadline(w.record.Phase), events.ScaleHookRequested))
	case w.record.Ask == nil || !w.Now.Before(nextAsk(w.record.Ask)):
		return w.ask(hook)
	}
	return w.wait(api.HookRunning, "its function was asked %d times", w.record.Ask.Times)
}

// answers reports whether the event is an answer to one of the latest requests for the hook.
func (w work) answers(hook string) bool {
	a := w.Answer
	return a != nil && a.Operation == w.record.Operation && a.Hook == hook && w.record.Ask != nil && slices.Contains(w.record.Ask.Keys, sumOf(a.Key))
}

// ask writes the request down before it is sent.
func (w work) ask(hook string) plan.Plan {
	next := w.record.Clone()
	if next.Ask == nil {
		next.Ask = &api.Ask{}
	}
	next.Ask.Times++
	next.Ask.Last = *operation.Moment(w.Now)
	next.Ask.Keys = append(next.Ask.Keys, sumOf(w.Key))
	next.Ask.Keys = next.Ask.Keys[max(0, len(next.Ask.Keys)-mostKeys):]
	// Nothing else is written: a second write that fails would keep the request from being sent.
	return plan.Do(api.HookRequested, operation.Store(w.Set, next).Actions()...).Then(events.ScaleHookRequested, next.Operation).With(hook+"/"+strconv.Itoa(next.Ask.Times), events.HookRequest{HookFacts: resources.HookFacts(w.Set, next, hook), Key: w.Key})
}

// nextAsk returns when the request is sent again.
func nextAsk(ask *api.Ask) time.Time {
	pause := min(firstAsk<<min(max(ask.Times-1, 0), 10), longestAsk)
	return ask.Last.Add(pause)
}

func times(ask *api.Ask) int {
	if ask == nil {
		return 0
	}
	return ask.Times
}

func sumOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}
