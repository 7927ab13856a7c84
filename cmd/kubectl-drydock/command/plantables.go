package command

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/cmd/kubectl-drydock/forecast"
	"drydock.dev/cmd/kubectl-drydock/terminal"
	"drydock.dev/shared/api"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/text"
)

// planText is the text of a plan. Its lines fit the width, unless that is 0.
type planText struct {
	lines []string
	width int
	flags connection
}

// printPlan prints the plan as text: the verdict, the claims, the members, the consequences, and how certain they are.
func printPlan(out io.Writer, d *forecast.Document, flags connection) error {
	t := &planText{width: terminal.New(out).Width(), flags: flags}
	t.addWrapped("", fmt.Sprintf("statefulset.apps/%s: %s", d.Set, verdict(d)))
	t.addProblems("It would be refused:", d.Refused)
	if d.Verdict == forecast.Refused || d.Verdict == forecast.Waits {
		t.addProblems("Nothing would happen until", d.Conditions)
	}
	t.addClaims(d.Claims)
	t.addTable(memberRows(d.Set, d.Members), "NODE")
	t.addFacts(d, consequences(d))
	return t.print(out)
}

func (t *planText) print(out io.Writer) error {
	_, err := io.WriteString(out, strings.Join(t.lines, "\n")+"\n")
	return err
}

// addWrapped adds a text after a prefix. Further lines are indented below its start.
func (t *planText) addWrapped(prefix, words string) {
	room := t.width
	if room > 0 {
		room = max(1, room-len(prefix))
	}
	for i, line := range terminal.Wrap(t.flags.in(words), room) {
		if i > 0 {
			prefix = strings.Repeat(" ", len(prefix))
		}
		t.lines = append(t.lines, prefix+line)
	}
}

// addTable adds the table, if it has rows, after an empty line. Of a table that does not fit, the columns leastNeeded are omitted.
func (t *planText) addTable(rows [][]string, leastNeeded ...string) {
	if len(rows) == 0 {
		return
	}
	t.lines = append(append(t.lines, ""), terminal.Table(rows, t.width, leastNeeded...)...)
}

// consequences returns the consequences of a resize, if there is one that can be judged.
func consequences(d *forecast.Document) facts {
	f := facts{}
	if d.Method == "" || isUnjudged(d) {
		return f
	}
	f.add("set", setWords(d))
	f.add("owner", ownerWords(d.Owner))
	f.add("to copy", copyWords(d.Copy))
	if d.Method == api.MethodCopy {
		f.add("strategy", strategyWords(d))
		f.add("stops", cutoverWords(d))
		f.add("check", checkWords(d)...)
		f.add("hooks", hookWords(d)...)
	}
	f.add("stop", stopWords(d.Stop))
	f.add("", prefixed("observed: ", d.Stop.Observed)...)
	f.add("", prefixed("assumed: ", d.Stop.Assumed)...)
	f.add("", prefixed("not included: ", d.Stop.Excluded)...)
	for _, b := range d.Budgets {
		f.add("budget", budgetWords(b))
	}
	for _, r := range d.Quotas {
		f.add("quota", roomWords(r))
	}
	f.add("tried", triedWords(d.Checks)...)
	return f
}

func verdict(d *forecast.Document) string {
	switch d.Verdict {
	case forecast.Proceeds:
		return fmt.Sprintf("%s would go through", text.Printable(d.Request))
	case forecast.Waits:
		return fmt.Sprintf("%s would wait", text.Printable(d.Request))
	case forecast.Refused:
		return fmt.Sprintf("%s would be refused", text.Printable(d.Request))
	}
	if d.Request == "" {
		return "no resize is requested. Show the consequences of one with --resize TEMPLATE=SIZE"
	}
	return fmt.Sprintf("%s: the set already matches the request", text.Printable(d.Request))
}

// isUnjudged reports whether the request was refused before its consequences were known, for example because it is unreadable.
func isUnjudged(d *forecast.Document) bool {
	return d.Verdict == forecast.Refused && len(d.Claims) == 0 && !d.Recreate
}

func (t *planText) addProblems(title string, problems []resize.Problem) {
	if len(problems) == 0 {
		return
	}
	if len(t.lines) > 0 {
		t.lines = append(t.lines, "")
	}
	t.addWrapped("", title)
	for _, p := range problems {
		t.addWrapped("- ", fmt.Sprintf("%s: %s", p.Reason, text.Printable(p.Message)))
	}
}

func (t *planText) addClaims(claims []forecast.Claim) {
	if len(claims) == 0 {
		return
	}
	leastNeeded := []string{"OLD VOLUME", "ACCESS", "IN USE", "METHOD"}
	if slices.ContainsFunc(claims, func(c forecast.Claim) bool { return len(c.NewModes) > 0 }) {
		leastNeeded = []string{"OLD VOLUME", "IN USE", "METHOD"} // ACCESS shows what changes
	}
	rows := [][]string{{"CLAIM", "METHOD", "SIZE", "CLASS", "ACCESS", "OLD VOLUME", "IN USE", "USED BY"}}
	for _, c := range claims {
		rows = append(rows, []string{c.Name, string(c.Method), change(c.From.String(), c.To.String()), classWords(c),
			change(modes(c.Modes), modes(c.NewModes)), c.Volume, inUse(c), users(c.Users)})
	}
	t.addTable(rows, leastNeeded...)
}

// classWords returns the StorageClass and, after a percent sign as in a request, the VolumeAttributesClass.
func classWords(c forecast.Claim) string {
	attributes := c.Attributes
	if c.NewAttributes != nil {
		attributes = *c.NewAttributes
	}
	return change(withAttributes(c.Class, c.Attributes), withAttributes(cmp.Or(c.NewClass, c.Class), attributes))
}

func withAttributes(class, attributes string) string {
	if attributes == "" {
		return class
	}
	return class + "%" + attributes
}

// change returns the present value, and the new one if it differs.
func change(before, after string) string {
	if after == "" || after == before {
		return before
	}
	return before + " -> " + after
}

func modes(all []corev1.PersistentVolumeAccessMode) string {
	var words []string
	for _, m := range all {
		words = append(words, string(m))
	}
	return strings.Join(words, "+")
}

func inUse(c forecast.Claim) string {
	switch {
	case c.Method != api.MethodCopy:
		return "-"
	case c.Used != nil:
		return text.Bytes(*c.Used)
	}
	return "at most " + text.Bytes(c.Capacity)
}

func users(all []forecast.User) string {
	var names []string
	for _, u := range all {
		if u.Foreign {
			names = append(names, u.Pod+" (not in the set)")
		} else {
			names = append(names, u.Pod)
		}
	}
	if len(names) == 0 {
		return "no pod"
	}
	return strings.Join(names, ", ")
}

// facts are lines with a title and a text. A line without a title continues the one before.
type facts []struct{ title, words string }

func (f *facts) add(title string, words ...string) {
	for _, w := range words {
		*f = append(*f, struct{ title, words string }{title, text.Printable(w)})
		title = ""
	}
}

// addFacts adds the facts, the warnings and what is uncertain. If nothing would be done, nothing else matters.
func (t *planText) addFacts(d *forecast.Document, f facts) {
	f.add("warning", d.Warnings...)
	f.add("suggestion", d.Suggestions...)
	f.add("unknown", d.Assumed...)
	if len(f) == 0 || d.Verdict == forecast.Nothing {
		return
	}
	var rows [][]string
	for _, line := range f {
		rows = append(rows, []string{line.title, t.flags.in(line.words)})
	}
	t.addTable(rows)
}

func prefixed(prefix string, words []string) []string {
	var all []string
	for _, w := range words {
		all = append(all, prefix+w)
	}
	return all
}
