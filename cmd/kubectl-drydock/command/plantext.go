package command

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/cmd/kubectl-drydock/forecast"
	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
)

// printPlan prints the plan for people: the verdict, the claims, the consequences, and how certain each is.
func printPlan(out io.Writer, d *forecast.Document) error {
	fmt.Fprintf(out, "statefulset.apps/%s: %s\n", d.Set, verdict(d))
	printProblems(out, "It would be refused:", d.Refused)
	if d.Verdict == forecast.Refused || d.Verdict == forecast.Waits {
		printProblems(out, "Nothing would happen until", d.Before)
	}
	if err := printClaims(out, d.Claims); err != nil {
		return err
	}
	if d.Method == "" || knowsNothing(d) {
		return printFacts(out, d, facts{})
	}
	f := facts{}
	f.add("set", setWords(d))
	f.add("owner", ownerWords(d.Owner))
	f.add("to copy", copyWords(d.Copy))
	f.add("downtime", downtimeWords(d.Downtime))
	f.add("", prefixed("observed: ", d.Downtime.Basis)...)
	f.add("", prefixed("assumed: ", d.Downtime.Assumed)...)
	f.add("", prefixed("besides: ", d.Downtime.Besides)...)
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
		return "nobody asks for a resize; --resize TEMPLATE=SIZE shows what one would do"
	}
	return fmt.Sprintf("%s: everything is as asked for", printable(d.Request))
}

// knowsNothing reports whether the request was refused before it was known what it would change, as one that cannot be read.
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
	fmt.Fprintln(table, "CLAIM\tMETHOD\tSIZE\tCLASS\tACCESS\tOLD VOLUME\tIN USE\tUSED BY\tFIRST COPY")
	for _, c := range claims {
		fmt.Fprintln(table, strings.Join([]string{c.Name, string(c.Method), turns(c.From.String(), c.To.String()), turns(c.Class, c.NewClass),
			turns(modes(c.Modes), modes(c.NewModes)), c.Volume, inUse(c), users(c.Users), firstCopy(c)}, "\t"))
	}
	return table.Flush()
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
		return "nobody"
	}
	return strings.Join(names, ", ")
}

func firstCopy(c forecast.Claim) string {
	switch {
	case c.Method != api.MethodCopy:
		return "-"
	case c.Cold == "":
		return "while the set runs"
	}
	return "none: " + c.Cold
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

func setWords(d *forecast.Document) string {
	if !d.Recreate {
		return "is not created again: its templates are as asked for"
	}
	around := "around its running pods, with its new templates"
	if d.Method == api.MethodCopy {
		around = "at zero, with its new templates"
	}
	var templates []string
	for _, t := range d.Templates {
		words := t.Name + "=" + t.Size.String()
		if t.Class != "" {
			words += "@" + t.Class
		}
		if len(t.Modes) > 0 {
			words += ":" + modes(t.Modes)
		}
		templates = append(templates, words)
	}
	return "is created again " + around + ": " + strings.Join(templates, ", ")
}

func ownerWords(o *forecast.Owner) string {
	switch {
	case o == nil:
		return "none"
	case o.Paused:
		return fmt.Sprintf("%s %s (%s) is paused: %s", o.Kind, o.Name, o.APIVersion, o.How)
	}
	return fmt.Sprintf("%s %s (%s): %s", o.Kind, o.Name, o.APIVersion, o.How)
}

func copyWords(c forecast.Copy) string {
	switch {
	case c.Claims == 0:
		return "nothing"
	case c.Unmeasured == 0:
		return fmt.Sprintf("%s of %d claims, as the kubelets say", bytesWords(c.Measured), c.Claims)
	case c.Measured == 0:
		return fmt.Sprintf("at most %s of %d claims: nobody says how much is in use", bytesWords(c.Unmeasured), c.Claims)
	}
	return fmt.Sprintf("%s of %d claims, as the kubelets say, and at most %s where nobody says how much is in use",
		bytesWords(c.Measured), c.Claims, bytesWords(c.Unmeasured))
}

func downtimeWords(d forecast.Downtime) string {
	from, to := time.Duration(d.From)*time.Second, time.Duration(d.To)*time.Second
	switch {
	case d.None && to == 0:
		return "none"
	case d.None:
		return fmt.Sprintf("none: no replica runs. What is copied takes from %s to %s", from, to)
	case from == to:
		return fmt.Sprintf("about %s", to)
	}
	return fmt.Sprintf("from %s to %s", from, to)
}

func roomWords(r resize.Room) string {
	words := fmt.Sprintf("%s allows %s of %s: %s are used, %s more needed", r.Quota, &r.Hard, r.Resource, &r.Used, &r.Needs)
	if !r.Retained.IsZero() {
		words += fmt.Sprintf(", %s are in old volumes that are kept", &r.Retained)
	}
	if !r.Enough() {
		words += ", which is too much"
	}
	return words
}

// triedWords counts the objects that the API server would accept, by kind, and names those that were not tried, with the reason.
func triedWords(checks []forecast.Check) []string {
	if len(checks) == 0 {
		return nil
	}
	accepted, kinds := 0, []string{}
	counts := map[string]int{}
	var rest []string
	for _, c := range checks {
		kind := strings.TrimPrefix(string(c.Verb)+" ", string(plan.VerbCreate)+" ") + string(c.Resource)
		switch c.Outcome {
		case forecast.Accepted:
			accepted++
			if counts[kind]++; counts[kind] == 1 {
				kinds = append(kinds, kind)
			}
		case forecast.Unchecked:
			if words := fmt.Sprintf("not tried: %s %s: %s", c.Verb, c.Resource, c.Message); !slices.Contains(rest, words) {
				rest = append(rest, words)
			}
		}
	}
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%d %s", counts[kind], kind)
	}
	words := fmt.Sprintf("the API server would take %d of %d writes", accepted, len(checks))
	if accepted > 0 {
		words += ": " + strings.Join(kinds, ", ")
	}
	return append([]string{words}, rest...)
}

// bytesWords are bytes for people.
func bytesWords(n int64) string {
	value, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		if value < 1024 {
			break
		}
		value, unit = value/1024, next
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", value), ".0") + " " + unit
}
