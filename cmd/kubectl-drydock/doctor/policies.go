package doctor

import (
	"fmt"
	"slices"
)

func policies(f Facts) []Finding {
	return []Finding{fences(f.Policies), edited(f)}
}

// fences checks that the ValidatingAdmissionPolicies are installed and have a binding that denies. Without one, a policy rejects nothing.
func fences(p Policies) Finding {
	const subject = "policies"
	switch {
	case !p.Validating.Known():
		return p.Validating.unknown(subject)
	case !p.Bindings.Known():
		return p.Bindings.unknown(subject)
	}
	if absent := missing(ValidatingPolicies, p.Validating.Value); len(absent) > 0 {
		return Finding{subject, Problem, "not installed: " + list(absent) + ". Users can forge Drydock's records, or a stolen token can do more",
			reinstall}
	}
	if unbound := missing(ValidatingPolicies, p.enforced()); len(unbound) > 0 {
		return Finding{subject, Problem, "no binding that denies, so they reject nothing: " + list(unbound), reinstall}
	}
	absent := append(missing(OptionalPolicies, both(p.Validating.Value, p.enforced())), missing(WarningPolicies, p.Validating.Value)...)
	if len(absent) > 0 {
		return Finding{subject, Note, "those that protect data are in force. Not in force: " + list(absent), reinstall}
	}
	if !p.Different.Known() {
		return p.Different.unknown(subject)
	}
	if different := p.Different.Value; len(different) > 0 {
		return Finding{subject, Note, "of another version than this command, or changed by a user: " + list(different), reinstall}
	}
	all := len(ValidatingPolicies) + len(OptionalPolicies) + len(WarningPolicies)
	return Finding{subject, OK, fmt.Sprintf("all %d are in force", all), ""}
}

// enforced returns the names of the policies with a binding that denies.
func (p Policies) enforced() []string {
	var enforced []string
	for _, b := range p.Bindings.Value {
		if b.Denies {
			enforced = append(enforced, b.Policy)
		}
	}
	return enforced
}

// both returns the names that are in both lists.
func both(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(name string) bool { return !slices.Contains(b, name) })
}

// edited checks whether applying an edited manifest requests a resize. This is optional, because an annotation can request it, too.
func edited(f Facts) Finding {
	const subject = "edited manifests"
	version, apply := f.Server.Mutating, f.Policies.Apply
	switch {
	case !version.Known():
		return version.unknown(subject)
	case version.Value == "":
		return Finding{subject, Note, "refused: this API server offers no MutatingAdmissionPolicy",
			"request a resize with the annotation drydock.dev/resize, or use Kubernetes 1.36, or 1.34 and later with " +
				"--feature-gates=MutatingAdmissionPolicy=true --runtime-config=admissionregistration.k8s.io/v1beta1=true"}
	case !apply.Known():
		return apply.unknown(subject)
	case !apply.Value:
		return Finding{subject, Note, "refused: MutatingAdmissionPolicy drydock-templates is not installed",
			reinstall}
	}
	return Finding{subject, OK, "turned into requests by MutatingAdmissionPolicy drydock-templates (" + version.Value + ")", ""}
}
