package resize

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/world"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

type objects = []metav1.Object

// expandableClass is a class whose volumes can grow.
const expandableClass = "roomy"

// input returns the objects in a cluster with that class, and with the classes fixed and fast, whose volumes cannot grow.
func input(groups ...objects) Input {
	return Input{Observed: build.World(slices.Concat(groups...)...), Cluster: &world.Cluster{Classes: map[string]*storagev1.StorageClass{
		"fixed": {}, "fast": {}, expandableClass: {AllowVolumeExpansion: ptr.To(true)}}}}
}

// setAsking returns StatefulSet web with the request. Its template has the class whose volumes can grow.
func setAsking(request string, options ...build.Option) objects {
	return objects{build.Set("web", append([]build.Option{build.Replicas(2), build.Template("data", "64Mi", expandableClass),
		build.Resize(request)},
		options...)...)}
}

// claim returns a claim of the class with its volume.
func claim(name, class, size string, options ...build.Option) objects {
	has := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	})
	c := build.Claim(name, size, append([]build.Option{build.OfClass(class), has}, options...)...)
	return objects{c, build.VolumeOf(c)}
}

func expandable(name, size string, options ...build.Option) objects {
	return claim(name, expandableClass, size, options...)
}

func twoClaims() objects {
	return append(expandable("data-web-0", "64Mi"), expandable("data-web-1", "64Mi")...)
}

func method(m api.Method) build.Option {
	return build.Annotation(api.ResizeMethodAnnotation, string(m))
}

func quota(in Input, name corev1.ResourceName, hard, used string) Input {
	in.Cluster.Quotas = append(in.Cluster.Quotas, corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "team"},
		Status: corev1.ResourceQuotaStatus{
			Hard: corev1.ResourceList{name: resource.MustParse(hard)}, Used: corev1.ResourceList{name: resource.MustParse(used)}}})
	return in
}

// reasons returns the reasons of all problems, in order.
func reasons(problems []Problem) string {
	var all []string
	for _, p := range problems {
		all = append(all, string(p.Reason))
	}
	return strings.Join(all, " ")
}

// TestResizeWaitsForJournal: a new resize would take over the volumes of one that only its journal knows, or that is not cleaned up.
// Invariants: I1.
func TestResizeWaitsForJournal(t *testing.T) {
	journal := build.Journal(build.Operation(api.Moving))
	ended, later := build.Operation(api.Succeeded), build.Operation(api.Succeeded, func(r *api.Resize) { r.Operation = "ba9876543210" })
	unreadable := build.With(build.Journal(build.Operation(api.Moving)),
		build.Edit(func(r *appsv1.ControllerRevision) { r.Data.Raw = []byte("{}") }))
	for name, row := range map[string]struct {
		record   build.Option
		journals []*appsv1.ControllerRevision
		reason   api.Reason
	}{
		"no journal":                          {build.Label("a", "b"), nil, ""},
		"the journal of an ended operation":   {build.Status(ended), []*appsv1.ControllerRevision{journal}, api.CleaningUp},
		"the journal of a lost record":        {build.Label("a", "b"), []*appsv1.ControllerRevision{journal}, api.CleaningUp},
		"the journal of an earlier operation": {build.Status(later), []*appsv1.ControllerRevision{journal}, api.CleaningUp},
		"an unreadable journal":               {build.Status(later), []*appsv1.ControllerRevision{unreadable}, api.LinkInvalid},
	} {
		in := input(setAsking("data=32Mi", row.record), currentClaim("data-web-0"))
		in.Journals = row.journals
		found := StartObstacles(in, Compare(in))
		if got := reasons(found); got != string(row.reason) {
			t.Errorf("%s: %s, want %q", name, got, row.reason)
		}
	}
}

// TestEveryProblemIsFound: detect-resize refuses with the first problem, and kubectl drydock plan shows all of them.
func TestEveryProblemIsFound(t *testing.T) {
	foreign := build.Label("app", "else")
	worst := func() Input {
		set := setAsking("data=32Mi@nvme", build.ControlledBy("Database", "main"),
			build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.SecurityContext = nil }),
			build.Annotation(api.MoverAnnotation, "speed: high"), method(api.MethodExpand))
		in := quota(input(set, expandable("data-web-0", "64Mi", foreign, build.Deleting()), expandable("data-web-1", "64Mi"),
			objects{build.Pod("reports", []string{"data-web-0", "data-web-1"})}), "persistentvolumeclaims", "2", "2")
		quota(in, "requests.storage", "128Mi", "128Mi")
		in.Cluster.Limits = []corev1.LimitRange{{ObjectMeta: metav1.ObjectMeta{Name: "sizes"},
			Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
				Type: corev1.LimitTypePersistentVolumeClaim, Min: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")}}}}}}
		return in
	}
	for name, row := range map[string]struct {
		in   Input
		want string
	}{
		"no problem":                        {input(setAsking("data=128Mi"), twoClaims()), ""},
		"an unknown class is reported once": {input(setAsking("data=128Mi@nvme"), twoClaims()), "UnknownClass"},
		"two templates, two unknown classes": {input(setAsking("data=128Mi@nvme,logs=1Gi@ssd", build.Template("logs", "32Mi", expandableClass)),
			twoClaims()),
			"UnknownClass UnknownClass"},
		"each foreign pod, each claim": {input(setAsking("data=128Mi@fast"), twoClaims(), objects{build.Pod("a", []string{"data-web-0"}),
			build.Pod("b", []string{"data-web-0", "data-web-1"})}), "ForeignConsumer ForeignConsumer ForeignConsumer"},
		"each quota": {quota(quota(input(setAsking("data=128Mi"), twoClaims()), "requests.storage", "1", "0"),
			"roomy.storageclass.storage.k8s.io/requests.storage", "1", "0"), "QuotaExceeded QuotaExceeded"},
		"all at once": {worst(), "ExpandImpossible ExpandImpossible OwnerNotPausable RootMoverNeeded MoverInvalid UnknownClass ForeignClaim " +
			"ClaimBusy ForeignConsumer ForeignConsumer LimitExceeded QuotaExceeded QuotaExceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			changes := Compare(row.in)
			found := Preflight(row.in, changes)
			if got := reasons(found); got != row.want || len(changes.Problems) > 0 {
				t.Errorf("found %s\nwant  %s\n%v", got, row.want, changes.Problems)
			}
			if again := fmt.Sprint(Preflight(row.in, changes)); again != fmt.Sprint(found) {
				t.Errorf("the second call returned %s", again)
			}
		})
	}
}

// TestEveryMistakeInRequestIsFound: a request with mistakes still yields the claims that it changes.
func TestEveryMistakeInRequestIsFound(t *testing.T) {
	for name, row := range map[string]struct {
		in     Input
		want   string
		claims int
	}{
		"unreadable":   {input(setAsking("data=lots", method("magic")), twoClaims()), "RequestInvalid", 0},
		"no templates": {input(objects{build.Set("web", build.Resize("data=1Gi"))}), "NoTemplates", 0},
		"an unknown method and unknown templates": {
			input(setAsking("db=1Gi,data=128Mi,logs=1Gi", method("magic")), twoClaims()), "MethodUnknown UnknownTemplate UnknownTemplate", 2},
		"an unknown first pass": {input(setAsking("data=128Mi", build.Annotation(api.FirstPassAnnotation, "hot")), twoClaims()),
			"StrategyUnknown", 2},
		"an unreadable member check": {input(setAsking("data=128Mi", build.Annotation(api.MemberCheckAnnotation, "prometheus:up")),
			twoClaims()),
			"CheckInvalid", 2},
	} {
		t.Run(name, func(t *testing.T) {
			changes := Compare(row.in)
			if got := reasons(changes.Problems); got != row.want || len(changes.Claims) != row.claims || changes.Empty() {
				t.Errorf("found %s and %d claims, want %s and %d", got, len(changes.Claims), row.want, row.claims)
			}
		})
	}
}

// TestHooksThatCannotRunAreRefused: a hook that cannot run is refused if the resize stops members.
func TestHooksThatCannotRunAreRefused(t *testing.T) {
	const node = "spec: {hostNetwork: true, containers: [{name: sh, image: x}]}"
	hook := func(key, text string) Input {
		return input(setAsking("data=128Mi", method(api.MethodCopy), build.Annotation(key, text)), twoClaims())
	}
	allowed := hook(api.BeforeMemberAnnotation, node)
	allowed.Cluster.NodeAccess = true
	for name, row := range map[string]struct {
		in   Input
		want string
	}{
		"an unreadable template":                               {hook(api.BeforeMemberAnnotation, "{"), "HookInvalid"},
		"a template without a container":                       {hook(api.AfterMemberAnnotation, "{}"), "HookInvalid"},
		"a pod with node access":                               {hook(api.AfterMemberAnnotation, node), "NodeAccessDenied"},
		"a pod with node access in a namespace that allows it": {allowed, ""},
		"a hook that can run": {hook(api.BeforeMemberAnnotation, "spec: {containers: [{name: sh, image: x}]}"),
			""},
		"no member stops": {input(setAsking("data=128Mi", build.Annotation(api.BeforeMemberAnnotation,
			"{")), twoClaims()), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := reasons(checkHooks(row.in, Compare(row.in))); got != row.want {
				t.Errorf("found %q, want %q", got, row.want)
			}
		})
	}
}

// TestTemporaryObstacles: every obstacle is found, and only a broken link does not pass by itself.
func TestTemporaryObstacles(t *testing.T) {
	canary := build.Edit(func(s *appsv1.StatefulSet) {
		s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](1)}
		s.Status.CurrentRevision, s.Status.UpdateRevision = "web-1", "web-2"
	})
	in := input(setAsking("data=128Mi", canary), expandable("data-web-0", "64Mi", build.Link(api.RoleSource, "data-web-0")),
		objects{build.Claim("data-web-1", "64Mi", build.BoundTo("")), build.Claim("data-web-2", "64Mi")},
		expandable("data-web-3", "64Mi", build.Annotation(api.OperationAnnotation, "{}")))
	found := StartObstacles(in, Compare(in))
	if got := reasons(found); got != "RolloutRunning CleaningUp ClaimNotBound ClaimNotBound LinkInvalid" {
		t.Errorf("found %s", got)
	}
	for _, p := range found {
		if p.PassesByItself() == (p.Reason == api.LinkInvalid) {
			t.Errorf("%s passes by itself: %v", p.Reason, p.PassesByItself())
		}
	}
}

// TestPendingRolloutOfOnDelete: such a rollout would close the gate after the owner is paused, and only its operator deletes the pods.
func TestPendingRolloutOfOnDelete(t *testing.T) {
	strategy := func(s appsv1.StatefulSetUpdateStrategyType) build.Option {
		return build.Edit(func(set *appsv1.StatefulSet) {
			set.Spec.UpdateStrategy.Type, set.Status.CurrentRevision, set.Status.UpdateRevision = s, "web-1", "web-2"
		})
	}
	revision := func(r string) build.Option { return build.Label(appsv1.ControllerRevisionHashLabelKey, r) }
	for name, row := range map[string]struct {
		strategy appsv1.StatefulSetUpdateStrategyType
		request  string
		pod      build.Option
		want     string
	}{
		"an old pod":                       {appsv1.OnDeleteStatefulSetStrategyType, "data=128Mi@fast", revision("web-1"), "RolloutRunning"},
		"the pod is updated":               {appsv1.OnDeleteStatefulSetStrategyType, "data=128Mi@fast", revision("web-2"), ""},
		"an old pod, and no member stops":  {appsv1.OnDeleteStatefulSetStrategyType, "data=128Mi", revision("web-1"), ""},
		"an old pod that is updated alone": {appsv1.RollingUpdateStatefulSetStrategyType, "data=128Mi@fast", revision("web-1"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			set := setAsking(row.request, strategy(row.strategy))
			in := input(set, expandable("data-web-0", "64Mi"), objects{build.With(build.PodOf("web", 0, "data"), row.pod)})
			found := StartObstacles(in, Compare(in))
			if got := reasons(found); got != row.want {
				t.Errorf("found %q", got)
			}
			if len(found) > 0 && (!strings.Contains(found[0].Message, "web-0") || !found[0].PassesByItself()) {
				t.Errorf("%+v", found[0])
			}
		})
	}
}

// TestQuotaRooms: the result has every limit that counts objects of the resize, whether they fit or not.
func TestQuotaRooms(t *testing.T) {
	in := quota(quota(quota(input(setAsking("data=128Mi@fast"), twoClaims()), "services", "1", "1"), "requests.storage", "1Gi", "128Mi"),
		"fast.storageclass.storage.k8s.io/persistentvolumeclaims", "1", "0")
	var got []string
	for _, r := range QuotaRooms(in, Compare(in)) {
		got = append(got, fmt.Sprintf("%s %s: %s of %s, %s more, %v", r.Quota, r.Resource, &r.Used, &r.Hard, &r.Needs, r.Fits()))
	}
	want := "team requests.storage: 128Mi of 1Gi, 256Mi more, true; team fast.storageclass.storage.k8s.io/persistentvolumeclaims: 0 of 1, 2 " +
		"more, false"
	if strings.Join(got, "; ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "; "), want)
	}
}

// Invariants: I8.
func TestImpossibleExpansionIsExplained(t *testing.T) {
	file := golden.Open(t)
	rows := map[string]Input{
		"a volume cannot shrink": input(setAsking("data=32Mi", method("expand")), twoClaims()),
		"another StorageClass":   input(setAsking("data=128Mi@fast", method("expand")), twoClaims()),
		"another access mode":    input(setAsking("data=128Mi:RWX", method("expand")), twoClaims()),
		"the StorageClass does not allow expansion": input(setAsking("data=128Mi", method("expand")), twoClaims()[:2],
			claim("data-web-1", "fixed", "64Mi")),
		"the StorageClass is gone": input(setAsking("data=128Mi", method("expand")), claim("data-web-0", "retired", "64Mi")),
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		in := rows[name]
		t.Run(name, func(t *testing.T) {
			found := Preflight(in, Compare(in))
			if len(found) == 0 || found[0].Reason != api.ExpandImpossible {
				t.Errorf("got %+v, want ExpandImpossible", found)
			}
			file.Entry(t, name, describe(found))
		})
	}
}

// TestExpansionSkipsChecksOfCopies: requirements of copies are no reason to refuse an expansion.
// Invariants: I10.
func TestExpansionSkipsChecksOfCopies(t *testing.T) {
	one := expandable("data-web-0", "64Mi")
	rootless := build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.SecurityContext = nil })
	block := build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) })
	invalid := input(setAsking("data=128Mi", build.Annotation(api.MoverAnnotation, "speed: high")), twoClaims())
	const storage, count = "requests.storage", "persistentvolumeclaims"
	for name, row := range map[string]struct {
		in     Input
		reason api.Reason // of a refusal
	}{
		"no mover runs, so no root mover is needed": {input(setAsking("data=128Mi", rootless), twoClaims()), ""},
		"a copied claim needs a root mover":         {input(setAsking("data=128Mi@fast", rootless), twoClaims()), api.RootMoverNeeded},
		"invalid options of movers do not matter":   {invalid, ""},
		"invalid options of movers matter for a copied claim": {input(setAsking("data=128Mi@fast", build.Annotation(api.MoverAnnotation,
			"speed: high")),
			twoClaims()), api.MoverInvalid},
		"a foreign pod uses the claim": {input(setAsking("data=128Mi"), twoClaims(),
			objects{build.Pod("reports", []string{"data-web-0"})}), ""},
		"a foreign pod uses a copied claim": {input(setAsking("data=128Mi@fast"), twoClaims(),
			objects{build.Pod("reports", []string{"data-web-0"})}), api.ForeignConsumer},
		"a raw block volume grows":         {input(setAsking("data=128Mi"), expandable("data-web-0", "64Mi", block)), ""},
		"a raw block volume cannot shrink": {input(setAsking("data=32Mi"), expandable("data-web-0", "64Mi", block)), api.ShrinkRefused},
		"a claim that is being deleted": {input(setAsking("data=128Mi"), expandable("data-web-0", "64Mi", build.Deleting())),
			api.ClaimBusy},
		"quota: only the difference counts": {quota(input(setAsking("data=128Mi"), twoClaims()), storage, "256Mi", "128Mi"), ""},
		"quota: one byte is missing": {quota(input(setAsking("data=128Mi"), twoClaims()), storage, "268435455", "128Mi"),
			api.QuotaExceeded},
		"quota: for the class": {quota(input(setAsking("data=128Mi"), twoClaims()),
			"roomy.storageclass.storage.k8s.io/requests.storage", "255Mi", "128Mi"), api.QuotaExceeded},
		"quota: no claim is created": {quota(input(setAsking("data=128Mi"), twoClaims()), count, "2", "2"), ""},
		"quota: a copied claim counts in full": {quota(input(setAsking("data=80Mi"), one, expandable("data-web-1", "100Mi")), storage, "260Mi",
			"164Mi"), ""},
		"quota: a copied claim, one byte is missing": {quota(input(setAsking("data=80Mi"), one, expandable("data-web-1", "100Mi")), storage,
			"272629759", "164Mi"), api.QuotaExceeded},
		"quota: a copied claim is one claim more": {quota(input(setAsking("data=80Mi"), one, expandable("data-web-1", "100Mi")), count, "2",
			"2"),
			api.QuotaExceeded},
		"quota: a copy of the same size counts in full": {quota(input(objects{build.Set("web", build.Template("data", "64Mi", "fast"),
			build.Resize("auto"))}, expandable("data-web-1", "100Mi")), storage, "199Mi", "100Mi"), api.QuotaExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			found := Preflight(row.in, Compare(row.in))
			if got := reasons(found); got != string(row.reason) {
				t.Fatalf("got %s, want %s", got, row.reason)
			}
			if len(found) > 0 && len(found[0].Message) < 20 {
				t.Errorf("the message is only %q", found[0].Message)
			}
		})
	}
}

// requesting makes a claim request more than its volume has.
func requesting(size string) build.Option {
	return build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	})
}

// attempting says which size the storage works on, and how far it is.
func attempting(size string, state corev1.ClaimResourceStatus) build.Option {
	return build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: state}
	})
}

// TestSmallerRequestAfterExpansion: the claims have 64Mi and request 1Ti. It depends on the storage whether they may become smaller.
func TestSmallerRequestAfterExpansion(t *testing.T) {
	grows := attempting("1Ti", corev1.PersistentVolumeClaimControllerResizeInProgress)
	cannot := attempting("1Ti", corev1.PersistentVolumeClaimControllerResizeInfeasible)
	node := attempting("1Ti", corev1.PersistentVolumeClaimNodeResizeInfeasible)
	other := attempting("256Mi", corev1.PersistentVolumeClaimControllerResizeInfeasible)
	mount := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimFileSystemResizePending,
			Status: corev1.ConditionTrue}}
	})
	retry := build.Annotation(api.RetryAnnotation, "now")
	const refused = "ClaimBusy ClaimBusy"
	for name, row := range map[string]struct {
		request string
		set     build.Option
		asks    string
		claims  build.Option
		reasons string
		does    string // of claim data-web-0: its method, its expansion, the size of its move
	}{
		"it grows": {"data=128Mi", method("auto"), "1Ti", grows, refused, "copy move to 128Mi"},
		"it grows, expand": {"data=128Mi", method("expand"), "1Ti", grows,
			refused + " ExpandImpossible ExpandImpossible", "copy move to 128Mi"},
		"it grows, copy":                       {"data=128Mi", method("copy"), "1Ti", grows, "", "copy move to 128Mi"},
		"it grows, the former size":            {"data=64Mi", method("auto"), "1Ti", grows, refused, "copy move to 64Mi"},
		"it grows, less than it has":           {"data=32Mi", method("auto"), "1Ti", grows, refused, "copy move to 32Mi"},
		"it grows, another class":              {"data=128Mi@fast", method("auto"), "1Ti", grows, refused, "copy move to 128Mi"},
		"it grows, the same size":              {"data=1Ti", method("auto"), "1Ti", grows, "", ""},
		"it grows, the same size again":        {"data=1Ti", retry, "1Ti", grows, "", "expand expansion from 64Mi to 1Ti"},
		"it grows, a larger size":              {"data=2Ti", method("auto"), "1Ti", grows, "", "expand expansion from 64Mi to 2Ti"},
		"it grows, at least":                   {"data=128Mi+", method("auto"), "1Ti", grows, "", ""},
		"it does not say what it does":         {"data=128Mi", method("auto"), "1Ti", build.UID("uid-0"), refused, "copy move to 128Mi"},
		"it refused another size before":       {"data=128Mi", method("auto"), "1Ti", other, refused, "copy move to 128Mi"},
		"the file system waits, a larger size": {"data=2Ti", method("auto"), "1Ti", mount, "", "expand expansion from 1Ti to 2Ti"},
		"the file system waits for a mount":    {"data=128Mi", method("auto"), "1Ti", mount, "", "copy move to 128Mi"},
		"it has refused":                       {"data=128Mi", method("auto"), "1Ti", cannot, "", "expand expansion from 64Mi to 128Mi"},
		"the node has refused":                 {"data=128Mi", method("auto"), "1Ti", node, "", "expand expansion from 64Mi to 128Mi"},
		"it has refused, expand":               {"data=128Mi", method("expand"), "1Ti", cannot, "", "expand expansion from 64Mi to 128Mi"},
		"it has refused, offline": {"data=128Mi", method("expand-offline"), "1Ti", cannot, "",
			"expand-offline expansion from 64Mi to 64Mi move to 128Mi"},
		"it has refused, copy":                {"data=128Mi", method("copy"), "1Ti", cannot, "", "copy move to 128Mi"},
		"it has refused, the former size":     {"data=64Mi", method("auto"), "1Ti", cannot, "", "expand expansion from 64Mi to 64Mi"},
		"it has refused, former, offline":     {"data=64Mi", method("expand-offline"), "1Ti", cannot, "", "expand expansion from 64Mi to 64Mi"},
		"it has refused, less than it has":    {"data=32Mi", method("auto"), "1Ti", cannot, "", "copy move to 32Mi"},
		"it has refused, at least":            {"data=128Mi+", method("auto"), "1Ti", cannot, "", ""},
		"the request was lowered":             {"data=64Mi", method("auto"), "67108865", cannot, "", ""},
		"the request was lowered, a retry":    {"data=64Mi", retry, "67108865", cannot, "", ""},
		"the request was lowered, it shrinks": {"data=32Mi", method("auto"), "67108865", cannot, "", "copy move to 32Mi"},
		"the request was lowered, it grows":   {"data=128Mi", method("auto"), "67108865", cannot, "", "expand expansion from 64Mi to 128Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(setAsking(row.request, row.set), expandable("data-web-0", "64Mi", requesting(row.asks), row.claims),
				expandable("data-web-1", "64Mi", requesting(row.asks), row.claims))
			changes := Compare(in)
			if got := reasons(Preflight(in, changes)); got != row.reasons {
				t.Errorf("refused because %q, want %q", got, row.reasons)
			}
			does, record := []string{}, changes.Record(in)
			if len(changes.Claims) > 0 {
				does = append(does, string(changes.Claims[0].Method))
			}
			if len(record.Expansions) > 0 {
				e := record.Expansions[0]
				does = append(does, fmt.Sprintf("expansion from %s to %s", &e.From, &e.To))
			}
			if move := record.Move("data-web-0"); move != nil {
				does = append(does, "move to "+move.To.String())
			}
			if got := strings.Join(does, " "); got != row.does {
				t.Errorf("does %q, want %q", got, row.does)
			}
		})
	}
}

// TestLowerRequestNeedsNoRoom: the storage has refused 1Ti, and the quota was lowered since. The API server checks no quota for a request
// that uses less.
func TestLowerRequestNeedsNoRoom(t *testing.T) {
	cannot := attempting("1Ti", corev1.PersistentVolumeClaimControllerResizeInfeasible)
	for request, want := range map[string]string{"data=128Mi": "", "data=2Ti": "QuotaExceeded"} {
		in := quota(input(setAsking(request), expandable("data-web-0", "64Mi", requesting("1Ti"), cannot), expandable("data-web-1", "64Mi")),
			"requests.storage", "512Gi", "2Ti")
		if got := reasons(Preflight(in, Compare(in))); got != want {
			t.Errorf("%s: refused because %q, want %q", request, got, want)
		}
	}
}

// remedy matches the imperative in a message.
var remedy = regexp.MustCompile(`(?i)(; |\. |, or |: )(then )?` +
	`(add|request|delete|wait|raise|name|remove|write|correct|pause|move|look at|restore|if it belongs|create|set)\b`)

func TestEveryRefusalSaysWhatToDo(t *testing.T) {
	rootless := build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.SecurityContext = nil })
	block := build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) })
	checked := map[api.Reason]bool{}
	for _, in := range []Input{
		input(setAsking("data=32Mi@nvme", build.ControlledBy("Database", "main"), rootless, build.Annotation(api.MoverAnnotation, "speed: high"),
			method(api.MethodExpand)),
			expandable("data-web-0", "64Mi", build.Label("app", "else"), build.Deleting(), block),
			objects{build.Pod("reports", []string{"data-web-0"})}),
		input(setAsking("data=lots"), twoClaims()), input(setAsking("db=1Gi", method("magic")), twoClaims()),
		input(objects{build.Set("web", build.Resize("data=1Gi"))}),
		quota(input(setAsking("data=128Mi@fast"), twoClaims()), "requests.storage", "1", "0"),
		input(setAsking("data=128Mi@fast"), twoClaims(), objects{retainedVolume("pv-a", "data-web-0", "64Mi", 1)}).withRetainedLimit(1),
		input(setAsking("data=128Mi@fast"), expandable("data-web-0", "64Mi", build.Finalizers("example.com/keep"))),
		input(setAsking("data=128Mi@fast"), objects{build.Claim("data-web-0", "64Mi", build.BoundTo(""))}),
		input(setAsking("data=128Mi@fast"), expandable("data-web-0", "64Mi", build.Annotation(api.OperationAnnotation, "{}"))),
		input(setAsking("data=128Mi"), expandable("data-web-0", "64Mi", requesting("1Ti"))),
		manyClaims(300),
	} {
		changes := Compare(in)
		found := changes.Problems
		found = append(found, StartObstacles(in, changes)...)
		for _, p := range append(found, Preflight(in, changes)...) {
			checked[p.Reason] = true
			if !remedy.MatchString(p.Message) {
				t.Errorf("%s does not say what to do: %s", p.Reason, p.Message)
			}
		}
	}
	if len(checked) < 17 {
		t.Errorf("only %d reasons were checked: %v", len(checked), checked)
	}
}

// TestOwnerThatCanOnlyBeStoppedIsRefusedAtOnce: the row of PerconaXtraDBCluster has only a stop, and a resize needs a pause. pause-owner
// refuses each time, but only after the claims that grow in place have grown for good.
func TestOwnerThatCanOnlyBeStoppedIsRefusedAtOnce(t *testing.T) {
	owned := func(o metav1.Object) {
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "pxc.percona.com/v1", Kind: "PerconaXtraDBCluster", Name: "main",
			UID: "uid-main", Controller: ptr.To(true)}})
	}
	for situation, request := range map[string]string{"claims grow in place, and the set gets other templates": "data=128Mi",
		"claims are copied": "data=128Mi@fast"} {
		in := input(setAsking(request, build.Option(owned)), twoClaims())
		in.Registry = owners.BuiltIn()
		w := Compare(in)
		if got := reasons(Preflight(in, w)); got != string(api.OwnerNotPausable) {
			t.Errorf("%s: no refusal (%q), and %d claims grow before pause-owner refuses", situation, got, len(w.Record(in).Expansions))
		}
	}
}
