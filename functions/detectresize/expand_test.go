package detectresize

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// attributes sets the VolumeAttributesClass that a claim requests, and the one that its volume has. Empty means none.
func attributes(requested, present string) build.Option {
	return build.Edit(func(c *corev1.PersistentVolumeClaim) {
		if requested != "" {
			c.Spec.VolumeAttributesClassName = &requested
		}
		if present != "" {
			c.Status.CurrentVolumeAttributesClassName = &present
		}
	})
}

// modifying sets the claim's ModifyVolumeStatus for a change to the class. Infeasible also sets the resizer's error condition.
func modifying(class string, state corev1.PersistentVolumeClaimModifyVolumeStatus) build.Option {
	return build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: class, Status: state}
		if state == corev1.PersistentVolumeClaimModifyVolumeInfeasible {
			c.Status.Conditions = append(c.Status.Conditions, corev1.PersistentVolumeClaimCondition{
				Type: corev1.PersistentVolumeClaimVolumeModifyVolumeError, Message: "volumes have no attribute colour",
				LastTransitionTime: metav1.NewTime(build.Now)})
		}
	})
}

// attributesClasses gives the cluster these VolumeAttributesClasses. They have no driver name, like the StorageClasses of these tests.
func attributesClasses(classes ...string) func(*Input) {
	return func(in *Input) {
		in.Cluster.Attributes = map[string]*storagev1.VolumeAttributesClass{}
		for _, name := range classes {
			in.Cluster.Attributes[name] = &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		}
	}
}

// withAttributes adds a VolumeAttributesClass to every expansion of the record.
func withAttributes(class string) func(*api.Resize) {
	return func(r *api.Resize) {
		for i := range r.Expansions {
			r.Expansions[i].Attributes = &class
		}
	}
}

// TestAttributesRequests covers requests for another VolumeAttributesClass, with and without another size. The class changes in place.
func TestAttributesRequests(t *testing.T) {
	setAsking := func(request string) objects {
		return objects{build.Set("web", build.Replicas(2), build.Template("data", "64Mi", "fixed"), build.Resize(request))}
	}
	two := func(options ...build.Option) objects {
		all := pods()
		for _, name := range []string{"data-web-0", "data-web-1"} {
			claim := build.Claim(name, "64Mi", options...)
			volume := build.VolumeOf(claim)
			volume.Spec.VolumeAttributesClassName = claim.Status.CurrentVolumeAttributesClassName
			all = append(all, claim, volume)
		}
		return all
	}
	other := func(in *Input) {
		attributesClasses("gold")(in)
		in.Cluster.Attributes["gold"].DriverName = "other.example"
		in.Cluster.Classes["fixed"].Provisioner = "one.example"
	}
	silver := attributes("silver", "silver")
	check(t,
		row{"the StorageClass does not allow expansion: nothing is copied",
			with(given(setAsking("data=64Mi%gold"), two()), attributesClasses("gold"))},
		row{"another attributes class than before", with(given(setAsking("data=64Mi%gold"), two(silver)), attributesClasses("gold"))},
		row{"all claims have the class, but the template does not",
			with(given(setAsking("data=64Mi%gold"), two(attributes("gold", "gold"))), attributesClasses("gold"))},
		row{"a copied claim gets the class with the new volume",
			with(given(setAsking("data=128Mi%gold"), two(silver)), attributesClasses("gold"))},
		row{"a claim that changes its StorageClass", with(given(setAsking("data=64Mi@fast%gold"), two(silver)), attributesClasses("gold"))},
		row{"the class does not exist", with(given(setAsking("data=64Mi%gold"), two()), attributesClasses("silver"))},
		row{"the class belongs to another driver", with(given(setAsking("data=64Mi%gold"), two()), other)},
		row{"the request was met, and a user has changed the class since", with(given(objects{build.Set("web", build.Replicas(2),
			build.Template("data", "64Mi", "fixed"), build.Edit(func(s *appsv1.StatefulSet) {
				s.Spec.VolumeClaimTemplates[0].Spec.VolumeAttributesClassName = ptr.To("gold")
			}), build.Resize("data=64Mi%gold"), build.Status(build.Operation(api.Succeeded, func(r *api.Resize) { r.Request = "data=64Mi%gold" })))},
			two(silver)), attributesClasses("gold"))},
	)
}

// TestExpandOffline covers the method expand-offline. The claims of a member grow while it is stopped. Members stop one at a time, unless
// the user chooses the strategy whole.
func TestExpandOffline(t *testing.T) {
	offline := func(request string, options ...build.Option) objects {
		return objects{build.Set("web", append([]build.Option{build.Replicas(2), build.Template("data", "64Mi", expandableClass),
			build.Resize(request),
			build.Annotation(api.ResizeMethodAnnotation, string(api.MethodExpandOffline))}, options...)...)}
	}
	two := append(append(expandable("data-web-0", "64Mi", "64Mi"), expandable("data-web-1", "64Mi", "64Mi")...), pods()...)
	foreign := objects{build.Pod("debug", []string{"data-web-0"}, build.Age(time.Hour))}
	check(t,
		row{"the operation starts: no claim requests more yet", given(offline("data=128Mi"), two)},
		row{"strategy whole: members stop together", given(offline("data=128Mi", build.Annotation(api.StrategyAnnotation, "whole")), two)},
		row{"attributes change first, without a stop", with(given(offline("data=128Mi%gold"), two), attributesClasses("gold"))},
		row{"only attributes change: no member stops", with(given(offline("data=64Mi%gold"), two), attributesClasses("gold"))},
		row{"a claim cannot shrink in place", given(offline("data=32Mi"), two)},
		row{"the StorageClass does not allow expansion", given(objects{build.Set("web", build.Replicas(2), build.Template("data", "64Mi",
			"fixed"),
			build.Resize("data=128Mi"), build.Annotation(api.ResizeMethodAnnotation, "expand-offline"))}, bothMembers())},
		row{"a foreign pod keeps a volume attached", given(offline("data=128Mi"), two, foreign)},
	)
}

// TestAttributesChanges covers running operations that change the VolumeAttributesClass of claims while the set runs.
func TestAttributesChanges(t *testing.T) {
	gold := withAttributes("gold")
	now := func(requested, present string, more ...build.Option) objects {
		return expandable("data-web-1", "128Mi", "128Mi", append([]build.Option{attributes(requested, present)}, more...)...)
	}
	first := expandable("data-web-0", "128Mi", "128Mi", attributes("gold", "gold"))
	one := expanding(done(0), keepsTemplates, gold)
	infeasible := modifying("gold", corev1.PersistentVolumeClaimModifyVolumeInfeasible)
	inProgress := modifying("gold", corev1.PersistentVolumeClaimModifyVolumeInProgress)
	on := func(reason api.Reason, claim objects) Input {
		return given(expandableSet(expanding(gold, failedBecause(reason))), first, claim)
	}
	check(t,
		row{"size and attributes are requested in one write", given(expandableSet(one), first, expandable("data-web-1", "64Mi", "64Mi"), pods())},
		row{"the driver is working", given(expandableSet(one), first, now("gold", "", inProgress), pods())},
		row{"the volume has grown but does not have its attributes", given(expandableSet(one), first, now("gold", "silver"), pods())},
		row{"the volume has its attributes: the operation is done", given(expandableSet(one), first, now("gold", "gold"), pods())},
		row{"the volume has its attributes, but the resizer still reports progress",
			given(expandableSet(one), first, now("gold", "gold", inProgress), pods())},
		row{"the storage reports infeasible", given(expandableSet(one), first, now("gold", "silver", infeasible), pods())},
		row{"an earlier class was infeasible", given(expandableSet(one), first, now("gold", "silver",
			modifying("platinum", corev1.PersistentVolumeClaimModifyVolumeInfeasible)), pods())},
		row{"the deadline has passed", given(expandableSet(expanding(done(0), keepsTemplates, gold, build.Due(-time.Second))), first,
			now("gold", "silver", inProgress), pods())},
		row{"the storage refused an earlier expansion, and the claim requests a byte more than it has: the attributes do not wait for that",
			given(expandableSet(expanding(done(0), keepsTemplates, gold, growsTo("64Mi"))), first, expandable("data-web-1", "67108865", "64Mi",
				attributes("gold", "gold"), attempted("1Ti", corev1.PersistentVolumeClaimControllerResizeInfeasible)), pods())},
		row{"infeasible: the claim requests the class of its volume again", on(api.AttributesInfeasible, now("gold", "silver", infeasible))},
		row{"aborted: the claim requests the class of its volume again", on(api.Aborted, now("gold", "silver", inProgress))},
		row{"aborted: the claim requests no class again", on(api.Aborted, now("gold", "", inProgress))},
		row{"aborted while the storage grows the volume: the claim only requests the class of its volume again",
			on(api.Aborted, expandable("data-web-1", "128Mi", "64Mi", attributes("gold", "silver")))},
		row{"aborted after the storage refused the size: the claim requests both of its volume in one write",
			on(api.Aborted, expandable("data-web-1", "128Mi", "64Mi", attributes("gold", "silver"),
				attempted("128Mi", corev1.PersistentVolumeClaimControllerResizeInfeasible)))},
		row{"aborted: another process has requested another class", on(api.Aborted, now("platinum", "silver", inProgress))},
		row{"after a missed deadline, the claim keeps its request", on(api.DeadlineExceeded, now("gold", "silver", inProgress))},
		row{"the request was withdrawn: the operation ends", on(api.Aborted, now("silver", "silver"))},
	)
}

// TestRejectedExpansionOnRoundedVolumesIsNoShrink: the storage makes no volumes below 1Gi, so claims of 64Mi have volumes of 1Gi. A webhook
// rejects that they request 512Mi, so nothing has changed. The user takes the request back, or requests a little less. No volume has to
// shrink, so no member stops.
func TestRejectedExpansionOnRoundedVolumesIsNoShrink(t *testing.T) {
	both := append(expandable("data-web-0", "64Mi", "1Gi"), expandable("data-web-1", "64Mi", "1Gi")...)
	in := func(record *api.Resize, request string) Input {
		options := []build.Option{build.Replicas(2), build.ReplicaCounts(2, 2), build.Resize(request)}
		if record == nil {
			return given(objects{build.Set("web", append(options, build.Template("data", "64Mi", expandableClass))...)}, both, pods())
		}
		return given(expandableSet(record, options...), both, pods())
	}
	p := Decide(in(nil, "data=512Mi"))
	t.Log(p)
	record := build.Stored(p)
	for range 4 {
		p = Decide(with(in(record, "data=512Mi"), func(i *Input) { i.Rejected = "admission webhook denied the request" }))
		t.Log(p)
		if next := build.Stored(p); next != nil {
			record = next
		}
		if record.Phase == api.Failed {
			break
		}
	}
	if record.Phase != api.Failed || record.Reason != api.Rejected {
		t.Fatal(build.Words(record))
	}
	for _, request := range []string{"data=64Mi", "data=256Mi"} {
		p := Decide(in(record, request))
		t.Log(p)
		if r := build.Stored(p); r != nil && len(r.Members) > 0 {
			t.Errorf("%s: the claims request 64Mi, as before, and %d members stop to copy their volumes to smaller ones: %s", request,
				len(r.Members), p)
		}
	}
}

func offlineSet(request string, options ...build.Option) objects {
	return objects{build.Set("web", append([]build.Option{build.Replicas(2), build.ReplicaCounts(2, 2),
		build.Template("data", "64Mi", expandableClass),
		build.Resize(request), build.Annotation(api.ResizeMethodAnnotation, string(api.MethodExpandOffline))}, options...)...)}
}

// TestOldSizeWithAttributesStopsNoMember: the storage could not grow the volumes to 1Ti. With the method expand-offline, the user requests
// the old size and a VolumeAttributesClass. Neither needs a stop: "only attributes change: no member stops".
func TestOldSizeWithAttributesStopsNoMember(t *testing.T) {
	cannot := infeasible("1Ti", "the pool is full")
	in := with(given(offlineSet("data=64Mi%gold"), expandable("data-web-0", "1Ti", "64Mi", cannot),
		expandable("data-web-1", "1Ti", "64Mi", cannot), objects{member(0, time.Hour), member(1, time.Hour)}), attributesClasses("gold"))
	r := build.Stored(Decide(in))
	if r == nil || len(r.Expansions) != 2 || len(r.Members) != 0 {
		t.Errorf("%+v", r)
	}
}

// TestAttributesWaitForNoFileSystem: the volumes have grown to 128Mi, and their file systems grow with the next mount. With the method
// expand-offline, the user requests more, and a VolumeAttributesClass: "attributes change first, without a stop".
func TestAttributesWaitForNoFileSystem(t *testing.T) {
	o := []build.Option{fileSystemPending(24 * time.Hour), attempted("128Mi", corev1.PersistentVolumeClaimNodeResizePending)}
	claims := append(expandable("data-web-0", "128Mi", "64Mi", o...), expandable("data-web-1", "128Mi", "64Mi", o...)...)
	pods := objects{member(0, 48*time.Hour), member(1, 48*time.Hour)}
	in := with(given(offlineSet("data=256Mi%gold"), claims, pods), attributesClasses("gold"))
	r := build.Stored(Decide(in))
	if r == nil || len(r.Expansions) != 2 || len(r.Members) != 2 {
		t.Fatalf("%+v", r)
	}
	r.Phase = api.Expanding
	got := "gold"
	has := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeAttributesClassName, c.Status.CurrentVolumeAttributesClassName = &got, &got
	})
	for i := range claims {
		if c, ok := claims[i].(*corev1.PersistentVolumeClaim); ok {
			claims[i] = build.With(c, has)
		}
	}
	p := Decide(with(given(offlineSet("data=256Mi%gold", build.Status(r)), claims, pods), attributesClasses("gold")))
	evicts := slices.ContainsFunc(p.Actions, func(a plan.Action) bool { return a.Verb == plan.VerbEvict })
	if p.Reason != api.ClaimsExpanded || evicts {
		t.Errorf("the attributes have changed, so the operation must continue, and evict no pod before its growth: %s", p)
	}
}
