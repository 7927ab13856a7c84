package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/cmd/kubectl-drydock/forecast"
	"drydock.dev/shared/api"
	"drydock.dev/shared/resize"
)

// printPlan prints the plan for people: the verdict, the claims, the consequences, and how certain each is.
func printPlan(out io.Writer, d *forecast.Document) error {
	fmt.Fprintf(out, "statefulset.apps/%s: %s\n", d.Set, verdict(d))
	printProblems(out, "It would be refused:", d.Refused)
	if d.Verdict == forecast.Refused || d.Verdict == forecast.Waits {
		printProblems(out, "Nothing would happen until", d.Before)
	}
	if err := errors.Join(printClaims(out, d.Claims), printMembers(out, d.Members)); err != nil {
		return err
	}
	if d.Method == "" || knowsNothing(d) {
		return printFacts(out, d, facts{})
	}
	f := facts{}
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
	f.add("", prefixed("observed: ", d.Stop.Basis)...)
	f.add("", prefixed("assumed: ", d.Stop.Assumed)...)
	f.add("", prefixed("besides: ", d.Stop.Besides)...)
	for _, b := range d.Budgets {
		f.add("budget", budgetWords(b))
	}
	for _, r := range d.Quotas {
		f.add("quota", roomWords(r))
	}
	f.add("tried", triedWords(d.Checks)...)
	return printFacts(out, d, f)
}

func verdict(d *forecast.Document) string {
	switch d.Verdict {
	case forecast.Goes:
		return fmt.Sprintf("%s would go through", printable(d.Request))
	case forecast.Waits:
		return fmt.Sprintf("%s would wait", printable(d.Request))
	case forecast.Refused:
		return fmt.Sprintf("%s would be refused", printable(d.Request))
	}
	if d.Request == "" {
		return "no resize is asked for; --resize TEMPLATE=SIZE shows the consequences of one"
	}
	return fmt.Sprintf("%s: everything is as asked for", printable(d.Request))
}

// knowsNothing reports whether the request was refused before its consequences were known, for example because it cannot be read.
func knowsNothing(d *forecast.Document) bool {
	return d.Verdict == forecast.Refused && len(d.Claims) == 0 && !d.Recreate
}

func printProblems(out io.Writer, title string, problems []resize.Problem) {
	if len(problems) == 0 {
		return
	}
	fmt.Fprintln(out, "\n"+title)
	for _, p := range problems {
		fmt.Fprintf(out, "- %s: %s\n", p.Reason, printable(p.Message))
	}
}

func printClaims(out io.Writer, claims []forecast.Claim) error {
	if len(claims) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "CLAIM\tMETHOD\tSIZE\tCLASS\tACCESS\tOLD VOLUME\tIN USE\tUSED BY")
	for _, c := range claims {
		fmt.Fprintln(table, strings.Join([]string{c.Name, string(c.Method), turns(c.From.String(), c.To.String()), classWords(c),
			turns(modes(c.Modes), modes(c.NewModes)), c.Volume, inUse(c), users(c.Users)}, "\t"))
	}
	return table.Flush()
}

// classWords are the StorageClass and, after the sign of a request, the VolumeAttributesClass.
func classWords(c forecast.Claim) string {
	becomes := c.Attributes
	if c.NewAttributes != nil {
		becomes = *c.NewAttributes
	}
	return turns(withAttributes(c.Class, c.Attributes), withAttributes(cmp.Or(c.NewClass, c.Class), becomes))
}

func withAttributes(class, attributes string) string {
	if attributes == "" {
		return class
	}
	return class + "%" + attributes
}

// turns returns the present value, and the new one if it differs.
func turns(is, becomes string) string {
	if becomes == "" || becomes == is {
		return is
	}
	return is + " -> " + becomes
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
		return bytesWords(*c.Used)
	}
	return "at most " + bytesWords(c.Capacity)
}

func users(all []forecast.User) string {
	var names []string
	for _, u := range all {
		if u.Foreign {
			names = append(names, u.Pod+" (not the set's)")
		} else {
			names = append(names, u.Pod)
		}
	}
	if len(names) == 0 {
		return "no pod"
	}
	return strings.Join(names, ", ")
}

// printMembers prints the copied members, in the order of their moves.
func printMembers(out io.Writer, members []forecast.Member) error {
	if len(members) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "ORDER\tMEMBER\tNODE\tIS\tFIRST PASS")
	for i, m := range members {
		fmt.Fprintln(table, strings.Join([]string{strconv.Itoa(i + 1), strconv.Itoa(m.Ordinal), orDash(m.Node), memberState(m), firstPass(m)},
			"\t"))
	}
	return table.Flush()
}

func memberState(m forecast.Member) string {
	switch {
	case m.Pod == "":
		return "without a pod"
	case !m.Ready:
		return "not ready"
	case m.Primary:
		return "ready, primary"
	}
	return "ready"
}

func firstPass(m forecast.Member) string {
	if m.Cold != "" {
		return "none: " + m.Cold
	}
	return "beside the running pod"
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// facts are lines of a title and some words; a line without a title belongs to the one before.
type facts []struct{ title, words string }

func (f *facts) add(title string, words ...string) {
	for _, w := range words {
		*f = append(*f, struct{ title, words string }{title, printable(w)})
		title = ""
	}
}

func printFacts(out io.Writer, d *forecast.Document, f facts) error {
	f.add("warning", d.Warnings...)
	f.add("suggestion", d.Suggestions...)
	f.add("unknown", d.Assumed...)
	if len(f) == 0 || d.Verdict == forecast.Nothing {
		return nil
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, line := range f {
		fmt.Fprintln(table, line.title+"\t"+line.words)
	}
	return table.Flush()
}

func prefixed(prefix string, words []string) []string {
	var all []string
	for _, w := range words {
		all = append(all, prefix+w)
	}
	return all
}
