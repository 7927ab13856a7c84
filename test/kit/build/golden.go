package build

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/plan"
	"drydock.dev/shared/world"
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

// Golden compares the cases with testdata/TEST.golden, or writes that file. Each case is judged as Expect judges it, also when the file is
// written.
func Golden(t *testing.T, update bool, cases []Case) {
	t.Helper()
	file := filepath.Join("testdata", strings.ReplaceAll(t.Name(), "/", "-")+".golden")
	if update {
		write(t, file, cases)
	}
	want := entries(t, file)
	for _, c := range cases {
		t.Run(c.Says, func(t *testing.T) {
			p := judge(t, c.World, c.Decide, c.Others...)
			if got := entry(c, p); got != want[c.Says] {
				t.Errorf("%s (write it anew with -update)\ngot\n%s\nwant\n%s", file, got, want[c.Says])
			}
		})
		delete(want, c.Says)
	}
	for says := range want {
		t.Errorf("%s has an entry without a case, or a case twice: %s", file, says)
	}
}

const heading = "## "

func write(t *testing.T, file string, cases []Case) {
	t.Helper()
	var b strings.Builder
	for _, c := range cases {
		fmt.Fprintf(&b, "%s%s\n%s\n", heading, c.Says, entry(c, c.Decide()))
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// entries reads a golden file: an entry by its sentence.
func entries(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(file) //nolint:gosec // a file of the test
	if err != nil {
		t.Fatalf("%v; write it with -update", err)
	}
	all := map[string]string{}
	for _, part := range strings.Split("\n"+string(text), "\n"+heading)[1:] {
		says, body, _ := strings.Cut(part, "\n")
		all[says] = strings.TrimRight(body, "\n") + "\n"
	}
	return all
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
