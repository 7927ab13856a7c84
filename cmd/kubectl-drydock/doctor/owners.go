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

// UserRights are the rights that the subcommands need, for sets in the namespace. With Knative, events go through the Broker.
func UserRights(namespace string, knative bool) []Right {
	const (
		reads  = "status, plan"
		writes = "resize, approve, abort, retry, rollback, sleep, wake"
	)
	all := []Right{
		{Verb: "get", Group: "apps", Resource: "statefulsets", Namespace: namespace, Commands: "every command with a set"},
		{Verb: "list", Group: "apps", Resource: "statefulsets", Namespace: namespace, Commands: "list, fit, release"},
		{Verb: "watch", Group: "apps", Resource: "statefulsets", Namespace: namespace, Commands: "--watch and --wait without delay"},
		{Verb: "patch", Group: "apps", Resource: "statefulsets", Namespace: namespace, Commands: writes},
		{Verb: "list", Resource: "pods", Namespace: namespace, Commands: reads},
		{Verb: "list", Resource: "persistentvolumeclaims", Namespace: namespace, Commands: reads},
		{Verb: "list", Group: "apps", Resource: "controllerrevisions", Namespace: namespace, Commands: reads},
		{Verb: "list", Group: "batch", Resource: "jobs", Namespace: namespace, Commands: reads},
		{Verb: "list", Resource: "persistentvolumes", Commands: reads + ", release"},
		{Verb: "list", Group: "storage.k8s.io", Resource: "storageclasses", Commands: "plan"},
		{Verb: "get", Resource: "configmaps", Namespace: api.HomeNamespace, Commands: "plan with your settings"},
		{Verb: "get", Resource: "nodes", Subresource: "proxy", Commands: "fit, plan with the usage of volumes"},
	}
	if knative {
		all = append(all,
			Right{Verb: "get", Group: "eventing.knative.dev", Resource: "brokers", Namespace: api.HomeNamespace, Commands: "emit, redeliver"},
			Right{Verb: "create", Resource: "services", Subresource: "proxy", Namespace: "knative-eventing", Commands: "emit, redeliver"})
	}
	return all
}

// rights lists the rights that the user lacks. They limit the user, not Drydock.
func rights(f Facts) []Finding {
	const subject = "your rights"
	if !f.Rights.Known() {
		return []Finding{f.Rights.unknown(subject)}
	}
	var lacking []string
	for _, r := range f.Rights.Value {
		lacking = append(lacking, r.String()+" ("+r.Commands+")")
	}
	if len(lacking) > 0 {
		return []Finding{{subject, Note, "you may not " + strings.Join(lacking, "; "), "ask an administrator for the rights that you need"}}
	}
	return []Finding{{subject, OK, "you may watch, plan and request operations", ""}}
}
