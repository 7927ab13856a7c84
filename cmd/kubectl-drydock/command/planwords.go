package command

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"drydock.dev/cmd/kubectl-drydock/forecast"
	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/resources"
)

func setWords(d *forecast.Document) string {
	if !d.Recreate {
		return "is not created again: its templates are as asked for"
	}
	var templates, with []string
	for _, t := range d.Templates {
		templates = append(templates, t.String())
	}
	if len(templates) > 0 {
		with = append(with, "with its new templates: "+strings.Join(templates, ", "))
	}
	if len(d.Fields) > 0 {
		with = append(with, "with the changes "+strings.Join(d.Fields, ", "))
	}
	when := ""
	if d.Method == api.MethodCopy || d.Method == api.MethodExpandOffline {
		when = " before the first member stops"
	}
	return "is created again around its running pods" + when + ", " + strings.Join(with, ", and ")
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
		return fmt.Sprintf("at most %s of %d claims: how much is in use is not measured", bytesWords(c.Unmeasured), c.Claims)
	}
	return fmt.Sprintf("%s of %d claims, as the kubelets say, and at most %s where that is not measured",
		bytesWords(c.Measured), c.Claims, bytesWords(c.Unmeasured))
}

func strategyWords(d *forecast.Document) string {
	switch {
	case d.Strategy == api.StrategyRolling:
		return "rolling: one member at a time, in the order above; the others keep serving"
	case d.Stop.Members == 0:
		return "whole: no member runs"
	case d.Stop.Members == 1:
		return "whole: one member stops" + when(d, " when it has been copied")
	}
	return fmt.Sprintf("whole: %d members stop together%s, and start %s", d.Stop.Members, when(d, " when all of them have been copied"),
		map[bool]string{true: "as soon as their volumes have grown", false: "together"}[d.Method == api.MethodExpandOffline])
}

// when returns the words if the resize copies volumes, else "".
func when(d *forecast.Document, words string) string {
	if d.Method == api.MethodExpandOffline {
		return ""
	}
	return words
}

func cutoverWords(d *forecast.Document) string {
	switch d.Cutover {
	case api.CutoverAuto:
		return "as soon as " + cmp.Or(when(d, "the copies have converged"), "the other members are ready")
	case api.CutoverApprove:
		return "when they are approved: kubectl drydock approve -n " + d.Namespace + " sts/" + d.Set
	}
	return "in the windows " + d.Cutover + when(d, ", when the copies have converged")
}

// checkWords say when the member check is asked, if there is one.
func checkWords(d *forecast.Document) []string {
	switch {
	case d.MemberCheck == "":
		return nil
	case d.Strategy == api.StrategyRolling:
		return []string{d.MemberCheck + " is asked of all other members before each stop, twice, and of each member after its start"}
	}
	return []string{d.MemberCheck + " is asked of each member after its start"}
}

// hookWords say when Jobs of the user run, and tell the consequence of a failure.
func hookWords(d *forecast.Document) []string {
	var words []string
	for _, hook := range d.Hooks {
		if hook == resources.BeforeMember {
			words = append(words, hook.Annotation()+" has a Job run before each stop; if it fails, the member is not stopped, and the resize ends")
		} else {
			words = append(words, hook.Annotation()+" has a Job run after each start; if it fails, no other member is stopped, and the resize ends")
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
		return "none: no member runs. The copies take " + span
	case s.Together:
		return fmt.Sprintf("%s, of all %d members", span, s.Members)
	case s.Members > 1:
		return fmt.Sprintf("%s, of each of %d members", span, s.Members)
	}
	return span + ", of one member"
}

func budgetWords(b forecast.Budget) string {
	words := fmt.Sprintf("PodDisruptionBudget %s would allow %d of the set's pods to stop now", b.Name, b.Allows)
	if b.Asked {
		return words + "; it is asked before each stop"
	}
	return words + "; with the strategy whole it is not asked"
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

// triedWords counts the objects that the API server would accept, by kind, and names the writes that were not tried, with the reason.
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
