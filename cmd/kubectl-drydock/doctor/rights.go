package doctor

import (
	"strings"

	"drydock.dev/shared/api"
)

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
