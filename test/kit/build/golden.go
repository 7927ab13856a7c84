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

// Case is a situation and a decision. Its golden entry shows the situation, the plan and the record that the plan
// stores.
type Case struct {
	// Sentence is the situation as a sentence.
	Sentence string
	// World is the observed world.
	World *world.Observed
	// Facts are further facts, in words: for example an error of the API server, or how long the function has waited.
	Facts []string
	// Decide makes the decision.
	Decide func() plan.Plan
	// Others are objects outside the world that the plan may write.
	Others []metav1.Object
}

// Golden compares the cases with the golden file of the test. It checks each decision as Expect does.
func Golden(t *testing.T, cases []Case) {
	t.Helper()
	file := golden.Open(t)
	for _, c := range cases {
		t.Run(c.Sentence, func(t *testing.T) {
			t.Helper()
			file.Entry(t, c.Sentence, entry(c, judge(t, c.World, c.Decide, c.Others...)))
		})
	}
}

// entry renders the golden entry of a case.
func entry(c Case, p plan.Plan) string {
	var b strings.Builder
	for _, line := range append(Situation(c.World), c.Facts...) {
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

// renderPlan renders a plan with one action per line.
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
	if p.Wakes != nil {
		fmt.Fprintf(&b, "-> wakes %s/%s\n", p.Wakes.Namespace, p.Wakes.Name)
	}
	return b.String()
}
