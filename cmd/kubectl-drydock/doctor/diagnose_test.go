package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/cmd/kubectl-drydock/install"
	"drydock.dev/shared/owners"
	"drydock.dev/test/golden"
)

var now = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

func known[T any](value T) Answer[T] { return Answer[T]{Value: value} }

func denied[T any](verb, group, resource string) Answer[T] {
	return Answer[T]{Denied: &Right{Verb: verb, Group: group, Resource: resource, Namespace: "drydock"}}
}

// ready returns Knative objects that are ready.
func ready(names ...string) Answer[[]Part] {
	var parts []Part
	for _, name := range names {
		parts = append(parts, Part{Name: name, Ready: true})
	}
	return known(parts)
}

// expected are the parts of an installation.
var expected = func() install.Parts {
	parts, err := install.Expected()
	if err != nil {
		panic(err) // the test of install shows it
	}
	return parts
}()

func essentialPolicies() []string {
	return slices.DeleteFunc(slices.Clone(expected.Policies), func(name string) bool { return slices.Contains(OptionalPolicies, name) })
}

// TestOptionalPoliciesExist: the list names no policy that was renamed.
func TestOptionalPoliciesExist(t *testing.T) {
	if len(essentialPolicies())+len(OptionalPolicies) != len(expected.Policies) {
		t.Errorf("the manifests have %v, and not each of %v", expected.Policies, OptionalPolicies)
	}
}

// inForce returns a binding that denies for each policy.
func inForce(policies []string) Answer[[]Binding] {
	var bindings []Binding
	for _, policy := range policies {
		bindings = append(bindings, Binding{Policy: policy, Denies: true})
	}
	return known(bindings)
}

// healthy returns the facts of a standalone installation without problems.
func healthy() Facts {
	policies := slices.Concat(expected.Policies, expected.Warnings)
	return Facts{Now: now, Namespace: "shop", Expected: expected,
		Server: Server{Version: "v1.36.0", Mutating: known("v1"), AttributesClasses: known(true), Scalers: known(true)},
		Installed: Installed{Deployment: known(&Deployment{Replicas: 2, Ready: 2}), Leases: known([]Lease{{Namespace: "drydock",
			Holder: "drydock-standalone-1_uid", Acquired: now.Add(-time.Hour), Renewed: now.Add(-2 * time.Second)}})},
		Tick: Tick{Logs: known([]Log{{Pod: "drydock-standalone-1", Since: now.Add(-time.Hour), Heard: true}})},
		Policies: Policies{Apply: known(true), Validating: known(policies),
			Bindings: inForce(policies)},
		Accounts: Accounts{Accounts: known(expected.Accounts), ClusterRoles: known(expected.ClusterRoles),
			Bindings: known(slices.Concat(expected.Bindings, expected.FunctionBindings))},
		Settings: known(map[string]string{"DRYDOCK_IMAGE": "example.com/drydock@sha256:1"}),
		Classes:  known([]Class{{Name: "fast", Expandable: true}, {Name: "standard", Default: true, Expandable: true}}),
		Images:   Images{Allowed: known([]string{"example.com/drydock@sha256:1"})},
	}
}

// knativeFacts returns the facts of an installation on Knative without problems.
func knativeFacts() Facts {
	f := healthy()
	f.Installed = Installed{Services: ready(expected.Functions...), Triggers: ready(expected.Triggers...), Brokers: ready("default"),
		APISources: ready("drydock"), PingSources: ready("tick")}
	f.Tick.Logs = known([]Log{{Pod: "sift-00001-deployment-1", Since: now.Add(-30 * time.Second), Heard: true}})
	return f
}

// unreadable returns the facts of a user who may read nothing.
func unreadable() Facts {
	return Facts{Now: now, Namespace: "shop", Expected: expected,
		Server: Server{Version: "v1.36.0", Mutating: known("v1"), AttributesClasses: known(true), Scalers: known(true)},
		Installed: Installed{Deployment: denied[*Deployment]("get", "apps", "deployments"),
			Leases:      denied[[]Lease]("get", "coordination.k8s.io", "leases"),
			Services:    denied[[]Part]("list", "serving.knative.dev", "services"),
			Triggers:    denied[[]Part]("list", "eventing.knative.dev", "triggers"),
			Brokers:     denied[[]Part]("list", "eventing.knative.dev", "brokers"),
			APISources:  denied[[]Part]("list", "sources.knative.dev", "apiserversources"),
			PingSources: denied[[]Part]("list", "sources.knative.dev", "pingsources")},
		Policies: Policies{Apply: Answer[bool]{Denied: &Right{Verb: "get", Group: "admissionregistration.k8s.io",
			Resource: "mutatingadmissionpolicies"}}, Validating: Answer[[]string]{Denied: &Right{Verb: "list",
			Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}}},
		Accounts: Accounts{Accounts: denied[[]string]("list", "", "serviceaccounts"),
			ClusterRoles: Answer[[]string]{Failed: "the server was unable to return a response in the time allotted"},
			Bindings:     Answer[[]string]{Denied: &Right{Verb: "list", Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}}},
		Settings: denied[map[string]string]("get", "", "configmaps"),
		Rights:   known(UserRights("shop", false)),
		Classes:  Answer[[]Class]{Denied: &Right{Verb: "list", Group: "storage.k8s.io", Resource: "storageclasses"}},
		Images: Images{Waiting: denied[[]Waiting]("list", "", "pods"),
			Allowed: denied[[]string]("get", "rbac.authorization.k8s.io", "roles")},
		Owners: Answer[[]Owner]{Denied: &Right{Verb: "create", Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}},
	}
}

// render returns a line for each finding. With subjects, it returns only their findings.
func render(findings []Finding, subjects ...string) string {
	var b strings.Builder
	for _, f := range findings {
		if len(subjects) > 0 && !slices.Contains(subjects, f.Subject) {
			continue
		}
		fmt.Fprintf(&b, "%s: %s: %s\n", f.Subject, f.Level, f.State)
		if f.Remedy != "" {
			fmt.Fprintf(&b, "    -> %s\n", f.Remedy)
		}
	}
	return b.String()
}

func TestDiagnoseShowsEveryCheck(t *testing.T) {
	file := golden.Open(t)
	file.Entry(t, "a healthy installation, standalone", render(Diagnose(healthy())))
	file.Entry(t, "a healthy installation, on Knative", render(Diagnose(knativeFacts())))
	file.Entry(t, "the user may read nothing", render(Diagnose(unreadable())))
	nothing := Facts{Now: now, Namespace: "shop", Expected: expected, Server: Server{Version: "v1.36.0"}}
	file.Entry(t, "nothing is installed", render(Diagnose(nothing)))
}

// TestOnlyProblemsFail: a user without rights sees no problem, because nothing is known.
func TestOnlyProblemsFail(t *testing.T) {
	for situation, row := range map[string]struct {
		facts    Facts
		problems bool
	}{
		"standalone":                {healthy(), false},
		"Knative":                   {knativeFacts(), false},
		"the user may read nothing": {unreadable(), false},
		"nothing is installed":      {Facts{Now: now, Expected: expected, Server: Server{Version: "v1.36.0"}}, true},
	} {
		if problems := Problems(Diagnose(row.facts)); (len(problems) > 0) != row.problems {
			t.Errorf("%s: problems %v", situation, problems)
		}
	}
}

func TestDiagnoseNamesTheProblemAndTheRemedy(t *testing.T) {
	file := golden.Open(t)
	for _, row := range []struct {
		situation string
		facts     Facts
		change    func(*Facts)
		subjects  string // separated by commas
	}{
		{"Kubernetes is too old", healthy(), func(f *Facts) { f.Server.Version = "v1.29.4" }, "server"},
		{"the version cannot be parsed", healthy(), func(f *Facts) { f.Server.Version = "unknown" }, "server"},
		{"the API server lacks kinds", healthy(), func(f *Facts) {
			f.Server.Scalers, f.Server.AttributesClasses = known(false), known(false)
		}, "scalers,attributes classes"},
		{"the API server offers no MutatingAdmissionPolicy", healthy(), func(f *Facts) { f.Server.Mutating = known("") }, "edited manifests"},
		{"config/apply is not installed", healthy(), func(f *Facts) { f.Policies.Apply = known(false) }, "edited manifests"},
		{"the same with v1beta1", healthy(), func(f *Facts) {
			f.Server.Mutating, f.Policies.Apply = known("v1beta1"), known(false)
		}, "edited manifests"},

		{"both installations exist", healthy(), func(f *Facts) { f.Installed.Services = ready(expected.Functions...) }, "installation"},
		{"Knative, and a process outside the cluster", knativeFacts(), func(f *Facts) {
			f.Installed.Leases = known([]Lease{{Namespace: "default", Holder: "laptop_x_1_y", Renewed: now}})
		}, "installation"},
		{"only a process outside the cluster", healthy(), func(f *Facts) {
			f.Installed = Installed{Leases: known([]Lease{{Namespace: "default", Holder: "laptop_x_1_y", Renewed: now}})}
		}, "installation,tick"},
		{"two processes outside the cluster", healthy(), func(f *Facts) {
			f.Installed = Installed{Leases: known([]Lease{{Namespace: "a", Holder: "x", Renewed: now}, {Namespace: "b", Holder: "y", Renewed: now},
				{Namespace: "c", Holder: "", Renewed: now}, {Namespace: "d", Holder: "z", Renewed: now.Add(-time.Hour)}})}
		}, "installation"},
		{"no replica is ready", healthy(), func(f *Facts) { f.Installed.Deployment.Value.Ready = 0 }, "standalone"},
		{"one replica is not ready", healthy(), func(f *Facts) { f.Installed.Deployment.Value.Ready = 1 }, "standalone"},
		{"no replica renews the Lease", healthy(), func(f *Facts) {
			f.Installed.Leases.Value[0].Renewed, f.Tick.Logs = now.Add(-5*time.Minute), known([]Log{})
		}, "standalone,tick"},
		{"the holder's name has control characters", healthy(), func(f *Facts) {
			f.Installed.Leases.Value[0].Holder = "pod\x1b[2J\n\u202e_uid"
		}, "standalone"},
		{"functions are missing, and Triggers are not ready", knativeFacts(), func(f *Facts) {
			f.Installed.Services.Value = f.Installed.Services.Value[3:]
			f.Installed.Triggers.Value[0] = Part{Name: "backup", Message: "BrokerDoesNotExist broker \"default\" does not exist"}
		}, "functions,triggers"},
		{"broker, source and tick source are missing", knativeFacts(), func(f *Facts) {
			f.Installed.Brokers, f.Installed.APISources, f.Installed.PingSources = known([]Part{}), known([]Part{}), known([]Part{})
		}, "installation,broker,source,tick source"},

		{"the log has no tick", healthy(), func(f *Facts) { f.Tick.Logs.Value[0].Heard = false }, "tick"},
		{"the log has no tick, on Knative", knativeFacts(), func(f *Facts) {
			f.Tick.Logs.Value[0].Heard, f.Tick.Logs.Value[0].Since = false, now.Add(-time.Hour)
		}, "tick"},
		{"the replica works only since a moment", healthy(), func(f *Facts) {
			f.Tick.Logs.Value[0].Heard, f.Tick.Logs.Value[0].Since = false, now.Add(-20*time.Second)
		}, "tick"},
		{"the sweep failed", healthy(), func(f *Facts) { f.Tick.Logs.Value[0].Error = "sweeping: statefulsets.apps is forbidden" }, "tick"},
		{"the log shows only warnings", healthy(), func(f *Facts) {
			f.Tick.Logs.Value[0].Heard, f.Settings.Value["LOG_LEVEL"] = false, "WARN"
		}, "tick"},
		{"the user may not read logs", healthy(), func(f *Facts) {
			f.Tick.Logs = Answer[[]Log]{Denied: &Right{Verb: "get", Resource: "pods", Subresource: "log", Namespace: "drydock"}}
		}, "tick"},
		{"sift has just ended", knativeFacts(), func(f *Facts) {
			f.Tick = Tick{SiftChanged: known(now.Add(-40 * time.Second))}
		}, "tick"},
		{"sift has ended long ago", knativeFacts(), func(f *Facts) {
			f.Tick = Tick{SiftChanged: known(now.Add(-40 * time.Minute))}
		}, "tick"},
		{"sift was never started", knativeFacts(), func(f *Facts) { f.Tick = Tick{} }, "tick"},

		{"a policy that protects data is missing", healthy(), func(f *Facts) {
			f.Policies.Validating.Value = missing(f.Policies.Validating.Value, []string{"drydock-records", "drydock-fence-pods"})
		}, "policies"},
		{"a policy has no binding, and another only warns", healthy(), func(f *Facts) {
			f.Policies.Bindings.Value[1].Denies = false
			f.Policies.Bindings.Value = f.Policies.Bindings.Value[1:]
		}, "policies"},
		{"policies of another version are installed", healthy(), func(f *Facts) {
			f.Policies.Different = known([]string{"drydock-records"})
		}, "policies"},
		{"optional policies are missing", healthy(), func(f *Facts) { f.Policies.Validating = known(essentialPolicies()) }, "policies"},
		{"accounts and roles are missing", healthy(), func(f *Facts) {
			f.Accounts.Accounts, f.Accounts.ClusterRoles = known(expected.Accounts[1:]), known([]string{})
		}, "accounts,roles"},
		{"bindings of accounts are missing", healthy(), func(f *Facts) { f.Accounts.Bindings = known(expected.FunctionBindings) }, "bindings"},
		{"the functions are bound in the namespace", healthy(), func(f *Facts) {
			f.Accounts.Bindings, f.Accounts.NamespaceBindings = known(expected.Bindings), known(expected.FunctionBindings)
		}, "bindings"},
		{"the functions are bound in another namespace", healthy(), func(f *Facts) { f.Accounts.Bindings = known(expected.Bindings) },
			"bindings"},
		{"the same, for every namespace", healthy(), func(f *Facts) {
			f.Namespace, f.Accounts.Bindings = "", known(expected.Bindings)
		}, "bindings"},
		{"the binding for progress was removed", healthy(), func(f *Facts) {
			f.Accounts.Bindings.Value = missing(f.Accounts.Bindings.Value, []string{"drydock-progress"})
		}, "bindings"},
		{"the user lacks rights", healthy(), func(f *Facts) {
			all := UserRights("shop", true)
			f.Rights = known([]Right{all[3], all[8], all[len(all)-1]})
		}, "your rights"},

		{"no StorageClass", healthy(), func(f *Facts) { f.Classes = known([]Class{}) }, "classes"},
		{"no default class, and one that cannot grow", healthy(), func(f *Facts) {
			f.Classes = known([]Class{{Name: "fast", Expandable: true}, {Name: "nfs"}})
		}, "classes"},
		{"two default classes", healthy(), func(f *Facts) { f.Classes.Value[0].Default = true }, "classes"},
		{"no image of movers is allowed", healthy(), func(f *Facts) { f.Images.Allowed = known([]string{"unset"}) }, "mover image"},
		{"DRYDOCK_IMAGE is not set", healthy(), func(f *Facts) { f.Settings.Value["DRYDOCK_IMAGE"] = "" }, "mover image"},
		{"another image is allowed", healthy(), func(f *Facts) { f.Images.Allowed = known([]string{"example.com/old"}) }, "mover image"},
		{"no settings, as for a process outside the cluster", healthy(), func(f *Facts) { f.Settings.Value = nil }, "mover image"},
		{"pods wait for their image", healthy(), func(f *Facts) {
			f.Images.Waiting = known([]Waiting{{"drydock", "drydock-standalone-1", "registry.invalid/drydock-standalone:unset",
				"ImagePullBackOff"}, {"shop", "drydock-1-x", "example.com/drydock@sha256:1", "ErrImagePull"}})
		}, "images"},

		{"pause-owner lacks rights", healthy(), func(f *Facts) { f.Owners = known(ownersOfSets("get", "patch")) }, "owners"},
		{"pause-owner has its rights", healthy(), func(f *Facts) {
			f.Owners = known(slices.DeleteFunc(ownersOfSets(), func(o Owner) bool { return o.Operator == "" }))
		}, "owners"},
		{"the settings may have a row for the kind", healthy(), func(f *Facts) {
			f.Owners, f.Settings = known(ownersOfSets()), denied[map[string]string]("get", "", "configmaps")
		}, "owners"},
		{"the namespaces allow no pauses", healthy(), func(f *Facts) {
			f.Owners = known(ownersOfSets())
			for i := range f.Owners.Value {
				f.Owners.Value[i].Forbids = true
			}
		}, "owners"},
		{"a namespace allows pauses, and a set asks for more", healthy(), func(f *Facts) {
			f.Owners = known(ownersOfSets())
			for i := range f.Owners.Value {
				f.Owners.Value[i].ForbidsUpdates = f.Owners.Value[i].Updates
			}
		}, "owners"},
		{"an operator removes the label", healthy(), func(f *Facts) {
			f.Unlabelled = []Unlabelled{{"shop/mq-server", "kubectl label -n shop rabbitmqclusters.rabbitmq.com mq drydock.dev/managed=true"}}
		}, "owners"},
		{"the rows have a mistake", healthy(), func(f *Facts) { f.OwnersMistake = "row 1: group: is missing" }, "owners"},
	} {
		row.change(&row.facts)
		file.Entry(t, row.situation, render(Diagnose(row.facts), strings.Split(row.subjects, ",")...))
	}
}

// ownersOfSets returns the owners of some sets. pause-owner lacks the verbs for all of them.
func ownersOfSets(lacking ...string) []Owner {
	set := func(namespace, apiVersion, kind, policy string) appsv1.StatefulSet {
		yes := true
		return appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Annotations: map[string]string{
			"drydock.dev/owner-policy": policy}, OwnerReferences: []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "main",
			Controller: &yes}}}}
	}
	all := OwnersOf([]appsv1.StatefulSet{
		set("shop", "rabbitmq.com/v1beta1", "RabbitmqCluster", ""),
		set("shop", "rabbitmq.com/v1beta1", "RabbitmqCluster", "update"),
		set("search", "upstream.pgv2.percona.com/v1beta1", "PostgresCluster", ""),
		set("shop", "acme.example.com/v1", "Anvil", ""),
		set("shop", "other.example.com/v1", "Ignored", "ignore"),
		set("shop", "a/b/c", "Invalid", ""),
		{},
	}, owners.BuiltIn())
	for i := range all {
		for _, verb := range all[i].Verbs {
			if slices.Contains(lacking, verb) {
				all[i].Lacking = append(all[i].Lacking, verb)
			}
		}
	}
	return all
}

func TestOwnersAreGroupedByNamespaceAndKind(t *testing.T) {
	var got []string
	for _, o := range ownersOfSets() {
		got = append(got, fmt.Sprintf("%s %s %d %s %v", o.Namespace, o.Kind, o.Sets, o.Operator, o.Rights()))
	}
	want := []string{
		"search PostgresCluster 1 percona-pg [get postgresclusters.upstream.pgv2.percona.com in namespace search]",
		"shop Anvil 1  []",
		"shop RabbitmqCluster 2 rabbitmq [get rabbitmqclusters.rabbitmq.com in namespace shop " +
			"patch rabbitmqclusters.rabbitmq.com in namespace shop]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

// TestTickIsFoundInTheLog: the log has a line for each handled event.
func TestTickIsFoundInTheLog(t *testing.T) {
	const (
		heard = `{"time":"2026-11-25T12:00:00Z","level":"INFO","msg":"event","function":"sift","outcome":"done","code":200,` +
			`"id":"1","type":"dev.knative.sources.ping"}` + "\n"
		failed = `{"level":"WARN","msg":"event","function":"sift","code":503,"type":"dev.knative.sources.ping","error":"sweeping: no"}` + "\n"
	)
	for situation, row := range map[string]struct {
		lines string
		want  Log
	}{
		"a tick":                           {"engine runs\n" + heard, Log{Pod: "p", Since: now, Heard: true}},
		"a failed tick":                    {heard + failed, Log{Pod: "p", Since: now, Heard: true, Error: "sweeping: no"}},
		"a failed tick, then a good one":   {failed + heard, Log{Pod: "p", Since: now, Heard: true}},
		"an event of another type":         {strings.ReplaceAll(heard, "sources.ping", "apiserver.resource.update"), Log{Pod: "p", Since: now}},
		"an event of another function":     {strings.ReplaceAll(heard, `"sift"`, `"backup"`), Log{Pod: "p", Since: now}},
		"another message":                  {strings.ReplaceAll(heard, `"event"`, `"tick lost"`), Log{Pod: "p", Since: now}},
		"no JSON":                          {"dev.knative.sources.ping", Log{Pod: "p", Since: now}},
		"an empty log":                     {"", Log{Pod: "p", Since: now}},
		"a line that was cut at its start": {heard[30:], Log{Pod: "p", Since: now}},
	} {
		if got := LogOf("p", now, row.lines); got != row.want {
			t.Errorf("%s: %+v", situation, got)
		}
	}
}
