package restore

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

type objects = []metav1.Object

// row is a situation, the plan for it, and what the plan stores as status.
type row struct {
	in   Input
	want string
	next string
}

func check(t *testing.T, rows map[string]row) {
	t.Helper()
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			build.Expect(t, row.in.Observed, func() plan.Plan { return Decide(row.in) }, row.want, row.next)
		})
	}
}

func world(groups ...objects) Input {
	var all objects
	for _, g := range groups {
		all = append(all, g...)
	}
	return Input{Observed: build.World(all...), Namespace: build.Namespace, Settings: build.Settings()}
}

const (
	web0 = "data-web-0"
	web1 = "data-web-1"
	old0 = "pv-data-web-0"
	new0 = "pv-new-data-web-0"
	id   = build.ID
)

var (
	copy0 = api.CopyName(id, web0, 1)
	zero  = build.Replicas(0)
)

// switchingOf is an operation whose copies of the claims are verified, for generation 5.
func switchingOf(claims ...string) *api.Resize {
	return build.Operation(api.Switching, build.Parts(api.ClaimVerified, claims...), build.Quiet(5), build.Due(time.Minute),
		func(s *api.Resize) { s.Reason = api.CopyVerified })
}

// ordered stores the order to create the set in the journal, as recreate does.
func ordered(journal *appsv1.ControllerRevision, from *appsv1.StatefulSet, made *unstructured.Unstructured) *appsv1.ControllerRevision {
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

func with(status *api.Resize, options ...func(*api.Resize)) *api.Resize {
	for _, option := range options {
		option(status)
	}
	return status
}

func recreating(s *api.Resize) { s.Recreate = true }

// set is StatefulSet web at zero, whose templates ask for what the operation is to reach.
func set(status *api.Resize, options ...build.Option) objects {
	return objects{build.Set("web", append([]build.Option{zero, build.Template("data", "128Mi", "fixed"), build.Status(status)}, options...)...)}
}

func journalOf(claims ...string) objects {
	return objects{build.Journal(build.Operation(api.Copying, build.Parts(api.ClaimPending, claims...)))}
}

// source is a claim on its old volume, held as backup leaves it.
func source(name string, options ...build.Option) objects {
	claim := build.Claim(name, "64Mi", append([]build.Option{build.Link(api.RoleSource, name, 0)}, options...)...)
	return objects{claim, build.Volume("pv-"+name, claim, build.Held(api.RoleSource, name))}
}

// oldVolume is the volume of a claim that is gone.
func oldVolume(name string, options ...build.Option) objects {
	claim := build.Claim(name, "64Mi")
	return objects{build.Volume("pv-"+name, claim, append([]build.Option{build.Held(api.RoleSource, name), build.Released()}, options...)...)}
}

// target is the temporary claim with the copy, as backup leaves it.
func target(name string, options ...build.Option) objects {
	claim := build.Target(api.CopyName(id, name, 1), name, "128Mi", 1, options...)
	return objects{claim, build.Volume("pv-new-"+name, claim)}
}

// copied is the copy after its temporary claim has gone.
func copied(name string, options ...build.Option) objects {
	return objects{build.Volume("pv-new-"+name, build.Target(api.CopyName(id, name, 1), name, "128Mi", 1),
		append([]build.Option{build.Released(), build.Held(api.RoleTarget, name)}, options...)...)}
}

// doomed is a claim that we have marked and deleted.
func doomed(name string, finalizers ...string) objects {
	return source(name, build.Deleting(), build.Finalizers(append([]string{api.SwitchFinalizer}, finalizers...)...))
}

// manifest is the claim that comes after the old one, on the volume.
func manifest(name, volume, size string) *corev1.PersistentVolumeClaim {
	old := build.Claim(name, "64Mi", build.Annotation("people", "wrote this"), build.Finalizers("kubernetes.io/pvc-protection", "example.com/keep"))
	link := api.Link{Operation: id, Role: api.RoleSuccessor, Namespace: build.Namespace, Set: api.SetRef{Name: "web", UID: "uid-web"}, Claim: name}
	on := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volume}}
	return build.As[corev1.PersistentVolumeClaim](resources.MakeSuccessor(build.Raw(old), on, api.Target{Size: resource.MustParse(size)}, link))
}

// successor is the claim that came after the old one, complete.
func successor(name, volume, size string, options ...build.Option) *corev1.PersistentVolumeClaim {
	claim := manifest(name, volume, size)
	claim.UID, claim.ResourceVersion = "uid-successor", "rv-successor"
	claim.Status.Phase = corev1.ClaimBound
	return build.With(claim, options...)
}

// switched is a claim that has its new volume, with nothing left to do but to say so.
func switched(name string) objects {
	claim := successor(name, "pv-new-"+name, "128Mi")
	return append(oldVolume(name), claim, build.Volume("pv-new-"+name, claim, build.Held(api.RoleTarget, name)))
}

// waited is the input of an event that has waited for long.
func waited(in Input) Input {
	in.Waited = time.Minute
	return in
}

// rejected is the input of an event whose write was refused for good.
func rejected(in Input, why string) Input {
	in.Rejected = why
	return in
}
