package backup

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// eventsOf are the Events of a plan, in their order.
func eventsOf(p plan.Plan) (events []string) {
	for _, a := range p.Actions {
		if a.Note.Reason != "" {
			events = append(events, fmt.Sprintf("%v %s: %s", a.Note.Warning, a.Note.Reason, a.Note.Message))
		}
	}
	return events
}

func TestWarningsOfFirstAndFinalPassBecomeEventsOnce(t *testing.T) {
	const first, second = "2 subvolumes are plain directories", "inode flags are not kept"
	warm := world(running(copyOperation(api.ClaimWarming, beside("uid-web-0", "uid-web-1"))), users(), warming(0, build.Complete()), warming(1))
	warm.Reports["data-web-0"] = moverreport.Line{Report: moverreport.Report{Warnings: []string{first}}}
	want := "true CopyWarning: the copy of claim data-web-0: " + first
	if got := strings.Join(eventsOf(Decide(warm)), "; "); got != want {
		t.Errorf("first pass: %s", got)
	}

	quiet := build.Quiet(5)
	known := copyOperation(api.ClaimCopying, quiet, func(s *api.Resize) { s.Claims[0].Warnings = []string{first} })
	final := world(set(known, build.Replicas(0)), append(held(), targets(1)...),
		objects{build.Job("data-web-0", 1, build.Complete()), build.Job("data-web-1", 1)})
	final.Reports["data-web-0"] = moverreport.Line{Report: moverreport.Report{Warnings: []string{first, second}}}
	want = "true CopyWarning: the copy of claim data-web-0: " + second
	if got := strings.Join(eventsOf(Decide(final)), "; "); got != want {
		t.Errorf("final pass: %s", got)
	}

	final.Reports["data-web-1"] = moverreport.Line{Report: moverreport.Report{Warnings: []string{first}}}
	done := world(set(known, build.Replicas(0)), append(held(), targets(1)...),
		objects{build.Job("data-web-0", 1, build.Complete()), build.Job("data-web-1", 1, build.Complete())})
	done.Reports = final.Reports
	if got := eventsOf(Decide(done)); len(got) != 3 || !strings.Contains(got[1], "data-web-1: "+first) || !strings.Contains(got[2], "CopyVerified") {
		t.Errorf("at the end: %q", got)
	}
}

// More rights do not help against SELinux, nor with a target that is in use.
func TestRootMoversAreAdvisedOnlyWhereTheyHelp(t *testing.T) {
	for reason, want := range map[moverreport.Reason]bool{
		moverreport.ReasonNotFaithful: true, moverreport.ReasonSELinux: false, moverreport.ReasonTargetNotEmpty: false,
	} {
		in := world(running(copyOperation(api.ClaimWarming)), users(), warming(0, build.Failed("PodFailurePolicy", "exit code")), warming(1))
		in.Reports[names[0]] = moverreport.Line{Report: moverreport.Report{Result: "failed", Reason: reason, Message: "because"}}
		next := build.Stored(copyFailed(in))
		if next == nil || strings.Contains(next.Message, api.RootMoverLabel) != want || !strings.Contains(next.Message, string(reason)) {
			t.Errorf("%s: %+v", reason, next)
		}
	}
}

// copyFailed is the plan once the target is kept, where it holds data of others.
func copyFailed(in Input) plan.Plan {
	status, _ := in.Status()
	p, _ := warm(in, status)
	return p
}

// Whatever movers say, the status stays small, and says that there is more.
func TestWarningsAreBounded(t *testing.T) {
	many := make([]string, 0, 100)
	for i := range 100 {
		many = append(many, fmt.Sprint(i, strings.Repeat("\xff\u00fc", 500)))
	}
	for _, claims := range []int{0, 1, 2, 80, 256} {
		status := &api.Resize{Claims: make([]api.ClaimStatus, claims)}
		bytes := 0
		for i := range status.Claims {
			part := &status.Claims[i]
			for range 2 {
				addWarnings(status, part, many, 3)
			}
			if part.Warnings[len(part.Warnings)-1] != moreWarnings {
				t.Fatalf("%d claims: %q", claims, part.Warnings)
			}
			for _, w := range part.Warnings {
				bytes += len(w)
				if len(w) > warningBytes || !utf8.ValidString(w) {
					t.Fatalf("%q", w)
				}
			}
		}
		if most := allWarningBytes + claims*len(moreWarnings); bytes > most {
			t.Fatalf("%d claims: %d bytes", claims, bytes)
		}
	}
}
