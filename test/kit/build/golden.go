package build

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/plan"
	"drydock.dev/shared/world"
	"drydock.dev/test/golden"
)

// Case is a situation, and what decides on it. Its golden entry shows the situation, the plan and the record that the plan stores.
type Case struct {
	// Says is the situation in a sentence.
	Says string
	// World is what was observed.
	World *world.Observed
	// Told is what else is known, as words: what the API server has refused, or for how long was waited.
	Told []string
	// Decide is the function in question.
	Decide func() plan.Plan
	// Others are objects that the plan may write and that are no part of the world.
	Others []metav1.Object
}

// Golden compares the cases with the golden file of the test. Each case is judged as Expect judges it.
func Golden(t *testing.T, cases []Case) {
	t.Helper()
	file := golden.Open(t)
	for _, c := range cases {
		t.Run(c.Says, func(t *testing.T) {
			t.Helper()
			file.Entry(t, c.Says, entry(c, judge(t, c.World, c.Decide, c.Others...)))
		})
	}
}

// entry renders a case.
func entry(c Case, p plan.Plan) string {
	var b strings.Builder
	for _, line := range append(Situation(c.World), c.Told...) {
		b.WriteString(line + "\n")
	}
	b.WriteString(renderPlan(p))
	record := StoredRecord(p)
	if next := Summary(record); next != "" {
		b.WriteString("record: " + next + "\n")
		if says := record.Head().Message; says != "" {
			b.WriteString("says: " + says + "\n")
		}
	}
	return b.String()
}

// renderPlan renders a plan with each action on a line of its own.
func renderPlan(p plan.Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "plan: %s %s", p.Kind, p.Reason)
	if p.Detail != "" {
		fmt.Fprintf(&b, " (%s)", p.Detail)
	}
	if p.Soon {
		b.WriteString(", soon")
	}
	b.WriteString("\n")
	for _, a := range p.Actions {
		b.WriteString("- " + a.String() + "\n")
	}
	if p.Announce != "" {
		b.WriteString("-> " + strings.TrimPrefix(p.Announce, "dev.drydock.") + "\n")
	}
	return b.String()
}
