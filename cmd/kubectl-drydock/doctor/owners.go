package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
)

// Rights returns the rights that pause-owner needs.
func (o Owner) Rights() []Right {
	var all []Right
	for _, verb := range o.Verbs {
		all = append(all, Right{Verb: verb, Group: o.Group, Resource: o.Plural, Namespace: o.Namespace})
	}
	return all
}

// OwnersOf returns the kinds that control the sets, without the sets whose owners Drydock ignores.
func OwnersOf(sets []appsv1.StatefulSet, registry owners.Registry) []Owner {
	found, updates := map[ownerKey]int{}, map[ownerKey]bool{}
	for i := range sets {
		set := &sets[i]
		controller := metav1.GetControllerOf(set)
		if controller == nil || set.Annotations[api.OwnerPolicyAnnotation] == string(api.OwnerIgnore) {
			continue
		}
		if group, err := schema.ParseGroupVersion(controller.APIVersion); err == nil {
			key := ownerKey{set.Namespace, group.Group, controller.Kind}
			found[key]++
			updates[key] = updates[key] || set.Annotations[api.OwnerPolicyAnnotation] == string(api.OwnerUpdate)
		}
	}
	var all []Owner
	for key, sets := range found {
		o := Owner{Namespace: key.namespace, Group: key.group, Kind: key.kind, Sets: sets, Updates: updates[key]}
		if row, known := registry.Find(o.Group, o.Kind); known {
			o.Operator, o.Plural, o.Verbs = row.Operator, row.Plural(o.Kind), []string{"get", "patch"}
			if row.PausedThroughController {
				o.Verbs = []string{"get"}
			}
		}
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b Owner) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind))
	})
	return all
}

// owned checks that pause-owner may pause the operators of the sets.
func owned(f Facts) []Finding {
	const subject = "owners"
	switch {
	case f.OwnersMistake != "":
		return []Finding{{subject, Problem, "DRYDOCK_OWNERS has a mistake, so pause-owner and detect-resize do not start: " + f.OwnersMistake,
			"correct the rows in ConfigMap drydock-settings"}}
	case !f.Owners.Known():
		return []Finding{f.Owners.unknown(subject)}
	}
	var unknown, lacking, operators []string
	for _, o := range f.Owners.Value {
		where := fmt.Sprintf("%s of %s in namespace %s", o.Kind, o.Group, o.Namespace)
		switch {
		case o.Operator == "":
			unknown = append(unknown, where)
		case len(o.Lacking) > 0:
			lacking = append(lacking, strings.Join(o.Lacking, " and ")+" "+where)
			operators = append(operators, o.Operator)
		}
	}
	slices.Sort(operators)
	var findings []Finding
	if len(lacking) > 0 {
		findings = append(findings, Finding{subject, Problem, "pause-owner may not " + list(lacking),
			"kubectl drydock rbac --owners " + strings.Join(slices.Compact(operators), ",") + " | kubectl apply -f -"})
	}
	if len(unknown) > 0 && !f.Settings.Known() {
		findings = append(findings, f.Settings.unknown(subject)) // its rows may name the kinds
	} else if len(unknown) > 0 {
		findings = append(findings, Finding{subject, Note, "Drydock does not know how to pause " + list(unknown),
			"add a row to DRYDOCK_OWNERS, or pause the operator yourself and set drydock.dev/owner-policy=ignore on the sets"})
	}
	for _, namespace := range namespacesOf(f.Owners.Value, func(o Owner) bool { return o.Forbids }) {
		findings = append(findings, Finding{subject, Problem,
			"namespace " + namespace + " does not allow Drydock to pause the operators of its sets", owners.ConsentCommand(namespace)})
	}
	for _, namespace := range namespacesOf(f.Owners.Value, func(o Owner) bool { return o.ForbidsUpdates }) {
		findings = append(findings, Finding{subject, Problem, fmt.Sprintf("namespace %s does not allow Drydock to write the size and class of a "+
			"resize into custom resources, although a set there has %s=%s", namespace, api.OwnerPolicyAnnotation, api.OwnerUpdate),
			owners.UpdateConsentCommand(namespace)})
	}
	for _, u := range f.Unlabelled {
		findings = append(findings, Finding{subject, Problem, "the operator of StatefulSet " + u.Set + " removes the label " + api.ManagedLabel +
			" from it, which belongs on the custom resource", u.Command})
	}
	if len(findings) == 0 {
		findings = append(findings, Finding{subject, OK, ownedState(f.Owners.Value), ""})
	}
	return findings
}

// namespacesOf returns the namespaces of the owners with a row that match.
func namespacesOf(all []Owner, match func(Owner) bool) []string {
	var namespaces []string
	for _, o := range all {
		if match(o) && o.Operator != "" && !slices.Contains(namespaces, o.Namespace) {
			namespaces = append(namespaces, o.Namespace)
		}
	}
	return namespaces
}

func ownedState(all []Owner) string {
	if len(all) == 0 {
		return "no custom resource controls an opted-in set"
	}
	return "pause-owner has the rights to pause the operators of opted-in sets"
}

// ownerKey identifies a kind of custom resource in a namespace.
type ownerKey struct{ namespace, group, kind string }
