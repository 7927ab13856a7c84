package resize

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"drydock.dev/shared/world"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

type objects = []metav1.Object

// roomy is a class whose volumes can grow.
const roomy = "roomy"

// given is a cluster with that class, and fixed and fast, whose volumes cannot.
func given(groups ...objects) Input {
	return Input{Observed: build.World(slices.Concat(groups...)...), Cluster: &world.Cluster{Classes: map[string]*storagev1.StorageClass{
		"fixed": {}, "fast": {}, roomy: {AllowVolumeExpansion: ptr.To(true)}}}}
}

// wants is StatefulSet web of the class that can grow, which asks for the request.
func wants(request string, options ...build.Option) objects {
	return objects{build.Set("web", append([]build.Option{build.Replicas(2), build.Template("data", "64Mi", roomy), build.Resize(request)},
		options...)...)}
}

// claim is one with its volume, of a class.
func claim(name, class, size string, options ...build.Option) objects {
	has := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	})
	c := build.Claim(name, size, append([]build.Option{build.OfClass(class), has}, options...)...)
	return objects{c, build.VolumeOf(c)}
}

func grower(name, size string, options ...build.Option) objects {
	return claim(name, roomy, size, options...)
}

func two() objects { return append(grower("data-web-0", "64Mi"), grower("data-web-1", "64Mi")...) }

func method(m api.Method) build.Option {
	return build.Annotation(api.ResizeMethodAnnotation, string(m))
}

func quota(in Input, name corev1.ResourceName, hard, used string) Input {
	in.Cluster.Quotas = append(in.Cluster.Quotas, corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "team"},
		Status: corev1.ResourceQuotaStatus{
			Hard: corev1.ResourceList{name: resource.MustParse(hard)}, Used: corev1.ResourceList{name: resource.MustParse(used)}}})
	return in
}

// reasons are those of all problems, in order.
func reasons(problems []Problem) string {
	var all []string
	for _, p := range problems {
		all = append(all, string(p.Reason))
	}
	return strings.Join(all, " ")
}

// TestEveryProblemIsFound: detect-resize refuses with the first, a plan shows all of them.
func TestEveryProblemIsFound(t *testing.T) {
	foreign := build.Label("app", "else")
	worst := func() Input {
		set := wants("data=32Mi@nvme", build.Owned("Database", "main"),
			build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.SecurityContext = nil }),
			build.Annotation(api.MoverAnnotation, "speed: high"), method(api.MethodExpand))
		in := quota(given(set, grower("data-web-0", "64Mi", foreign, build.Deleting()), grower("data-web-1", "64Mi"),
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
		"none":                              {given(wants("data=128Mi"), two()), ""},
		"a class is unknown, and told once": {given(wants("data=128Mi@nvme"), two()), "UnknownClass"},
		"two templates, two unknown classes": {given(wants("data=128Mi@nvme,logs=1Gi@ssd", build.Template("logs", "32Mi", roomy)), two()),
			"UnknownClass UnknownClass"},
		"each foreign pod, each claim": {given(wants("data=128Mi@fast"), two(), objects{build.Pod("a", []string{"data-web-0"}),
			build.Pod("b", []string{"data-web-0", "data-web-1"})}), "ForeignConsumer ForeignConsumer ForeignConsumer"},
		"each quota": {quota(quota(given(wants("data=128Mi"), two()), "requests.storage", "1", "0"),
			"roomy.storageclass.storage.k8s.io/requests.storage", "1", "0"), "QuotaExceeded QuotaExceeded"},
		"all at once": {worst(), "ExpandImpossible ExpandImpossible OwnerNotPausable RootMoverNeeded MoverInvalid UnknownClass ForeignClaim " +
			"ClaimBusy ForeignConsumer ForeignConsumer LimitExceeded QuotaExceeded QuotaExceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			wish := Read(row.in)
			found := Preflight(row.in, wish)
			if got := reasons(found); got != row.want || len(wish.Problems) > 0 {
				t.Errorf("found %s\nwant  %s\n%v", got, row.want, wish.Problems)
			}
			if again := fmt.Sprint(Preflight(row.in, wish)); again != fmt.Sprint(found) {
				t.Errorf("then %s", again)
			}
		})
	}
}

// TestEveryMistakeInTheRequestIsFound, and what there is to do in spite of it is known.
func TestEveryMistakeInTheRequestIsFound(t *testing.T) {
	for name, row := range map[string]struct {
		in     Input
		want   string
		claims int
	}{
		"unreadable":   {given(wants("data=lots", method("magic")), two()), "RequestInvalid", 0},
		"no templates": {given(objects{build.Set("web", build.Resize("data=1Gi"))}), "NoTemplates", 0},
		"a method that there is not, and templates that there are not": {
			given(wants("db=1Gi,data=128Mi,logs=1Gi", method("magic")), two()), "MethodUnknown UnknownTemplate UnknownTemplate", 2},
		"a member check that cannot be read": {given(wants("data=128Mi", build.Annotation(api.MemberCheckAnnotation, "prometheus:up")), two()),
			"CheckInvalid", 2},
	} {
		t.Run(name, func(t *testing.T) {
			wish := Read(row.in)
			if got := reasons(wish.Problems); got != row.want || len(wish.Claims) != row.claims || wish.Empty() {
				t.Errorf("found %s and %d claims, want %s and %d", got, len(wish.Claims), row.want, row.claims)
			}
		})
	}
}

// TestHooksThatCouldNotRun: as long as members are moved.
func TestHooksThatCouldNotRun(t *testing.T) {
	const node = "spec: {hostNetwork: true, containers: [{name: sh, image: x}]}"
	hook := func(key, text string) Input {
		return given(wants("data=128Mi", method(api.MethodCopy), build.Annotation(key, text)), two())
	}
	allowed := hook(api.BeforeMemberAnnotation, node)
	allowed.Cluster.NodeAccess = true
	for name, row := range map[string]struct {
		in   Input
		want string
	}{
		"a template that cannot be read":  {hook(api.BeforeMemberAnnotation, "{"), "HookInvalid"},
		"one without a container":         {hook(api.AfterMemberAnnotation, "{}"), "HookInvalid"},
		"one that gets hold of its node":  {hook(api.AfterMemberAnnotation, node), "NodeAccessDenied"},
		"where the namespace allows that": {allowed, ""},
		"one that can run":                {hook(api.BeforeMemberAnnotation, "spec: {containers: [{name: sh, image: x}]}"), ""},
		"members are not moved at all":    {given(wants("data=128Mi", build.Annotation(api.BeforeMemberAnnotation, "{")), two()), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := reasons(checkHooks(row.in, Read(row.in))); got != row.want {
				t.Errorf("found %q, want %q", got, row.want)
			}
		})
	}
}

// TestWhatSettlesByItself: all of it, and what does not.
func TestWhatSettlesByItself(t *testing.T) {
	canary := build.Edit(func(s *appsv1.StatefulSet) {
		s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](1)}
		s.Status.CurrentRevision, s.Status.UpdateRevision = "web-1", "web-2"
	})
	in := given(wants("data=128Mi", canary), grower("data-web-0", "64Mi", build.Link(api.RoleSource, "data-web-0")),
		objects{build.Claim("data-web-1", "64Mi", build.On("")), build.Claim("data-web-2", "64Mi")},
		grower("data-web-3", "64Mi", build.Annotation(api.OperationAnnotation, "{}")))
	found := Unsettled(in, Read(in))
	if got := reasons(found); got != "RolloutRunning CleaningUp ClaimNotBound ClaimNotBound LinkInvalid" {
		t.Errorf("found %s", got)
	}
	for _, p := range found {
		if p.Settles() == (p.Reason == api.LinkInvalid) {
			t.Errorf("%s settles: %v", p.Reason, p.Settles())
		}
	}
}

// TestRoomsOfQuotas: those that count something of the resize, whether it fits or not.
func TestRoomsOfQuotas(t *testing.T) {
	in := quota(quota(quota(given(wants("data=128Mi@fast"), two()), "services", "1", "1"), "requests.storage", "1Gi", "128Mi"),
		"fast.storageclass.storage.k8s.io/persistentvolumeclaims", "1", "0")
	var got []string
	for _, r := range Rooms(in, Read(in)) {
		got = append(got, fmt.Sprintf("%s %s: %s of %s, %s more, %v", r.Quota, r.Resource, &r.Used, &r.Hard, &r.Needs, r.Enough()))
	}
	want := "team requests.storage: 128Mi of 1Gi, 256Mi more, true; team fast.storageclass.storage.k8s.io/persistentvolumeclaims: 0 of 1, 2 " +
		"more, false"
	if strings.Join(got, "; ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "; "), want)
	}
}

// Invariants: I8.
func TestI8WhyItCannotExpand(t *testing.T) {
	file := golden.Open(t)
	rows := map[string]Input{
		"a volume cannot shrink": given(wants("data=32Mi", method("expand")), two()),
		"another class":          given(wants("data=128Mi@fast", method("expand")), two()),
		"another mode":           given(wants("data=128Mi:RWX", method("expand")), two()),
		"the class":              given(wants("data=128Mi", method("expand")), two()[:2], claim("data-web-1", "fixed", "64Mi")),
		"the class is gone":      given(wants("data=128Mi", method("expand")), claim("data-web-0", "retired", "64Mi")),
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		in := rows[name]
		t.Run(name, func(t *testing.T) {
			found := Preflight(in, Read(in))
			if len(found) == 0 || found[0].Reason != api.ExpandImpossible {
				t.Errorf("got %+v, want ExpandImpossible", found)
			}
			file.Entry(t, name, describe(found))
		})
	}
}

// TestPreflightOfClaimsThatGrow: what only copies need is no reason to refuse.
func TestPreflightOfClaimsThatGrow(t *testing.T) {
	one := grower("data-web-0", "64Mi")
	rootless := build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.SecurityContext = nil })
	block := build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) })
	invalid := given(wants("data=128Mi", build.Annotation(api.MoverAnnotation, "speed: high")), two())
	const storage, count = "requests.storage", "persistentvolumeclaims"
	for name, row := range map[string]struct {
		in     Input
		reason api.Reason // of a refusal
	}{
		"I10: no mover runs as root":     {given(wants("data=128Mi", rootless), two()), ""},
		"but for a claim that is copied": {given(wants("data=128Mi@fast", rootless), two()), api.RootMoverNeeded},
		"nobody reads how movers run":    {invalid, ""},
		"but for a claim that is copied, they do": {given(wants("data=128Mi@fast", build.Annotation(api.MoverAnnotation, "speed: high")),
			two()), api.MoverInvalid},
		"a pod of somebody else uses it": {given(wants("data=128Mi"), two(),
			objects{build.Pod("reports", []string{"data-web-0"})}), ""},
		"a pod of somebody else uses one that is copied": {given(wants("data=128Mi@fast"), two(),
			objects{build.Pod("reports", []string{"data-web-0"})}), api.ForeignConsumer},
		"a raw device grows":           {given(wants("data=128Mi"), grower("data-web-0", "64Mi", block)), ""},
		"a raw device does not shrink": {given(wants("data=32Mi"), grower("data-web-0", "64Mi", block)), api.ShrinkRefused},
		"a claim that is being deleted": {given(wants("data=128Mi"), grower("data-web-0", "64Mi", build.Deleting())),
			api.ClaimBusy},
		"quota: only the difference counts": {quota(given(wants("data=128Mi"), two()), storage, "256Mi", "128Mi"), ""},
		"quota: a byte too little": {quota(given(wants("data=128Mi"), two()), storage, "268435455", "128Mi"),
			api.QuotaExceeded},
		"quota: of the class": {quota(given(wants("data=128Mi"), two()),
			"roomy.storageclass.storage.k8s.io/requests.storage", "255Mi", "128Mi"), api.QuotaExceeded},
		"quota: no claim is made": {quota(given(wants("data=128Mi"), two()), count, "2", "2"), ""},
		"quota: one is copied, and counts whole": {quota(given(wants("data=80Mi"), one, grower("data-web-1", "100Mi")), storage, "260Mi",
			"164Mi"), ""},
		"quota: one is copied, a byte too little": {quota(given(wants("data=80Mi"), one, grower("data-web-1", "100Mi")), storage,
			"272629759", "164Mi"), api.QuotaExceeded},
		"quota: one is copied, and is a claim more": {quota(given(wants("data=80Mi"), one, grower("data-web-1", "100Mi")), count, "2", "2"),
			api.QuotaExceeded},
		"quota: a copy that keeps its size counts whole": {quota(given(objects{build.Set("web", build.Template("data", "64Mi", "fast"),
			build.Resize("auto"))}, grower("data-web-1", "100Mi")), storage, "199Mi", "100Mi"), api.QuotaExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			found := Preflight(row.in, Read(row.in))
			if got := reasons(found); got != string(row.reason) {
				t.Fatalf("got %s, want %s", got, row.reason)
			}
			if len(found) > 0 && len(found[0].Message) < 20 {
				t.Errorf("says only %q", found[0].Message)
			}
		})
	}
}
