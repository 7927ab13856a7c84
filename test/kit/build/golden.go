package build

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/world"
	"drydock.dev/test/golden"
)

// Case is a situation and a decision. Its golden entry shows the situation, the plan, and how its writes change records.
type Case struct {
	// Sentence is the situation as a sentence.
	Sentence string
	// By is the function that decides.
	By api.Function
	// World is the observed world.
	World *world.Observed
	// Facts are further facts, in words: for example an error of the API server, or how long the function has waited.
	Facts []string
	// Decide makes the decision.
	Decide func() plan.Plan
	// Others are objects outside the world that the plan may write.
	Others []metav1.Object
}

// Golden compares the cases with the golden file of the test. It checks each decision as Guard does.
func Golden(t *testing.T, cases []Case) {
	t.Helper()
	file := golden.Open(t)
	for _, c := range cases {
		t.Run(c.Sentence, func(t *testing.T) {
			t.Helper()
			file.Entry(t, c.Sentence, entry(c, Guard(t, c.By, c.World, c.Decide, c.Others...)))
		})
	}
}

// entry renders the golden entry of a case.
func entry(c Case, p plan.Plan) string {
	var b strings.Builder
	for _, line := range append(Situation(c.World), c.Facts...) {
		b.WriteString(line + "\n")
	}
	b.WriteString(Plan(p, c.World, c.Others...))
	return b.String()
}
