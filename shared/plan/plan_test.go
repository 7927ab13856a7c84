package plan

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
)

func claim(change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data-web-0", UID: "u", ResourceVersion: "7"}}
	if change != nil {
		change(c)
	}
	return c
}

func labelled(c *corev1.PersistentVolumeClaim) {
	c.Labels, c.Annotations = map[string]string{"app": "web", "a/b": "1"}, map[string]string{"team": "data"}
	c.Finalizers = []string{"first", api.FreezeFinalizer, "last"}
}

// body returns the patch as it is sent, without its precondition. It checks the precondition.
func body(t *testing.T, p *Patch) string {
	t.Helper()
	actions := p.Actions()
	if p.Empty() != (len(actions) == 0) {
		t.Fatalf("empty %t, %d actions", p.Empty(), len(actions))
	}
	if len(actions) == 0 {
		return ""
	}
	guard := Op{Op: "replace", Path: "/metadata/resourceVersion", Value: "7"}
	if actions[0].Ops[0] != guard {
		t.Errorf("the first operation is %+v, not the precondition", actions[0].Ops[0])
	}
	text, err := json.Marshal(actions[0].Ops[1:])
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestPatch: a patch has only the changes that its object lacks.
// Invariants: I7.
func TestPatch(t *testing.T) {
	bare, full := claim(nil), claim(labelled)
	of := func(c *corev1.PersistentVolumeClaim) *Patch { return PatchOf(Claims, c) }
	for name, row := range map[string]struct {
		patch *Patch
		want  string
	}{
		"an empty patch":                {of(full), ""},
		"an existing annotation":        {of(full).Annotate("team", "data"), ""},
		"an existing label":             {of(full).Label("app", "web"), ""},
		"an existing finalizer":         {of(full).AddFinalizer("last"), ""},
		"removals of absent keys":       {of(full).Unannotate("x").Unlabel("x").RemoveFinalizer("x").Unlink(), ""},
		"a field with the wanted value": {Set(of(full), "/spec/replicas", 3, 3, ""), ""},
		"a first annotation creates the map": {of(bare).Annotate("a", "1"),
			`[{"op":"add","path":"/metadata/annotations","value":{}},{"op":"add","path":"/metadata/annotations/a","value":"1"}]`},
		"a second annotation does not create it again": {of(bare).Annotate("a", "1").Annotate("b", "2"),
			`[{"op":"add","path":"/metadata/annotations","value":{}},` +
				`{"op":"add","path":"/metadata/annotations/a","value":"1"},{"op":"add","path":"/metadata/annotations/b","value":"2"}]`},
		"an existing map is kept":   {of(full).Annotate("a", "1"), `[{"op":"add","path":"/metadata/annotations/a","value":"1"}]`},
		"another value":             {of(full).Label("app", "api"), `[{"op":"add","path":"/metadata/labels/app","value":"api"}]`},
		"an empty value is a value": {of(full).Annotate("e", ""), `[{"op":"add","path":"/metadata/annotations/e","value":""}]`},
		"keys are escaped in additions": {of(full).Annotate("a/b~c", "1"),
			`[{"op":"add","path":"/metadata/annotations/a~1b~0c","value":"1"}]`},
		"keys are escaped in removals": {of(full).Unlabel("a/b"), `[{"op":"remove","path":"/metadata/labels/a~1b"}]`},
		"a finalizer is removed by value": {of(full).RemoveFinalizer(api.FreezeFinalizer),
			`[{"op":"test","path":"/metadata/finalizers/1","value":"drydock.dev/freeze"},{"op":"remove","path":"/metadata/finalizers/1"}]`},
		"a first finalizer": {of(bare).AddFinalizer("x"), `[{"op":"add","path":"/metadata/finalizers","value":["x"]}]`},
		"another finalizer keeps the others": {of(full).AddFinalizer("x"),
			`[{"op":"add","path":"/metadata/finalizers","value":["first","drydock.dev/freeze","last","x"]}]`},
		"zero is a value": {Set(of(full), "/spec/replicas", 3, 0, ""), `[{"op":"add","path":"/spec/replicas","value":0}]`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := body(t, row.patch); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		})
	}
	if diff := cmp.Diff(claim(labelled), full); diff != "" {
		t.Errorf("a patch changed its object:\n%s", diff)
	}
}

// TestActionsCanBeCalledTwice returns equal actions.
// Invariants: I7.
func TestActionsCanBeCalledTwice(t *testing.T) {
	p := PatchOf(Claims, claim(nil)).Annotate("a", "1")
	if diff := cmp.Diff(p.Actions(), p.Actions()); diff != "" {
		t.Error(diff)
	}
}

func TestStringOfPlans(t *testing.T) {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u", ResourceVersion: "7"}}
	orphan := Delete(StatefulSets, set)
	orphan.Orphan = true
	note := Event("shop", "web", Note{Reason: api.CopyFailed, Message: "it failed"})
	for want, p := range map[string]Plan{
		"noop UpToDate":                   Noop(api.UpToDate),
		"noop CleaningUp":                 Do(api.CleaningUp),
		"wait Quiescing (pod a is there)": WaitSoon(api.Quiescing, "pod %s is there", "a"),
		"wait Quiescing":                  Wait(api.Quiescing, ""),
		"do Preparing: create statefulsets web; delete statefulsets web -> owner.paused": Do(api.Preparing, Create(StatefulSets, set),
			Delete(StatefulSets, set)).Then("dev.drydock.owner.paused", "op"),
		`do CopyFailed: delete statefulsets web (orphan); event CopyFailed "it failed"`: Do(api.CopyFailed, orphan, note),
	} {
		if got := p.LogValue().String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	for want, a := range map[string]Action{"evict pods web": Evict(set), "try to evict pods web": TryEvict(set),
		"delete pods web": Stop(set)} {
		if a.String() != want || a.UID != "u" || a.ResourceVersion != "" {
			t.Errorf("got %s for UID %q and version %q, want %s for u and any version", a, a.UID, a.ResourceVersion, want)
		}
	}
	if d := Delete(StatefulSets, set); d.UID != "u" || d.ResourceVersion != "7" {
		t.Errorf("a delete without precondition: %+v", d)
	}
}
