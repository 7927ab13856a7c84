package forecast

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"drydock.dev/shared/world"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/test/kit/build"
)

type objects = []metav1.Object

const roomy = "roomy" // the class whose volumes can grow

// given is a cluster with a set, and the request of a forecast.
func given(request string, groups ...objects) Input {
	return Input{Ask: Ask{Request: request}, Input: resize.Input{Settings: build.Settings(),
		Observed: build.World(slices.Concat(groups...)...), Registry: owners.BuiltIn(), Cluster: &world.Cluster{
			Classes: map[string]*storagev1.StorageClass{"fixed": {}, "fast": {}, roomy: {AllowVolumeExpansion: ptr.To(true)}}}}}
}

func set(options ...build.Option) objects {
	return objects{build.Set("web", append([]build.Option{build.Replicas(2), build.Template("data", "64Mi", "fixed")}, options...)...)}
}

// claims are two, with their volumes and the pods that use them.
func claims(class string, options ...build.Option) objects {
	var all objects
	for i := range 2 {
		c := build.Claim(fmt.Sprintf("data-web-%d", i), "64Mi", append([]build.Option{build.OfClass(class)}, options...)...)
		all = append(all, c, build.VolumeOf(c))
	}
	return all
}

// pods are the set's, on a node, ready ten seconds after they were made.
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

// TestVerdict: what would become of the request, and what comes before.
func TestVerdict(t *testing.T) {
	running, failed := build.Operation(api.Moving), build.Operation(api.Failed, func(s *api.Resize) { s.FailedAt = api.Moving })
	asks := build.Resize("data=128Mi")
	for name, row := range map[string]struct {
		in     Input
		want   string
		claims int
	}{
		"asked for":                       {given("", set(asks), claims("fixed")), "Goes: ", 2},
		"would be asked for":              {given("data=128Mi", set(), claims("fixed")), "Waits: NotRequested", 2},
		"for something else":              {given("data=256Mi", set(asks), claims("fixed")), "Waits: NotRequested", 2},
		"for the same":                    {given("data=128Mi", set(asks), claims("fixed")), "Goes: ", 2},
		"not asked for":                   {given("", set(), claims("fixed")), "Nothing: ", 0},
		"not asked for, and not opted in": {given("", set(build.Label(api.ManagedLabel, "")), claims("fixed")), "Nothing: ", 0},
		"the set has not opted in": {given("data=128Mi", set(build.Label(api.ManagedLabel, "")), claims("fixed")),
			"Waits: NotManaged NotRequested", 2},
		"nothing to do": {given("data=64Mi", set(), claims("fixed")), "Nothing: ", 0},
		"an operation runs": {given("data=256Mi", set(build.Status(running)), claims("fixed")),
			"Waits: NotRequested InProgress", 0},
		"the same has failed":       {given("", set(asks, build.Status(failed)), claims("fixed")), "Waits: AlreadyRefused", 2},
		"something else has failed": {given("data=256Mi", set(build.Status(failed)), claims("fixed")), "Waits: NotRequested", 2},
		"the set sleeps": {given("", set(asks, build.WithSleep(build.Sleep(api.Asleep))), claims("fixed")),
			"Waits: InProgress", 2},
		"the status is unreadable": {given("", set(asks, build.Annotation(api.StatusAnnotation, "{")), claims("fixed")),
			"Waits: StatusInvalid", 0},
		"the set is being deleted": {given("", set(asks, build.Deleting()), claims("fixed")), "Waits: SetGone", 0},
		"a claim has no volume yet": {given("", set(asks), objects{build.Claim("data-web-0", "64Mi", build.OfClass("fixed"),
			build.On(""))}), "Waits: ClaimNotBound", 1},
		"a class is unknown":        {given("data=128Mi@nvme", set(), claims("fixed")), "Refused: UnknownClass", 2},
		"the request is unreadable": {given("data=lots", set(), claims("fixed")), "Refused: RequestInvalid", 0},
		"a claim's link is unreadable": {given("data=128Mi", set(), claims("fixed", build.Annotation(api.OperationAnnotation, "{}"))),
			"Refused: LinkInvalid LinkInvalid", 2},
		"refused, and not even asked for": {given("data=128Mi", set(build.Owned("Database", "main")), claims("fixed")),
			"Refused: OwnerNotPausable", 2},
		"refused by the API server, and alike": {given("", set(asks), claims("fixed")), "Refused: Rejected Rejected", 2},
	} {
		t.Run(name, func(t *testing.T) {
			before := row.in.Set.DeepCopy()
			look := Look(row.in)
			var checks []Check
			if strings.Contains(name, "API server") {
				for _, n := range []string{"job-1", "job-2"} {
					checks = append(checks, Check{Verb: plan.VerbCreate, Resource: plan.Jobs, Name: n, Outcome: Denied, Message: n + " is not wanted"},
						Check{Verb: plan.VerbCreate, Resource: plan.Claims, Name: n, Outcome: Unchecked})
				}
				checks = append(checks, Check{Verb: plan.VerbCreate, Resource: plan.Jobs, Name: "c", Outcome: Denied, Message: "c is too large"})
			}
			d := look.Document(nil, checks)
			problems := d.Before
			if d.Verdict == Refused {
				problems = d.Refused
			}
			if got := string(d.Verdict) + ": " + reasons(problems); got != row.want || len(d.Claims) != row.claims {
				t.Errorf("got  %s with %d claims\nwant %s with %d", got, len(d.Claims), row.want, row.claims)
			}
			if diff := cmp.Diff(before, row.in.Set); diff != "" {
				t.Error("the set was changed", diff)
			}
			for _, p := range problems {
				if len(p.Message) < 20 {
					t.Errorf("%s says only %q", p.Reason, p.Message)
				}
			}
		})
	}
}

// TestClaims: how each comes by its size, and how much there is to copy.
func TestClaims(t *testing.T) {
	usage := map[string]Usage{"data-web-0": {Used: 10 << 20, Capacity: 60 << 20}, "data-web-1": {Used: 1 << 20, Capacity: 1 << 40}}
	block := build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) })
	for name, row := range map[string]struct {
		in    Input
		want  string // of the first claim
		bytes string
		nodes int
	}{
		"grows": {given("data=128Mi", set(), claims(roomy), pods()), "expand 64Mi>128Mi roomy> by web-0", "0 claims: 0 + 0",
			0},
		"copied": {given("data=128Mi@fast", set(), claims("fixed"), pods()), "copy 64Mi>128Mi fixed>fast by web-0, 10485760 " +
			"used", "2 claims: 10485760 + 67108864", 1},
		"no pod": {given("data=128Mi", set(), claims("fixed")), "copy 64Mi>128Mi fixed>, 10485760 used",
			"2 claims: 10485760 + 67108864", 0},
		"a device is copied whole": {given("data=128Mi", set(), claims("fixed", block), pods()), "copy 64Mi>128Mi fixed> by web-0",
			"2 claims: 0 + 134217728", 1},
		"another pod uses it, too": {given("data=128Mi", set(), claims("fixed"), pods(), objects{build.Pod("debug", []string{"data-web-0"})}),
			"copy 64Mi>128Mi fixed> by web-0 by debug!, 10485760 used", "2 claims: 10485760 + 67108864", 1},
	} {
		t.Run(name, func(t *testing.T) {
			look := Look(row.in)
			d := look.Document(usage, nil)
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
			if nodes := look.Nodes(); len(nodes) != row.nodes {
				t.Errorf("asks %v", nodes)
			}
		})
	}
}

// TestShrinkThatDoesNotFit is found where it is known how much is in use.
func TestShrinkThatDoesNotFit(t *testing.T) {
	in := given("data=32Mi", set(build.Resize("data=32Mi")), claims("fixed"), pods())
	in.Settings.ShrinkMargin = 10
	for used, want := range map[int64]string{20 << 20: "Goes 1", 30 << 20: "Goes 2", 33 << 20: "Refused 1"} { // one is about the templates
		d := Look(in).Document(map[string]Usage{"data-web-0": {Used: used, Capacity: 60 << 20}}, nil)
		if got := fmt.Sprintf("%s %d", d.Verdict, len(d.Warnings)); got != want {
			t.Errorf("with %d used: %s, want %s: %v", used, got, want, d.Refused)
		}
	}
}

func TestOwner(t *testing.T) {
	owned := func(version, kind string) build.Option {
		return build.Edit(func(s *appsv1.StatefulSet) {
			s.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: "main", UID: "uid-main", Controller: ptr.To(true)}}
		})
	}
	row := owners.BuiltIn()[slices.IndexFunc(owners.BuiltIn(), func(r owners.Row) bool { return r.Can(owners.ByPause) && !r.Off && !r.Up })]
	known := owned(row.Group+"/v1", row.Kinds[0].Name)
	for name, row := range map[string]struct {
		in     Input
		paused bool
		how    string
	}{
		"known": {given("data=128Mi", set(known), claims("fixed")), true, "drydock.dev/allow=pause"},
		"ignored": {given("data=128Mi", set(known, build.Annotation(api.OwnerPolicyAnnotation, "ignore")), claims("fixed")), false,
			"owner-policy=ignore"},
		"unknown": {given("data=128Mi", set(owned("example.com/v1", "Database")), claims("fixed")), false,
			"does not know how to pause a Database"},
		"not asked": {given("auto", set(known),
			claims(roomy, build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests = resources32() }))), false, "not asked"},
		"unreadable": {given("data=128Mi", set(owned("a/b/c", "Database")), claims("fixed")), false, "does not know"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "not asked" { // the claims grow to the template, which has no class
				row.in.Set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = nil
			}
			o := Look(row.in).Document(nil, nil).Owner
			if o == nil || o.Paused != row.paused || !strings.Contains(o.How, row.how) || o.Name != "main" {
				t.Errorf("%+v, want %v, %s", o, row.paused, row.how)
			}
		})
	}
	if o := Look(given("data=128Mi", set(), claims("fixed"))).Document(nil, nil).Owner; o != nil {
		t.Errorf("the set has no owner, and not %+v", o)
	}
}

func resources32() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("32Mi")}
}

// TestWrites: the writes that the API server is to try, in order.
func TestWrites(t *testing.T) {
	const copies = "create persistentvolumeclaims, create jobs, create pods"
	rootless := build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.SecurityContext = nil })
	full := func(in Input) Input {
		in.Cluster.Quotas = []corev1.ResourceQuota{{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Status: corev1.ResourceQuotaStatus{
			Hard: corev1.ResourceList{"count/statefulsets.apps": resource.MustParse("1")},
			Used: corev1.ResourceList{"count/statefulsets.apps": resource.MustParse("1")}}}}
		return in
	}
	for name, row := range map[string]struct {
		in        Input
		want      string
		unchecked int
	}{
		"grow": {given("data=128Mi", set(), claims(roomy)), "create controllerrevisions, patch persistentvolumeclaims, patch " +
			"persistentvolumeclaims, create statefulsets", 0},
		"copy": {given("data=128Mi", set(), claims("fixed"), pods()), "create controllerrevisions, " + copies + ", " + copies +
			", create statefulsets", 0},
		"copy, and a Job before each member": {given("data=128Mi", set(build.Annotation(api.BeforeMemberAnnotation,
			"spec: {containers: [{name: sh, image: x}]}")), claims("fixed"), pods()),
			"create controllerrevisions, " + copies + ", " + copies + ", create pods, create statefulsets", 0},
		"the template is so already": {given("data=64Mi", set(), claims("fixed",
			build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests = resources32() }))), "create controllerrevisions, " +
			copies + ", " + copies, 0},
		"the user is not known": {given("data=128Mi", set(rootless), claims("fixed")), "create controllerrevisions, create " +
			"persistentvolumeclaims, create persistentvolumeclaims, create statefulsets", 0},
		"a quota has no room for two": {full(given("data=128Mi", set(), claims(roomy))), "create controllerrevisions, patch " +
			"persistentvolumeclaims, patch persistentvolumeclaims", 1},
		"nothing":   {given("data=64Mi", set(), claims("fixed")), "", 0},
		"a mistake": {given("data=128Mi,db=1Gi", set(), claims("fixed")), "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			writes, unchecked := Look(row.in).Writes()
			var got []string
			for _, w := range writes {
				got = append(got, fmt.Sprintf("%s %s", w.Verb, w.Resource))
				if set, ok := w.Object.(metav1.Object); ok && w.Resource == plan.StatefulSets &&
					(set.GetUID() != "" || set.GetResourceVersion() != "" || set.GetAnnotations()[api.StatusAnnotation] == "") {
					t.Errorf("the set is created as %v", set)
				}
			}
			if strings.Join(got, ", ") != row.want || len(unchecked) != row.unchecked {
				t.Errorf("got  %s and %v\nwant %s", strings.Join(got, ", "), unchecked, row.want)
			}
		})
	}
}
