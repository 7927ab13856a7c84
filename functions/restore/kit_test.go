package restore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moving"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

type objects = []metav1.Object

// testCase is a situation in a sentence, with the input that shows it.
type testCase struct {
	situation string
	input     Input
}

// check compares the decisions with the golden file of the test, and checks that no decision releases a pod without its claims.
func check(t *testing.T, rows ...testCase) {
	t.Helper()
	var cases []build.Case
	for _, r := range rows {
		cases = append(cases, build.Case{Sentence: r.situation, By: api.Restore, World: r.input.Observed, Facts: otherInputs(r.input),
			Decide: func() plan.Plan { return Decide(r.input) }})
		if problem := releasesWithoutClaim(r.input, Decide(r.input)); problem != "" {
			t.Errorf("%s: %s", r.situation, problem)
		}
	}
	build.Golden(t, cases)
}

// otherInputs renders what the input contains besides the observed objects.
func otherInputs(in Input) []string {
	var words []string
	for _, w := range []struct{ name, text string }{{"rejected", in.Rejected}, {"refused", in.CreationRefused},
		{"failing", in.WriteFailed},
		{"budget", in.BudgetRefusal}} {
		if w.text != "" {
			words = append(words, w.name+": "+w.text)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(in.Checks)) {
		words = append(words, fmt.Sprintf("member check of %s: %s", uid, cmp.Or(in.Checks[uid], "good")))
	}
	if in.Waited > 0 {
		words = append(words, fmt.Sprintf("waited: %s", in.Waited))
	}
	return words
}

// releasesWithoutClaim returns which pod the plan releases while one of its claims is not bound, or empty. Its controller would create an
// empty claim.
func releasesWithoutClaim(in Input, p plan.Plan) string {
	for _, a := range p.Actions {
		if a.Resource != plan.Pods || in.Set == nil || !slices.Contains(a.Words, "-finalizer hold") {
			continue
		}
		pod := in.Pods[slices.IndexFunc(in.Pods, func(p *corev1.Pod) bool { return p.Name == a.Name })]
		for _, v := range pod.Spec.Volumes {
			name := v.PersistentVolumeClaim.ClaimName
			claim := in.Claim(name)
			if claim == nil || claim.DeletionTimestamp != nil || in.Volume(claim.Spec.VolumeName) == nil || !statefulset.Bound(claim,
				in.Volume(claim.Spec.VolumeName)) {
				return fmt.Sprintf("pod %s is released, and its claim %s is not bound", pod.Name, name)
			}
		}
	}
	return ""
}

// situation returns the input with the objects, a node, and the movers of waiting members.
func situation(groups ...objects) Input {
	all := objects{build.Node()}
	for _, g := range groups {
		all = append(all, g...)
	}
	all = append(all, waitingMovers(all)...)
	in := Input{Input: moving.Input{Observed: build.World(all...), Settings: build.Settings()}, Namespace: build.Namespace}
	in.Kills = build.NoKills(in.Pods...)
	return in
}

// waitingMovers returns the movers of the members that wait to be stopped. It returns none if the situation names a mover's Job.
func waitingMovers(all objects) objects {
	var movers objects
	for _, object := range all {
		if job, is := object.(*batchv1.Job); is && !api.HasLink(job, id, api.RoleHook) {
			return nil
		}
		set, is := object.(*appsv1.StatefulSet)
		if !is {
			continue
		}
		if record, err := api.LoadResize(set); err == nil && record != nil && record.Copies() {
			for _, m := range record.Members {
				if m.Phase == api.MemberWaiting && m.Pod != "" {
					job := build.Job(m.Ordinal, m.Attempt)
					movers = append(movers, job, build.Mover(job, build.FirstPassConverged(), onNode))
				}
			}
		}
	}
	return movers
}

// withoutMovers removes the pods of all movers.
func withoutMovers(in *Input) {
	in.Pods = slices.DeleteFunc(slices.Clone(in.Pods), func(p *corev1.Pod) bool { return statefulset.IsMoverOf(p, id) })
}

// with returns the changed input.
func with(in Input, change func(*Input)) Input {
	change(&in)
	return in
}

// longWait lets the event have waited for a minute.
func longWait(in *Input) { in.Waited = time.Minute }

const (
	web0 = "data-web-0"
	web1 = "data-web-1"
	old0 = "pv-data-web-0"
	new0 = "pv-new-data-web-0"
	id   = build.ID

	protection = "kubernetes.io/pvc-protection"
)

// movingOne is an operation with one member in the phase.
func movingOne(phase api.MemberPhase, options ...func(*api.Resize)) *api.Resize {
	return build.Operation(api.Moving, append([]func(*api.Resize){build.Members(phase, web0)}, options...)...)
}

// setWith is StatefulSet web with one replica and the record. Its template already requests the new size.
func setWith(record *api.Resize, options ...build.Option) objects {
	return objects{build.Set("web", append([]build.Option{build.Template("data", "128Mi", "fixed"), build.Status(record)}, options...)...)}
}

// setWithOldTemplate is the set with its previous template.
func setWithOldTemplate(record *api.Resize, options ...build.Option) objects {
	return objects{build.Set("web", append([]build.Option{build.Template("data", "64Mi", "fixed"), build.Status(record)}, options...)...)}
}

// journalOf is the journal of an operation on the claims.
func journalOf(claims ...string) objects {
	return objects{build.Journal(build.Operation(api.Moving, build.Members(api.MemberPending, claims...)))}
}

// pod is a running pod of the set.
func pod(ordinal int, options ...build.Option) objects {
	return objects{build.With(build.PodOf("web", ordinal, "data"), options...)}
}

// heldPodOf is a held pod of the set that has stopped.
func heldPodOf(ordinal int, options ...build.Option) objects {
	return pod(ordinal, append([]build.Option{build.Held(ordinal), build.Stopped()}, options...)...)
}

// lock is the pod that locks the name of a member without a pod.
func lock(ordinal int, options ...build.Option) objects {
	p := resources.MakeLock(build.Set("web"), id, ordinal, build.Settings())
	p.UID, p.ResourceVersion = "uid-lock", "rv-lock"
	return objects{build.With(p, options...)}
}

// source is a claim on its old volume, as backup leaves it.
func source(name string, options ...build.Option) objects {
	claim := build.Claim(name, "64Mi", append([]build.Option{build.Link(api.RoleSource, name)}, options...)...)
	return objects{claim, block(build.VolumeOf(claim, build.Retained(api.RoleSource, name)))}
}

// block gives the volume a file system that all pods of a node share.
func block(v *corev1.PersistentVolume) *corev1.PersistentVolume {
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "kit.example.com", VolumeHandle: v.Name, FSType: "ext4"}
	return v
}

// oldVolume is the volume of a claim that is gone.
func oldVolume(name string, options ...build.Option) objects {
	volume := source(name)[1].(*corev1.PersistentVolume)
	return objects{build.With(volume, append([]build.Option{build.Released()}, options...)...)}
}

// target is the temporary claim with the copy, as backup leaves it.
func target(name string, options ...build.Option) objects {
	claim := build.Target(name, "128Mi", options...)
	return objects{claim, build.VolumeOf(claim)}
}

// copyVolume is the copy after its temporary claim was deleted.
func copyVolume(name string, options ...build.Option) objects {
	volume := build.VolumeOf(build.Target(name, "128Mi"), build.Released(), build.Retained(api.RoleTarget, name))
	return objects{build.With(volume, options...)}
}

// frozenClaim is a claim that has Drydock's finalizer and is being deleted.
func frozenClaim(name string, finalizers ...string) objects {
	return source(name, build.Deleting(), build.Finalizers(append([]string{api.FreezeFinalizer}, finalizers...)...))
}

// manifest is the successor of the claim, on the volume.
func manifest(name, volume, size string) *corev1.PersistentVolumeClaim {
	old := build.Claim(name, "64Mi", build.Annotation("people", "wrote this"), build.Finalizers(protection, "example.com/keep"))
	link := api.Link{Operation: id, Role: api.RoleNewClaim, Namespace: build.Namespace, Set: api.SetRef{Name: "web", UID: "uid-web"},
		Claim: name}
	on := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volume}}
	return build.Typed[corev1.PersistentVolumeClaim](
		resources.MakeSuccessor(build.Untyped(old), on, api.Target{Size: resource.MustParse(size)},
			link),
	)
}

// successor is the bound claim that has replaced the old one.
func successor(name, volume, size string, options ...build.Option) *corev1.PersistentVolumeClaim {
	claim := manifest(name, volume, size)
	claim.UID, claim.ResourceVersion = "uid-successor", "rv-successor"
	claim.Status.Phase = corev1.ClaimBound
	return build.With(claim, options...)
}

// swappedClaim is a claim on its new volume.
func swappedClaim(name string) objects {
	claim := successor(name, "pv-new-"+name, "128Mi")
	return append(oldVolume(name), claim, build.VolumeOf(claim, build.Retained(api.RoleTarget, name)))
}

// withOrder stores the order to create the set in the journal, as recreate does.
func withOrder(journal *appsv1.ControllerRevision, from *appsv1.StatefulSet, made *unstructured.Unstructured) *appsv1.ControllerRevision {
	return build.With(journal, build.Annotation(api.RecreateAnnotation, api.EncodeManifest(made)),
		build.Annotation(api.SetMetadataAnnotation, api.SetMetadataOf(from).Encode()))
}

// storedOrder is the journal with the order that the plan stores.
func storedOrder(t *testing.T, journal *appsv1.ControllerRevision, p plan.Plan) *appsv1.ControllerRevision {
	t.Helper()
	for _, op := range p.Actions[len(p.Actions)-1].Ops {
		for _, key := range []string{api.RecreateAnnotation, api.SetMetadataAnnotation} {
			if strings.HasSuffix(op.Path, strings.ReplaceAll(key, "/", "~1")) {
				build.Annotation(key, op.Value.(string))(journal)
			}
		}
	}
	if journal.Annotations[api.RecreateAnnotation] == "" {
		t.Fatalf("no order is stored: %s", p)
	}
	return journal
}

// writesOf returns the actions of a plan without its checks of objects.
func writesOf(p plan.Plan) []plan.Action {
	return slices.DeleteFunc(slices.Clone(p.Actions), func(a plan.Action) bool { return a.Verb == plan.VerbCheck })
}
