package forecast

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/world"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

type objects = []metav1.Object

const roomy = "roomy" // the StorageClass that allows volumes to grow

// given returns the facts for a forecast of the request in a cluster with the objects.
func given(request string, groups ...objects) Input {
	return Input{Overrides: Overrides{Request: request}, Input: resize.Input{Settings: build.Settings(),
		Observed: build.World(slices.Concat(groups...)...), Registry: owners.BuiltIn(), Cluster: &world.Cluster{
			Classes: map[string]*storagev1.StorageClass{"fixed": {}, "fast": {}, roomy: {AllowVolumeExpansion: ptr.To(true)}}}}}
}

func set(options ...build.Option) objects {
	return objects{build.Set("web", append([]build.Option{build.Replicas(2), build.Template("data", "64Mi", "fixed")}, options...)...)}
}

// claims returns two claims of the set, with their volumes.
func claims(class string, options ...build.Option) objects {
	var all objects
	for i := range 2 {
		c := build.Claim(fmt.Sprintf("data-web-%d", i), "64Mi", append([]build.Option{build.OfClass(class)}, options...)...)
		all = append(all, c, build.VolumeOf(c))
	}
	return all
}

// pods returns the two pods of the set on node-1. Each was ready ten seconds after its creation.
func pods(options ...build.Option) objects {
	var all objects
	for i := range 2 {
		all = append(all, pod(i, options...))
	}
	return all
}

func pod(ordinal int, options ...build.Option) *corev1.Pod {
	p := build.PodOf("web", ordinal, "data")
	p.Spec.NodeName = "node-1"
	p.CreationTimestamp = metav1.NewTime(build.Now.Add(time.Duration(ordinal-60) * time.Minute))
	p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(p.CreationTimestamp.Add(10 * time.Second))
	return build.With(p, options...)
}

func reasons(problems []resize.Problem) string {
	var all []string
	for _, p := range problems {
		all = append(all, string(p.Reason))
	}
	return strings.Join(all, " ")
}

// TestVerdictAndItsReasons shows what would become of each request, with the messages.
func TestVerdictAndItsReasons(t *testing.T) {
	running, failed := build.Operation(api.Moving), build.Operation(api.Failed, func(s *api.Resize) { s.FailedAt = api.Moving })
	requested := build.Resize("data=128Mi")
	fixed := claims("fixed")
	file := golden.Open(t)
	for _, row := range []struct {
		situation string
		in        Input
		checks    []Check
	}{
		{"the set requests a resize", given("", set(requested), fixed), nil},
		{"only the flag requests a resize", given("data=128Mi", set(), fixed), nil},
		{"the flag and the set request different sizes", given("data=256Mi", set(requested), fixed), nil},
		{"the flag and the set request the same", given("data=128Mi", set(requested), fixed), nil},
		{"nothing is requested", given("", set(), fixed), nil},
		{"nothing is requested, and the set has not opted in", given("", set(build.Label(api.ManagedLabel, "")), fixed), nil},
		{"the set has not opted in", given("data=128Mi", set(build.Label(api.ManagedLabel, "")), fixed), nil},
		{"the claims have the requested size", given("data=64Mi", set(), fixed), nil},
		{"another operation runs", given("data=256Mi", set(build.Status(running)), fixed), nil},
		{"the same request has failed", given("", set(requested, build.Status(failed)), fixed), nil},
		{"another request has failed", given("data=256Mi", set(build.Status(failed)), fixed), nil},
		{"the set sleeps", given("", set(requested, build.WithSleep(build.Sleep(api.Asleep))), fixed), nil},
		{"the record is unreadable", given("", set(requested, build.Annotation(api.StatusAnnotation, "{")), fixed), nil},
		{"the set is being deleted", given("", set(requested, build.Deleting()), fixed), nil},
		{"a claim has no volume yet", given("", set(requested),
			objects{build.Claim("data-web-0", "64Mi", build.OfClass("fixed"), build.BoundTo(""))}), nil},
		{"the StorageClass does not exist", given("data=128Mi@nvme", set(), fixed), nil},
		{"the volumes grow by usage", given("", set(build.GrowTo("data=128Mi", "")), claims(roomy)), nil},
		{"the volumes cannot grow by usage", given("", set(build.GrowTo("data=128Mi", "")), fixed), nil},
		{"the volumes have grown by usage", given("data=48Mi", set(build.GrowTo("data=64Mi", "data=48Mi")), fixed), nil},
		{"the flag requests less than the volumes have grown to", given("data=32Mi", set(build.GrowTo("data=64Mi", "data=48Mi")), fixed), nil},
		{"the request is unreadable", given("data=lots", set(), fixed), nil},
		{"the links of claims are unreadable", given("data=128Mi", set(), claims("fixed", build.Annotation(api.OperationAnnotation, "{}"))), nil},
		{"the owner cannot be paused, and the set does not request it",
			given("data=128Mi", set(build.ControlledBy("Database", "main")), fixed), nil},
		{"the API server denies writes, two of them alike", given("", set(requested), fixed), []Check{
			{Verb: plan.VerbCreate, Resource: plan.Jobs, Name: "job-1", Outcome: Denied, Message: "job-1 is not wanted"},
			{Verb: plan.VerbCreate, Resource: plan.Claims, Name: "job-1", Outcome: Unchecked},
			{Verb: plan.VerbCreate, Resource: plan.Jobs, Name: "job-2", Outcome: Denied, Message: "job-2 is not wanted"},
			{Verb: plan.VerbCreate, Resource: plan.Claims, Name: "job-2", Outcome: Unchecked},
			{Verb: plan.VerbCreate, Resource: plan.Jobs, Name: "c", Outcome: Denied, Message: "c is too large"}}},
	} {
		before := row.in.Set.DeepCopy()
		d := New(row.in).Document(nil, row.checks)
		text := fmt.Sprintf("%s, %d claims\n", d.Verdict, len(d.Claims))
		problems := d.Conditions
		if d.Verdict == Refused {
			problems = d.Refused
		}
		for _, p := range problems {
			text += fmt.Sprintf("- %s: %s\n", p.Reason, p.Message)
		}
		file.Entry(t, row.situation, text)
		if diff := cmp.Diff(before, row.in.Set); diff != "" {
			t.Error("the set was changed", diff)
		}
	}
}

// TestClaimsShowTheirMethodAndTheBytesToCopy covers claims that grow and claims that are copied.
func TestClaimsShowTheirMethodAndTheBytesToCopy(t *testing.T) {
	usage := map[string]Usage{"data-web-0": {Used: 10 << 20, Capacity: 60 << 20}, "data-web-1": {Used: 1 << 20, Capacity: 1 << 40}}
	block := build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) })
	for name, row := range map[string]struct {
		in    Input
		want  string // the first claim
		bytes string
		nodes int
	}{
		"the claims grow": {given("data=128Mi", set(), claims(roomy), pods()), "expand 64Mi>128Mi roomy> by web-0", "0 claims: 0 + 0",
			0},
		"the claims are copied": {given("data=128Mi@fast", set(), claims("fixed"), pods()), "copy 64Mi>128Mi fixed>fast by web-0, 10485760 " +
			"used", "2 claims: 10485760 + 67108864", 1},
		"the set has no pods": {given("data=128Mi", set(), claims("fixed")), "copy 64Mi>128Mi fixed>, 10485760 used",
			"2 claims: 10485760 + 67108864", 0},
		"a raw block volume is copied in full": {given("data=128Mi", set(), claims("fixed", block), pods()), "copy 64Mi>128Mi fixed> by web-0",
			"2 claims: 0 + 134217728", 1},
		"another pod uses a claim too": {given("data=128Mi", set(), claims("fixed"), pods(), objects{build.Pod("debug", []string{"data-web-0"})}),
			"copy 64Mi>128Mi fixed> by web-0 by debug!, 10485760 used", "2 claims: 10485760 + 67108864", 1},
	} {
		t.Run(name, func(t *testing.T) {
			forecast := New(row.in)
			d := forecast.Document(usage, nil)
			c := d.Claims[0]
			got := fmt.Sprintf("%s %s>%s %s>%s", c.Method, &c.From, &c.To, c.Class, c.NewClass)
			for _, u := range c.Users {
				got += " by " + u.Pod + map[bool]string{true: "!"}[u.Foreign]
			}
			if c.Used != nil {
				got += fmt.Sprintf(", %d used", *c.Used)
			}
			if got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
			if got := fmt.Sprintf("%d claims: %d + %d", d.Copy.Claims, d.Copy.Measured, d.Copy.Unmeasured); got != row.bytes {
				t.Errorf("copies %s, want %s", got, row.bytes)
			}
			if nodes := forecast.Nodes(); len(nodes) != row.nodes {
				t.Errorf("asks %v", nodes)
			}
		})
	}
}

// TestShrinkIsComparedWithTheUsage: a volume that is too small for the used bytes is a refusal, one with a small margin is a warning.
func TestShrinkIsComparedWithTheUsage(t *testing.T) {
	in := given("data=32Mi", set(build.Resize("data=32Mi")), claims("fixed"), pods())
	in.Settings.ShrinkMargin = 10
	file := golden.Open(t)
	for _, row := range []struct {
		used    int64
		verdict Verdict
	}{{20 << 20, Proceeds}, {30 << 20, Proceeds}, {33 << 20, Refused}} {
		d := New(in).Document(map[string]Usage{"data-web-0": {Used: row.used, Capacity: 60 << 20}}, nil)
		if d.Verdict != row.verdict {
			t.Errorf("with %d bytes used: %s, want %s", row.used, d.Verdict, row.verdict)
		}
		file.Entry(t, fmt.Sprintf("%dMi are used", row.used>>20), d.rendered())
	}
}

// rendered renders the refusals, warnings and suggestions, a line each.
func (d *Document) rendered() string {
	var lines []string
	for _, p := range d.Refused {
		lines = append(lines, fmt.Sprintf("refused: %s: %s", p.Reason, p.Message))
	}
	for _, w := range d.Warnings {
		lines = append(lines, "warning: "+w)
	}
	for _, w := range d.Suggestions {
		lines = append(lines, "suggestion: "+w)
	}
	if len(lines) == 0 {
		return "no refusal, warning or suggestion"
	}
	return strings.Join(lines, "\n")
}

// owned lets a custom resource control the set.
func owned(version, kind string) build.Option {
	return build.Edit(func(s *appsv1.StatefulSet) {
		s.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: "main", UID: "uid-main", Controller: ptr.To(true)}}
	})
}

func TestOwnerIsPausedWherePauseOwnerKnowsHow(t *testing.T) {
	row := owners.BuiltIn()[slices.IndexFunc(owners.BuiltIn(), func(r owners.Row) bool {
		return r.Supports(owners.ByPause) && !r.Unverified && !r.PausedThroughController
	})]
	known := owned(row.Group+"/v1", row.Kinds[0].Name)
	toTemplate := given("auto", set(known),
		claims(roomy, build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests = requests32Mi() })))
	toTemplate.Set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = nil
	allowing := given("data=128Mi", set(known), claims("fixed"))
	allowing.Cluster.OwnerConsent = api.ConsentToPause
	file := golden.Open(t)
	for _, row := range []struct {
		situation string
		in        Input
		paused    bool
	}{
		{"its kind is in the table", given("data=128Mi", set(known), claims("fixed")), true},
		{"the policy is ignore", given("data=128Mi", set(known, build.Annotation(api.OwnerPolicyAnnotation, "ignore")), claims("fixed")), false},
		{"its kind is unknown", given("data=128Mi", set(owned("example.com/v1", "Database")), claims("fixed")), false},
		{"the claims only grow to the size of the template", toTemplate, false},
		{"its apiVersion is unreadable", given("data=128Mi", set(owned("a/b/c", "Database")), claims("fixed")), false},
		{"its kind is in the table, and the namespace allows the pause", allowing, true},
	} {
		o := New(row.in).Document(nil, nil).Owner
		if o == nil || o.Paused != row.paused || o.Name != "main" {
			t.Errorf("%s: %+v, want paused %v", row.situation, o, row.paused)
			continue
		}
		file.Entry(t, row.situation, fmt.Sprintf("%s %s (%s), paused %v: %s", o.Kind, o.Name, o.APIVersion, o.Paused, o.How))
	}
	if o := New(given("data=128Mi", set(), claims("fixed"))).Document(nil, nil).Owner; o != nil {
		t.Errorf("a set without an owner has owner %+v", o)
	}
}

// TestPlanSaysWhatEndsThePause of an owner that has the size of the claims.
func TestPlanSaysWhatEndsThePause(t *testing.T) {
	controlled := build.Edit(func(s *appsv1.StatefulSet) {
		s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "rabbitmq.com/v1beta1", Kind: "RabbitmqCluster", Name: "mq", UID: "uid-mq",
			Controller: ptr.To(true)}}
	})
	updates := build.Annotation(api.OwnerPolicyAnnotation, string(api.OwnerUpdate))
	for name, row := range map[string]struct {
		consent api.OwnerConsent
		options []build.Option
		want    string
	}{
		"by default": {api.ConsentToUpdate, []build.Option{controlled}, "sts/web --update-owner writes it"},
		"Drydock is to change it": {api.ConsentToUpdate, []build.Option{controlled, updates},
			"Drydock then changes it: spec.persistence.storage is 128Mi"},
		"Drydock is to change it, and the namespace consents only to pauses": {api.ConsentToPause, []build.Option{controlled, updates},
			"kubectl label namespace shop drydock.dev/pause-owners=update --overwrite"},
	} {
		in := given("data=128Mi", set(row.options...), claims("fixed"))
		in.Cluster.OwnerConsent = row.consent
		if o := New(in).Document(nil, nil).Owner; o == nil || !strings.Contains(o.Then, row.want) {
			t.Errorf("%s: %+v does not say %q", name, o, row.want)
		}
	}
}

// TestPlanWarnsOfRollingWhileOperatorIsPaused: members that only their operator makes replicas miss writes after they have moved.
func TestPlanWarnsOfRollingWhileOperatorIsPaused(t *testing.T) {
	controlled := owned("rabbitmq.com/v1beta1", "RabbitmqCluster")
	rolling := build.Annotation(api.StrategyAnnotation, string(api.StrategyRolling))
	ignored := build.Annotation(api.OwnerPolicyAnnotation, string(api.OwnerIgnore))
	for name, row := range map[string]struct {
		options []build.Option
		class   string
		warned  bool
	}{
		"rolling":                            {[]build.Option{controlled, rolling}, "fixed", true},
		"all together":                       {[]build.Option{controlled}, "fixed", false},
		"rolling without an operator":        {[]build.Option{rolling}, "fixed", false},
		"rolling, and the operator works on": {[]build.Option{controlled, rolling, ignored}, "fixed", false},
		"no member stops":                    {[]build.Option{controlled, rolling}, roomy, false},
	} {
		d := New(given("data=128Mi", set(row.options...), claims(row.class))).Document(nil, nil)
		warned := slices.ContainsFunc(d.Warnings, func(w string) bool { return strings.Contains(w, "misses later writes") })
		if warned != row.warned {
			t.Errorf("%s: warned %v, want %v: %q", name, warned, row.warned, d.Warnings)
		}
	}
}

// TestPlanSaysWhereTheLabelLasts: the operator of RabbitMQ removes labels from its StatefulSets.
func TestPlanSaysWhereTheLabelLasts(t *testing.T) {
	const command = "kubectl label -n shop rabbitmqclusters.rabbitmq.com mq drydock.dev/managed=true"
	controlled := build.Edit(func(s *appsv1.StatefulSet) {
		s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "rabbitmq.com/v1beta1", Kind: "RabbitmqCluster", Name: "mq", UID: "uid-mq",
			Controller: ptr.To(true)}}
	})
	custom := func(labels map[string]string) *unstructured.Unstructured {
		object := &unstructured.Unstructured{Object: map[string]any{}}
		object.SetLabels(labels)
		return object
	}
	for name, row := range map[string]struct {
		set                 objects
		controller          *unstructured.Unstructured
		warned, conditional bool
	}{
		"the resource lacks the label":  {set(controlled), custom(nil), true, false},
		"the resource has the label":    {set(controlled), custom(map[string]string{api.ManagedLabel: "true"}), false, false},
		"the resource cannot be read":   {set(controlled), nil, false, false},
		"the set has no label any more": {set(controlled, build.Label(api.ManagedLabel, "")), custom(nil), false, true},
	} {
		in := given("data=128Mi", row.set, claims("fixed"))
		in.Controller = row.controller
		d := New(in).Document(nil, nil)
		named := func(text string) bool { return strings.Contains(text, command) }
		if slices.ContainsFunc(d.Warnings, named) != row.warned ||
			slices.ContainsFunc(d.Conditions, func(p resize.Problem) bool { return named(p.Message) }) != row.conditional {
			t.Errorf("%s: warnings %q, conditions %v", name, d.Warnings, d.Conditions)
		}
	}
}

func requests32Mi() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("32Mi")}
}

// TestWritesAreThoseOfTheFunctions shows the writes that the API server tries, in order.
func TestWritesAreThoseOfTheFunctions(t *testing.T) {
	withoutUser := build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.SecurityContext = nil })
	refused := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Status.Capacity = c.Spec.Resources.Requests
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Ti")}
		c.Status.AllocatedResources = c.Spec.Resources.Requests
		c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
			corev1.ResourceStorage: corev1.PersistentVolumeClaimControllerResizeInfeasible}
	})
	withQuota := func(in Input) Input {
		in.Cluster.Quotas = []corev1.ResourceQuota{{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Status: corev1.ResourceQuotaStatus{
			Hard: corev1.ResourceList{"count/statefulsets.apps": resource.MustParse("1")},
			Used: corev1.ResourceList{"count/statefulsets.apps": resource.MustParse("1")}}}}
		return in
	}
	file := golden.Open(t)
	for _, row := range []struct {
		situation string
		in        Input
	}{
		{"claims grow", given("data=128Mi", set(), claims(roomy))},
		{"claims request less than the storage has refused", given("data=128Mi", set(), claims(roomy, refused))},
		{"claims are copied", given("data=128Mi", set(), claims("fixed"), pods())},
		{"claims are copied, with a hook before each member", given("data=128Mi", set(build.Annotation(api.BeforeMemberAnnotation,
			"spec: {containers: [{name: sh, image: x}]}")), claims("fixed"), pods())},
		{"the template has the requested size already", given("data=64Mi", set(), claims("fixed",
			build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests = requests32Mi() })))},
		{"the set's user is unknown", given("data=128Mi", set(withoutUser), claims("fixed"))},
		{"a quota has no room for a second StatefulSet", withQuota(given("data=128Mi", set(), claims(roomy)))},
		{"there is nothing to do", given("data=64Mi", set(), claims("fixed"))},
		{"the request names an unknown template", given("data=128Mi,db=1Gi", set(), claims("fixed"))},
	} {
		writes, unchecked := New(row.in).Writes()
		text := ""
		for _, w := range writes {
			text += fmt.Sprintf("%s %s\n", w.Verb, w.Resource)
			if set, ok := w.Object.(metav1.Object); ok && w.Resource == plan.StatefulSets &&
				(set.GetUID() != "" || set.GetResourceVersion() != "" || set.GetAnnotations()[api.StatusAnnotation] == "") {
				t.Errorf("the set is created as %v", set)
			}
		}
		for _, c := range unchecked {
			text += fmt.Sprintf("not tried: %s %s: %s: %s\n", c.Verb, c.Resource, c.Outcome, c.Message)
		}
		if text == "" {
			text = "none\n"
		}
		file.Entry(t, row.situation, text)
	}
}
