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
	"drydock.dev/shared/text"
)

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
