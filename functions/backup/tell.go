package backup

import (
	"fmt"
	"strings"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
)

// note writes down what keeps the claim's mover, once it has lasted long enough to be told. The same reason is written once,
// whatever its details are: they change with every look at a busy cluster. Of a Job without a pod, and without a known cause, only
// the time is written at first.
func (s *stall) note(in Input, part *api.ClaimStatus) {
	told := s != nil && in.Now.Sub(s.since) > s.notice
	switch {
	case s == nil, !told && (s.firstSeen || s.reason != noPod):
		part.Stalled, part.StalledSince = "", nil
	case !told: // its time runs
	case s.firstSeen && s.reason == noPod:
		part.Stalled, part.StalledSince = "", operation.Moment(in.Now)
	case s.firstSeen:
		part.Stalled, part.StalledSince = bounded(s.cause()), operation.Moment(in.Now)
	case !strings.HasPrefix(part.Stalled, s.reason+": "):
		part.Stalled, part.StalledSince = bounded(s.cause()), operation.Moment(s.since)
	}
}

// maxCause bounds a cause in the status: its text comes from others, and there may be 256 of them.
const maxCause = 300

func bounded(text string) string {
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "")
	if len(text) <= maxCause {
		return text
	}
	return strings.ToValidUTF8(text[:maxCause], "") + "..."
}

// tell puts the stalls of the claims into the operation's reason and message, and returns the Event about a new one. Without a
// stall, the message of one that has passed goes.
func tell(in Input, status, next *api.Resize, reason api.Reason, message string) []plan.Action {
	var stalled []string
	for i := range next.Claims {
		if part := &next.Claims[i]; part.Stalled != "" {
			stalled = append(stalled, part.Stalled+" (claim "+part.Name+")")
		}
	}
	switch {
	case len(stalled) > 0:
		next.Reason, next.Message = api.MoverStalled, stalled[0]
		if more := len(stalled) - 1; more > 0 {
			next.Message += fmt.Sprintf(". %d more claims wait, see status.claims", more)
		}
	case status.Reason == api.MoverStalled:
		next.Reason, next.Message = reason, message
	}
	if next.Reason != api.MoverStalled || status.Reason == api.MoverStalled && status.Message == next.Message {
		return nil
	}
	return []plan.Action{operation.NoteOf(in.Set, next, true)}
}

// failure is why the copy of the claim failed whose mover was stalled for too long.
func (s *stall) failure(part *api.ClaimStatus) string {
	return fmt.Sprintf("copying claim %s failed: its mover could not go on for %s: %s; remove the cause", part.Name, s.allowed, bounded(s.cause()))
}
