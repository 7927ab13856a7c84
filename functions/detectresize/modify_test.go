package detectresize

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// attributed is a claim that asks for one VolumeAttributesClass, and whose volume has another; empty for none.
func attributed(asks, has string) build.Option {
	return build.Edit(func(c *corev1.PersistentVolumeClaim) {
		if asks != "" {
			c.Spec.VolumeAttributesClassName = &asks
		}
		if has != "" {
			c.Status.CurrentVolumeAttributesClassName = &has
		}
	})
}

// modifying is a claim whose change to the class is in the state.
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

// knows has the cluster know VolumeAttributesClasses, each of the driver of every StorageClass.
func knows(classes ...string) func(*Input) {
	return func(in *Input) {
		in.Cluster.Attributes = map[string]*storagev1.VolumeAttributesClass{}
		for _, name := range classes {
			in.Cluster.Attributes[name] = &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		}
	}
}

// withAttributes are expansions that give the claims a class, too.
func withAttributes(class string) func(*api.Resize) {
	return func(r *api.Resize) {
		for i := range r.Expansions {
			r.Expansions[i].Attributes = &class
		}
	}
}

// TestAttributes: a VolumeAttributesClass is changed in place, with or without another size.
func TestAttributes(t *testing.T) {
	asks := func(request string) objects {
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
		knows("gold")(in)
		in.Cluster.Attributes["gold"].DriverName = "other.example"
		in.Cluster.Classes["fixed"].Provisioner = "one.example"
	}
	silver := attributed("silver", "silver")
	check(t,
		row{"of a class that does not grow: nothing is copied", but(given(asks("data=64Mi%gold"), two()), knows("gold"))},
		row{"another one than before", but(given(asks("data=64Mi%gold"), two(silver)), knows("gold"))},
		row{"all have it, and the template has not", but(given(asks("data=64Mi%gold"), two(attributed("gold", "gold"))), knows("gold"))},
		row{"a claim that grows by a copy gets it with the new volume", but(given(asks("data=128Mi%gold"), two(silver)), knows("gold"))},
		row{"a claim that gets another class", but(given(asks("data=64Mi@fast%gold"), two(silver)), knows("gold"))},
		row{"there is no such class", but(given(asks("data=64Mi%gold"), two()), knows("silver"))},
		row{"it is of another driver", but(given(asks("data=64Mi%gold"), two()), other)},
		row{"it was asked for, and a user has changed it since", but(given(objects{build.Set("web", build.Replicas(2),
			build.Template("data", "64Mi", "fixed"), build.Edit(func(s *appsv1.StatefulSet) {
				s.Spec.VolumeClaimTemplates[0].Spec.VolumeAttributesClassName = ptr.To("gold")
			}), build.Resize("data=64Mi%gold"), build.Status(build.Operation(api.Succeeded, func(r *api.Resize) { r.Request = "data=64Mi%gold" })))},
			two(silver)), knows("gold"))},
	)
}

// TestExpandOffline: the members' claims grow while they are stopped, one at a time unless that is said otherwise.
func TestExpandOffline(t *testing.T) {
	offline := func(request string, options ...build.Option) objects {
		return objects{build.Set("web", append([]build.Option{build.Replicas(2), build.Template("data", "64Mi", roomy), build.Resize(request),
			build.Annotation(api.ResizeMethodAnnotation, string(api.MethodExpandOffline))}, options...)...)}
	}
	two := append(append(grower("data-web-0", "64Mi", "64Mi"), grower("data-web-1", "64Mi", "64Mi")...), pods()...)
	foreign := objects{build.Pod("debug", []string{"data-web-0"}, build.Age(time.Hour))}
	check(t,
		row{"it begins: no claim asks for more yet", given(offline("data=128Mi"), two)},
		row{"together, where that is asked for", given(offline("data=128Mi", build.Annotation(api.StrategyAnnotation, "whole")), two)},
		row{"attributes come first: no member stops for them", but(given(offline("data=128Mi%gold"), two), knows("gold"))},
		row{"only attributes: no member stops", but(given(offline("data=64Mi%gold"), two), knows("gold"))},
		row{"a claim cannot shrink in place", given(offline("data=32Mi"), two)},
		row{"the class does not allow it", given(objects{build.Set("web", build.Replicas(2), build.Template("data", "64Mi", "fixed"),
			build.Resize("data=128Mi"), build.Annotation(api.ResizeMethodAnnotation, "expand-offline"))}, both())},
		row{"another pod keeps a volume attached", given(offline("data=128Mi"), two, foreign)},
	)
}

// TestModifications: claims that get another VolumeAttributesClass while the set runs.
func TestModifications(t *testing.T) {
	gold := withAttributes("gold")
	now := func(asks, has string, more ...build.Option) objects {
		return grower("data-web-1", "128Mi", "128Mi", append([]build.Option{attributed(asks, has)}, more...)...)
	}
	first := grower("data-web-0", "128Mi", "128Mi", attributed("gold", "gold"))
	one := expanding(settled(0), templatesAreRight, gold)
	infeasible := modifying("gold", corev1.PersistentVolumeClaimModifyVolumeInfeasible)
	inProgress := modifying("gold", corev1.PersistentVolumeClaimModifyVolumeInProgress)
	on := func(reason api.Reason, claim objects) Input {
		return given(roomySet(expanding(gold, gaveUp(reason))), first, claim)
	}
	check(t,
		row{"size and attributes are asked for in one write", given(roomySet(one), first, grower("data-web-1", "64Mi", "64Mi"), pods())},
		row{"the driver is at it", given(roomySet(one), first, now("gold", "", inProgress), pods())},
		row{"the volume has grown, and has not its attributes", given(roomySet(one), first, now("gold", "silver"), pods())},
		row{"it has: the operation is done", given(roomySet(one), first, now("gold", "gold"), pods())},
		row{"it has, and the resizer has not said so yet", given(roomySet(one), first, now("gold", "gold", inProgress), pods())},
		row{"the storage cannot", given(roomySet(one), first, now("gold", "silver", infeasible), pods())},
		row{"an earlier class was infeasible", given(roomySet(one), first, now("gold", "silver",
			modifying("platinum", corev1.PersistentVolumeClaimModifyVolumeInfeasible)), pods())},
		row{"past the deadline", given(roomySet(expanding(settled(0), templatesAreRight, gold, build.Due(-time.Second))), first,
			now("gold", "silver", inProgress), pods())},
		row{"infeasible: the claim asks for what its volume has", on(api.AttributesInfeasible, now("gold", "silver", infeasible))},
		row{"aborted: the claim asks for what its volume has", on(api.Aborted, now("gold", "silver", inProgress))},
		row{"aborted: the claim asks for none again", on(api.Aborted, now("gold", "", inProgress))},
		row{"aborted: size and attributes go back together", on(api.Aborted, grower("data-web-1", "128Mi", "64Mi", attributed("gold", "silver")))},
		row{"aborted: another process has asked for another class", on(api.Aborted, now("platinum", "silver", inProgress))},
		row{"after a deadline the claim goes on asking", on(api.DeadlineExceeded, now("gold", "silver", inProgress))},
		row{"it was taken back: it ends", on(api.Aborted, now("silver", "silver"))},
	)
}
