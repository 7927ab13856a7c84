package command

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/cmd/kubectl-drydock/forecast"
	"drydock.dev/cmd/kubectl-drydock/terminal"
	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/text"
)

// planText is the text of a plan. Its lines fit the width, unless that is 0.
type planText struct {
	lines []string
	width int
}

// printPlan prints the plan as text: the verdict, the claims, the members, the consequences, and how certain they are.
func printPlan(out io.Writer, d *forecast.Document) error {
	t := &planText{width: terminal.New(out).Width()}
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
	for i, line := range terminal.Wrap(words, room) {
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
		rows = append(rows, []string{line.title, line.words})
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

func setWords(d *forecast.Document) string {
	if !d.Recreate {
		return "is not recreated: its templates match the request"
	}
	var templates, with []string
	for _, t := range d.Templates {
		templates = append(templates, t.String())
	}
	if len(templates) > 0 {
		with = append(with, "with the new templates "+strings.Join(templates, ", "))
	}
	if len(d.Fields) > 0 {
		with = append(with, "with the changes "+strings.Join(d.Fields, ", "))
	}
	when := ""
	if d.Method == api.MethodCopy || d.Method == api.MethodExpandOffline {
		when = " before the first member stops"
	}
	return "is recreated around its running pods" + when + ", " + strings.Join(with, ", and ")
}

func ownerWords(o *forecast.Owner) string {
	switch {
	case o == nil:
		return "none"
	case o.Paused && o.Then != "":
		return fmt.Sprintf("%s %s (%s) is paused: %s. After the resize, %s", o.Kind, o.Name, o.APIVersion, o.How, o.Then)
	case o.Paused:
		return fmt.Sprintf("%s %s (%s) is paused: %s", o.Kind, o.Name, o.APIVersion, o.How)
	}
	return fmt.Sprintf("%s %s (%s): %s", o.Kind, o.Name, o.APIVersion, o.How)
}

func copyWords(c forecast.Copy) string {
	claims := counted(c.Claims, "claim")
	switch {
	case c.Claims == 0:
		return "nothing"
	case c.Unmeasured == 0:
		return fmt.Sprintf("%s: %s in use, as the kubelets measure it", claims, text.Bytes(c.Measured))
	case c.Measured == 0:
		return fmt.Sprintf("%s: at most %s, because the usage is not measured", claims, text.Bytes(c.Unmeasured))
	}
	return fmt.Sprintf("%s: %s in use, as the kubelets measure it, and at most %s where it is not measured",
		claims, text.Bytes(c.Measured), text.Bytes(c.Unmeasured))
}

func strategyWords(d *forecast.Document) string {
	switch {
	case d.Strategy == api.StrategyRolling:
		return "rolling: one member at a time, in the order above; the others keep serving"
	case d.Stop.Members == 0:
		return "whole: no member runs"
	case d.Stop.Members == 1:
		return "whole: one member stops" + ifCopied(d, " when it has been copied")
	}
	return fmt.Sprintf("whole: %d members stop together%s, and start %s", d.Stop.Members, ifCopied(d, " when all of them have been copied"),
		map[bool]string{true: "as soon as their volumes have grown", false: "together"}[d.Method == api.MethodExpandOffline])
}

// ifCopied returns the words if the resize copies volumes, else "".
func ifCopied(d *forecast.Document, words string) string {
	if d.Method == api.MethodExpandOffline {
		return ""
	}
	return words
}

func cutoverWords(d *forecast.Document) string {
	switch d.Cutover {
	case api.CutoverAuto:
		return "as soon as " + cmp.Or(ifCopied(d, "the copies have converged"), "the other members are ready")
	case api.CutoverApprove:
		return "when you approve it: kubectl drydock approve -n " + d.Namespace + " sts/" + d.Set
	}
	return "in the windows " + d.Cutover + ifCopied(d, ", when the copies have converged")
}

// checkWords says when members must pass the member check, if there is one.
func checkWords(d *forecast.Document) []string {
	switch {
	case d.MemberCheck == "":
		return nil
	case d.Strategy == api.StrategyRolling:
		return []string{"all other members must pass " + d.MemberCheck + " twice before each stop, and each member after its start"}
	}
	return []string{"each member must pass " + d.MemberCheck + " after its start"}
}

// hookWords says when the user's Jobs run, and what follows from a failure.
func hookWords(d *forecast.Document) []string {
	var words []string
	for _, hook := range d.Hooks {
		if hook == resources.BeforeMember {
			words = append(words, hook.Annotation()+" runs a Job before each stop. If it fails, the member is not stopped, and the resize ends")
		} else {
			words = append(words, hook.Annotation()+" runs a Job after each start. If it fails, no other member is stopped, and the resize ends")
		}
	}
	return words
}

func stopWords(s forecast.Stop) string {
	from, to := time.Duration(s.From)*time.Second, time.Duration(s.To)*time.Second
	span := fmt.Sprintf("from %s to %s", from, to)
	if from == to {
		span = fmt.Sprintf("about %s", to)
	}
	switch {
	case s.None && to == 0:
		return "none"
	case s.None:
		return "none, because no member runs. The copies take " + span
	case s.Together:
		return fmt.Sprintf("%s for all %d members", span, s.Members)
	case s.Members > 1:
		return fmt.Sprintf("%s for each of %d members", span, s.Members)
	}
	return span + " for one member"
}

func budgetWords(b forecast.Budget) string {
	words := fmt.Sprintf("PodDisruptionBudget %s allows %d of the set's pods to stop now", b.Name, b.Allows)
	if b.Enforced {
		return words + ", and each stop respects it"
	}
	return words + ", but the strategy whole ignores it"
}

func roomWords(r resize.QuotaRoom) string {
	words := fmt.Sprintf("%s allows %s of %s: %s are used, %s more are needed", r.Quota, &r.Hard, r.Resource, &r.Used, &r.Needs)
	if !r.Retained.IsZero() {
		words += fmt.Sprintf(", %s belong to old volumes that are retained", &r.Retained)
	}
	if !r.Fits() {
		words += ". This exceeds the quota"
	}
	return words
}

// triedWords counts the writes that the API server would accept, by kind, and lists the writes that were not tried, with the reason.
func triedWords(checks []forecast.Check) []string {
	if len(checks) == 0 {
		return nil
	}
	accepted, kinds := 0, []string{}
	counts := map[string]int{}
	var untried []string
	for _, c := range checks {
		kind := strings.TrimPrefix(string(c.Verb)+" ", string(plan.VerbCreate)+" ") + string(c.Resource)
		switch c.Outcome {
		case forecast.Accepted:
			accepted++
			if counts[kind]++; counts[kind] == 1 {
				kinds = append(kinds, kind)
			}
		case forecast.Unchecked:
			if words := fmt.Sprintf("not tried: %s %s: %s", c.Verb, c.Resource, c.Message); !slices.Contains(untried, words) {
				untried = append(untried, words)
			}
		}
	}
	for i, kind := range kinds {
		if kinds[i] = fmt.Sprintf("%d %s", counts[kind], kind); counts[kind] == 1 {
			kinds[i] = strings.TrimSuffix(kinds[i], "s") // of the plural name, for example persistentvolumeclaims
		}
	}
	words := fmt.Sprintf("the API server would accept %d of %d writes", accepted, len(checks))
	if accepted > 0 {
		words += ": " + strings.Join(kinds, ", ")
	}
	return append([]string{words}, untried...)
}

// memberRows returns a table of the copied members, in the order of their moves. It is empty if there are none.
func memberRows(set string, members []forecast.Member) [][]string {
	if len(members) == 0 {
		return nil
	}
	rows := [][]string{{"ORDER", "MEMBER", "NODE", "STATE", "FIRST PASS"}}
	for i, m := range members {
		rows = append(rows, []string{strconv.Itoa(i + 1), fmt.Sprintf("%s-%d", set, m.Ordinal), orDash(m.Node), memberState(m), firstPass(m)})
	}
	return rows
}

func memberState(m forecast.Member) string {
	switch {
	case m.Pod == "":
		return "no pod"
	case !m.Ready:
		return "not ready"
	case m.Primary:
		return "ready, primary"
	}
	return "ready"
}

func firstPass(m forecast.Member) string {
	if m.NoFirstPass != "" {
		return "none: " + m.NoFirstPass
	}
	return "while the pod runs"
}
