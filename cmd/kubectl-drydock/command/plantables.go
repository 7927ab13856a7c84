package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/cmd/kubectl-drydock/forecast"
	"drydock.dev/shared/api"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/text"
)

// printPlan prints the plan as text: the verdict, the claims, the members, the consequences, and how certain they are.
func printPlan(out io.Writer, d *forecast.Document, flags connection) error {
	fmt.Fprintf(out, "statefulset.apps/%s: %s\n", d.Set, verdict(d))
	printProblems(out, "It would be refused:", d.Refused, flags)
	if d.Verdict == forecast.Refused || d.Verdict == forecast.Waits {
		printProblems(out, "Nothing would happen until", d.Conditions, flags)
	}
	if err := errors.Join(printClaims(out, d.Claims), printMembers(out, d.Members)); err != nil {
		return err
	}
	if d.Method == "" || isUnjudged(d) {
		return printFacts(out, d, facts{}, flags)
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
	return printFacts(out, d, f, flags)
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

func printProblems(out io.Writer, title string, problems []resize.Problem, flags connection) {
	if len(problems) == 0 {
		return
	}
	fmt.Fprintln(out, "\n"+title)
	for _, p := range problems {
		fmt.Fprintf(out, "- %s: %s\n", p.Reason, flags.in(text.Printable(p.Message)))
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
		fmt.Fprintln(table, strings.Join([]string{c.Name, string(c.Method), change(c.From.String(), c.To.String()), classWords(c),
			change(modes(c.Modes), modes(c.NewModes)), c.Volume, inUse(c), users(c.Users)}, "\t"))
	}
	return table.Flush()
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

func printFacts(out io.Writer, d *forecast.Document, f facts, flags connection) error {
	f.add("warning", d.Warnings...)
	f.add("suggestion", d.Suggestions...)
	f.add("unknown", d.Assumed...)
	if len(f) == 0 || d.Verdict == forecast.Nothing {
		return nil
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, line := range f {
		fmt.Fprintln(table, line.title+"\t"+flags.in(line.words))
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
