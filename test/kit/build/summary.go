package build

import (
	"fmt"
	"strings"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
)

// Summary renders the record of a resize or a sleep on one line, without its message.
func Summary(record operation.Record) string {
	switch r := record.(type) {
	case *api.Resize:
		if r != nil {
			return summaryOfResize(r)
		}
	case *api.Sleep:
		if r != nil {
			return summaryOfSleep(r)
		}
	}
	return ""
}

func summaryOfResize(s *api.Resize) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", s.Phase, s.Reason)
	if s.FailedAt != "" {
		fmt.Fprintf(&b, " at %s", s.FailedAt)
	}
	fmt.Fprintf(&b, ", attempt %d", s.Attempt)
	if s.Deadline != nil {
		fmt.Fprintf(&b, ", due in %s", s.Deadline.Sub(Now))
	}
	for _, e := range s.Expansions {
		what := "grows"
		if e.Attributes != nil {
			what = "gets attributes " + *e.Attributes
		}
		fmt.Fprintf(&b, "; %s %s, done %t", e.Claim, what, e.Done)
	}
	for i := range s.Members {
		b.WriteString("; " + summaryOfMember(&s.Members[i]))
	}
	return b.String()
}

func summaryOfMember(m *api.Member) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s", m.Ordinal, m.Phase)
	if m.Attempt > 1 {
		fmt.Fprintf(&b, " attempt %d", m.Attempt)
	}
	if m.Pod != "" {
		fmt.Fprintf(&b, " pod %s", m.Pod)
	}
	if m.Hook != "" {
		fmt.Fprintf(&b, " hook %s succeeded", m.Hook)
	}
	if m.Locked {
		b.WriteString(" locked")
	}
	if m.Deadline != nil {
		fmt.Fprintf(&b, " due in %s", m.Deadline.Sub(Now))
	}
	if m.Stalled != "" {
		fmt.Fprintf(&b, " stalled %q", m.Stalled)
	}
	for _, move := range m.Claims {
		if move.NewVolume != "" || move.BytesTotal != 0 {
			fmt.Fprintf(&b, " (%s on %s, %d/%d, digest %q)", move.Claim, move.NewVolume, move.BytesDone, move.BytesTotal, move.Digest)
		}
	}
	return b.String()
}
