package cleanup

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

func startingAt(n int32) build.Option {
	return build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: n} })
}

func claims(names ...string) []*corev1.PersistentVolumeClaim {
	var all []*corev1.PersistentVolumeClaim
	for _, name := range names {
		all = append(all, build.Claim(name, "64Mi"))
	}
	return all
}

func inNamespace(namespace string) build.Option {
	return func(o metav1.Object) { o.SetNamespace(namespace) }
}

// summary returns one word for each ordinal: its number, ! if it is wanted, its claims, @ and its pod.
func summary(ordinals []Ordinal) string {
	var words []string
	for _, o := range ordinals {
		word := fmt.Sprint(o.Number)
		if o.Wanted {
			word += "!"
		}
		var names []string
		for _, c := range o.Claims {
			names = append(names, c.Name)
		}
		word += "(" + strings.Join(names, ",") + ")"
		if o.Pod != nil {
			word += "@" + o.Pod.Name
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestOrdinals(t *testing.T) {
	two := build.Template("logs", "1Mi", "fixed")
	for name, row := range map[string]struct {
		set    *appsv1.StatefulSet
		claims []*corev1.PersistentVolumeClaim
		pods   []*corev1.Pod
		want   string
	}{
		"no objects": {set: web(), want: ""},
		"from the highest down, in any order": {set: web(), claims: claims("data-web-1", "data-web-10", "data-web-2", "data-web-0"),
			want: "10(data-web-10) 2(data-web-2) 1!(data-web-1) 0!(data-web-0)"},
		"claims in the order of their names": {set: web(two), claims: claims("logs-web-2", "data-web-2", "logs-web-3"),
			want: "3(logs-web-3) 2(data-web-2,logs-web-2)"},
		"pods of members, and other pods with such names": {set: web(), claims: claims("data-web-2"),
			pods: []*corev1.Pod{build.PodOf("web", 0), build.Pod("web-2", nil), build.Pod("web-5", nil)},
			want: "5()@web-5 2(data-web-2)@web-2 0!()@web-0"},
		"pods with similar names": {set: web(), pods: []*corev1.Pod{
			build.Pod("web-00", nil), build.Pod("web-0-x", nil), build.Pod("web-", nil), build.Pod("web", nil),
			build.Pod("web-+1", nil), build.Pod("web--1", nil), build.Pod("my-web-1", nil), build.Pod("web-1e2", nil)}, want: ""},
		"names that are not canonical": {set: web(), claims: claims("data-web-007", "data-web-+1", "data-web--1", "data-web- 1",
			"data-web-0x1", "data-web-", "data-web-1 ", "data-web-٣", "data-web-99999999999999999999"), want: ""},
		"a large ordinal": {set: web(), claims: claims("data-web-2147483648"), want: "2147483648(data-web-2147483648)"},
		"template a of set test has no claim ab-test-0": {
			set: build.Set("test", build.Template("a", "1Mi", "fixed")), claims: claims("ab-test-0", "a-b-test-0", "b-a-test-0"), want: ""},
		"template a of set b-test": {
			set: build.Set("b-test", build.Template("a", "1Mi", "fixed")), claims: claims("ab-test-0", "a-b-test-7"), want: "7(a-b-test-7)"},
		"another set, template or namespace": {set: web(), claims: []*corev1.PersistentVolumeClaim{
			build.Claim("data-web-x-0", "1Mi"), build.Claim("logs-web-0", "1Mi"),
			build.Claim("data-web-3", "1Mi", inNamespace("payroll"))},
			pods: []*corev1.Pod{build.Pod("web-3", nil, inNamespace("payroll"))}, want: ""},
		"from the start up": {set: web(startingAt(5)), claims: claims("data-web-4", "data-web-5", "data-web-6", "data-web-7"),
			pods: []*corev1.Pod{build.PodOf("web", 4), build.PodOf("web", 6)},
			want: "7(data-web-7) 6!(data-web-6)@web-6 5!(data-web-5)"},
		"a deleted set wants none": {set: web(build.Deleting()), claims: claims("data-web-0", "data-web-1"),
			want: "1(data-web-1) 0(data-web-0)"},
		"a set at zero wants none": {set: web(build.Replicas(0)), claims: claims("data-web-0"), want: "0(data-web-0)"},
		"replicas default to 1": {set: web(build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Replicas = nil })),
			claims: claims("data-web-0", "data-web-1"),
			want:   "1(data-web-1) 0!(data-web-0)"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := summary(Ordinals(row.set, row.claims, row.pods)); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		})
	}
}

func TestClaimsBeingDeletedAreMissing(t *testing.T) {
	set := web(build.Template("logs", "1Mi", "fixed"))
	deleted := func(name string) *corev1.PersistentVolumeClaim { return build.Claim(name, "1Mi", build.Deleting()) }
	for name, row := range map[string]struct {
		claims        []*corev1.PersistentVolumeClaim
		kept, missing string
	}{
		"all claims exist":          {claims("data-web-2", "logs-web-2"), "data-web-2 logs-web-2", ""},
		"the first does not exist":  {claims("logs-web-2"), "logs-web-2", "data-web-2"},
		"the second does not exist": {claims("data-web-2"), "data-web-2", "logs-web-2"},
		"one is being deleted":      {append(claims("data-web-2"), deleted("logs-web-2")), "data-web-2", "logs-web-2"},
		"both are being deleted":    {[]*corev1.PersistentVolumeClaim{deleted("data-web-2"), deleted("logs-web-2")}, "", "data-web-2"},
		"none exists":               {nil, "", "data-web-2"},
	} {
		o := Ordinal{Number: 2, Claims: row.claims}
		var kept []string
		for _, c := range o.Kept() {
			kept = append(kept, c.Name)
		}
		if got := strings.Join(kept, " "); got != row.kept || o.Missing(set) != row.missing || len(o.Claims) != len(row.claims) {
			t.Errorf("%s: kept %s, missing %s", name, got, o.Missing(set))
		}
	}
}

// managed adds an entry to managedFields.
func managed(manager, fields string) build.Option {
	return func(o metav1.Object) {
		entry := metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate}
		if fields != "" {
			entry.FieldsV1 = &metav1.FieldsV1{Raw: []byte(fields)}
		}
		o.SetManagedFields(append(o.GetManagedFields(), entry))
	}
}

const (
	created = `{"f:metadata":{"f:labels":{}},"f:spec":{"f:accessModes":{},"f:resources":{"f:requests":{}}}}`
	bound   = `{"f:metadata":{"f:annotations":{}},"f:spec":{"f:volumeName":{}}}`
)

// TestKnownClaimBelongedToAMember: the claim of a live member, of another set or of an unknown creator must not count as left by a
// scale-down. The builders create claim and set a minute ago.
// Invariants: I3, I9.
func TestKnownClaimBelongedToAMember(t *testing.T) {
	set := web()
	byController, later := managed("kube-controller-manager", created), build.Age(59*time.Second)
	mark := build.Annotation(api.ReplicaOfAnnotation, "uid-web")
	otherMark := build.Annotation(api.ReplicaOfAnnotation, "uid-2")
	lost := build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost })
	for name, row := range map[string]struct {
		options []build.Option
		want    bool
	}{
		"no mark and no creator":                          {nil, false},
		"a pod of this set was seen":                      {[]build.Option{mark}, true},
		"a pod of another set with the name was seen":     {[]build.Option{otherMark}, false},
		"a pod of another set, created by the controller": {[]build.Option{otherMark, byController, later}, false},
		"an empty mark": {
			[]build.Option{build.Annotation(api.ReplicaOfAnnotation, ""), byController, later}, false,
		},
		"a pod was seen, but the claim is not bound": {[]build.Option{mark, build.BoundTo("")}, false},
		"a pod was seen, but the volume is lost":     {[]build.Option{mark, lost}, false},
		"created by the controller, after the set":   {[]build.Option{byController, later}, true},
		"created by the controller, before the set":  {[]build.Option{byController, build.Age(61 * time.Second)}, false},
		"created in the second of the set":           {[]build.Option{byController}, true},
		"created by a user, bound by a controller": {[]build.Option{managed("kubectl-create", created),
			managed("kube-controller-manager", bound), later}, false},
		"only bound by a controller": {[]build.Option{managed("kube-controller-manager", bound), later}, false},
		"created by another program": {[]build.Option{managed("velero", created), later}, false},
		"unreadable managed fields": {[]build.Option{managed("kube-controller-manager", "{"),
			managed("kube-controller-manager", ""), later}, false},
		"fields of other types": {[]build.Option{managed("kube-controller-manager", `{"f:spec":"f:resources"}`), later}, false},
		"resources that are null": {
			[]build.Option{managed("kube-controller-manager", `{"f:spec":{"f:resources":null}}`), later}, false,
		},
		"an empty entry before the controller's": {[]build.Option{managed("kubectl", ""), byController, later}, true},
		"labels of another set":                  {[]build.Option{byController, later, build.Label("app", "other")}, false},
		"controlled by another set":              {[]build.Option{byController, later, build.ControlledBy("StatefulSet", "other")}, false},
		"controlled by this set":                 {[]build.Option{byController, later, build.ControlledBy("StatefulSet", "web")}, true},
		"created by the controller, not bound":   {[]build.Option{byController, later, build.BoundTo("")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			claim := build.Claim("data-web-2", "64Mi", row.options...)
			if got := UsedByReplica(claim, set); got != row.want {
				t.Errorf("known: %t", got)
			}
			unknown := Ordinal{Claims: []*corev1.PersistentVolumeClaim{claim}}.Unknown(set)
			if (unknown == "") != row.want {
				t.Errorf("unknown: %q", unknown)
			}
		})
	}
}

func TestDeletedClaimsAreNotUnknown(t *testing.T) {
	mark := build.Annotation(api.ReplicaOfAnnotation, "uid-web")
	known, other := build.Claim("data-web-2", "1Mi", mark), build.Claim("logs-web-2", "1Mi")
	deleted := build.Claim("logs-web-2", "1Mi", build.Deleting())
	for want, of := range map[string][]*corev1.PersistentVolumeClaim{"": {known, deleted}, "logs-web-2": {known, other}} {
		if got := (Ordinal{Claims: of}).Unknown(web()); got != want {
			t.Errorf("unknown: %q, want %q", got, want)
		}
	}
}

// TestSeenClaimIsUsedByAMember and not marked yet.
// Invariants: I3.
func TestSeenClaimIsUsedByAMember(t *testing.T) {
	mark := build.Annotation(api.ReplicaOfAnnotation, "uid-web")
	claim := func(options ...build.Option) *corev1.PersistentVolumeClaim {
		return build.Claim("data-web-1", "1Mi", options...)
	}
	member := build.PodOf("web", 1, "data")
	orphan := build.Pod("web-1", []string{"data-web-1"}, build.Label("app", "web"))
	for name, row := range map[string]struct {
		claim *corev1.PersistentVolumeClaim
		pod   *corev1.Pod
		want  bool
	}{
		"a member uses it":               {claim(), member, true},
		"it is marked already":           {claim(mark), member, false},
		"it has the mark of another set": {claim(build.Annotation(api.ReplicaOfAnnotation, "uid-2")), member, true},
		"it is being deleted":            {claim(build.Deleting()), member, false},
		"it has no pod":                  {claim(), nil, false},
		"the member does not use it":     {claim(), build.PodOf("web", 1), false},
		"an unrelated pod has the name":  {claim(), build.Pod("web-1", []string{"data-web-1"}), false},
		"a pod of another set has the name": {
			claim(), build.Pod("web-1", []string{"data-web-1"}, build.ControlledBy("StatefulSet", "other")), false,
		},
		"a pod without owner that the set selects": {claim(), orphan, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := Ordinal{Number: 1, Claims: []*corev1.PersistentVolumeClaim{row.claim}, Pod: row.pod}
			if got := len(NewlySeen(web(), []Ordinal{o})) == 1; got != row.want {
				t.Errorf("seen: %t", got)
			}
		})
	}
}

func TestAccounted(t *testing.T) {
	pods := func(numbers ...int) []*corev1.Pod {
		var all []*corev1.Pod
		for _, n := range numbers {
			all = append(all, build.PodOf("web", n, "data"))
		}
		return all
	}
	for name, row := range map[string]struct {
		set  *appsv1.StatefulSet
		pods []*corev1.Pod
		want api.Span
	}{
		"no pod":                  {web(), nil, api.Span{}},
		"all pods":                {web(), pods(0, 1), api.Span{End: 2}},
		"more pods than replicas": {web(), pods(0, 1, 2), api.Span{End: 2}},
		"a gap":                   {web(build.Replicas(4)), pods(0, 1, 3), api.Span{End: 2}},
		"no first pod":            {web(), pods(1), api.Span{}},
		"an unrelated pod":        {web(), append(pods(0), build.Pod("web-1", nil)), api.Span{End: 1}},
		"from the start up":       {web(startingAt(5)), pods(5), api.Span{Start: 5, End: 6}},
		"the largest set": {web(build.Replicas(2147483647), startingAt(2147483647)), nil,
			api.Span{Start: 2147483647, End: 2147483647}},
		"at zero":               {web(build.Replicas(0)), pods(0), api.Span{}},
		"a set that is deleted": {web(build.Deleting()), pods(0), api.Span{End: 1}},
	} {
		if got := Accounted(row.set, Ordinals(row.set, nil, row.pods)); got != row.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestLinkOf(t *testing.T) {
	link := api.Link{Operation: build.ID, Role: api.RoleCleaner, Namespace: build.Namespace, Set: api.SetRef{Name: "web", UID: "uid-web"}}
	otherSet := api.Link{Operation: build.ID, Role: api.RoleCleaner, Namespace: build.Namespace, Set: api.SetRef{Name: "other"}}
	for name, row := range map[string]struct {
		options []build.Option
		want    bool
	}{
		"a cleanup pod":             {[]build.Option{build.LinkOf(link)}, true},
		"an unrelated pod":          {nil, false},
		"unreadable link":           {[]build.Option{build.Annotation(api.OperationAnnotation, "{")}, false},
		"another operation's label": {[]build.Option{build.LinkOf(link), build.Label(api.OperationLabel, "other")}, false},
		"no label":                  {[]build.Option{build.LinkOf(link), build.Label(api.OperationLabel, "")}, false},
		"a mover":                   {[]build.Option{build.MemberLink(api.RoleMover, 0)}, false},
		"another set":               {[]build.Option{build.LinkOf(otherSet)}, false},
		"forged: another namespace": {[]build.Option{build.LinkOf(link), inNamespace("payroll")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := LinkOf(build.Pod("web-2", nil, row.options...), "web") != nil; got != row.want {
				t.Errorf("a link: %t", got)
			}
		})
	}
}

// TestTendedClaimsAreThoseOfTheLink: a claim that replaced another one was not cleaned up by the pod.
func TestTendedClaimsAreThoseOfTheLink(t *testing.T) {
	link := &api.Link{Claims: map[string]types.UID{"data-web-2": "uid-data-web-2", "logs-web-2": "uid-logs-web-2", "tmp-web-2": ""}}
	existing := []*corev1.PersistentVolumeClaim{
		build.Claim("logs-web-2", "1Mi", build.Deleting()), build.Claim("data-web-2", "1Mi"), build.Claim("data-web-1", "1Mi"),
		build.Claim("tmp-web-2", "1Mi"),
	}
	var names []string
	for _, c := range ClaimsOfLink(link, existing) {
		names = append(names, c.Name)
	}
	if got := strings.Join(names, " "); got != "data-web-2 logs-web-2" {
		t.Error(got)
	}
	existing[1].UID = "another"
	if got := ClaimsOfLink(link, existing); len(got) != 1 || got[0].Name != "logs-web-2" {
		t.Error(got)
	}
	if got := ClaimsOfLink(&api.Link{}, existing); got != nil {
		t.Error(got)
	}
}
