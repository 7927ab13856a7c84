package pauseowner

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// notAllowing is the owner of which no person has said that it may be paused.
func (o Owner) notAllowing() Owner {
	o.Allowed = false
	return o
}

func TestOwnerThatDoesNotAllowItIsNotPaused(t *testing.T) {
	mysql, stop := onlyPause(t), onlyStop(t)
	planned := build.Sleep(api.Planned, build.Due(time.Minute))
	for name, o := range map[string]Owner{
		"to be paused":                    mysql.notAllowing(),
		"to be stopped":                   stop.notAllowing(),
		"paused for another operation":    mysql.held(t, owners.ByPause, "other").notAllowing(),
		"paused before the consent ended": mysql.held(t, owners.ByPause, build.SleepID).notAllowing(),
		"an autoscaler's":                 keda(t).notAllowing(),
	} {
		t.Run(name, func(t *testing.T) {
			refusedWith(t, asked(planned, []Owner{o}), api.OwnerNotPausable,
				"kubectl annotate -n "+build.Namespace+" "+string(o.Resource)+" main drydock.dev/allow=pause",
				"kubectl label namespace "+build.Namespace+" drydock.dev/pause-owners=allow")
		})
	}
	t.Run("a person has paused it: nothing is written to it", func(t *testing.T) {
		o := mysql.notAllowing()
		o.Object = o.Object.DeepCopy()
		_ = unstructured.SetNestedField(o.Object.Object, true, "spec", "suspend")
		if p := Decide(asked(planned, []Owner{o})); p.String() != sleepGoesOn {
			t.Error(p)
		}
	})
	t.Run("the release needs no consent", func(t *testing.T) {
		held := mysql.held(t, owners.ByPause, build.SleepID).notAllowing()
		in := Input{Observed: build.World(build.Set("web", build.Nap(build.Sleep(api.Succeeded)))), Records: []Record{held.recorded(owners.ByPause)}}
		if p := Decide(in); p.Reason != api.OwnerResumed {
			t.Error(p)
		}
	})
}

// asking is a sleep that waits for its owner at the time of the test.
func asking() *api.Status {
	return build.Sleep(api.Planned, func(s *api.Status) { s.Deadline = plan.Moment(time.Now().Add(time.Hour)) })
}

// TestWhoAllowsThatAnOwnerIsPaused: the resource, or its namespace; nothing that the author of the set writes.
func TestWhoAllowsThatAnOwnerIsPaused(t *testing.T) {
	namespace := func(value string) *corev1.Namespace {
		ns := &corev1.Namespace{}
		ns.Name, ns.Labels = build.Namespace, map[string]string{api.PauseOwnersLabel: value}
		return ns
	}
	for name, row := range map[string]struct {
		resource  map[string]string
		namespace *corev1.Namespace
		set       build.Option
		want      bool
	}{
		"nobody":                                   {nil, namespace(""), build.Label("a", "b"), false},
		"the resource":                             {map[string]string{api.AllowAnnotation: "pause"}, namespace(""), build.Label("a", "b"), true},
		"the resource, no word":                    {map[string]string{api.AllowAnnotation: "true"}, namespace(""), build.Label("a", "b"), false},
		"the namespace":                            {nil, namespace("allow"), build.Label("a", "b"), true},
		"the namespace, a word of nobody's":        {nil, namespace("true"), build.Label("a", "b"), false},
		"the set itself, which counts for nothing": {nil, namespace(""), build.Annotation(api.AllowAnnotation, "pause"), false},
	} {
		t.Run(name, func(t *testing.T) {
			mysql := onlyPause(t)
			mysql.Object.SetAnnotations(row.resource)
			set := build.Set("web", build.Nap(asking()), controlled(mysql.Object), row.set)
			in := observed(t, build.Lists{"statefulsets": list{set}, "mariadbs": list{mysql.Object}, "namespaces": list{row.namespace}})
			if len(in.Owners) != 1 || in.Owners[0].Allowed != row.want {
				t.Errorf("%+v", in.Owners)
			}
		})
	}
}

// TestNamespaceIsReadOnlyIfNeeded: a resource that allows it costs no request.
func TestNamespaceIsReadOnlyIfNeeded(t *testing.T) {
	mysql := onlyPause(t)
	mysql.Object.SetAnnotations(map[string]string{api.AllowAnnotation: api.AllowPause})
	set := build.Set("web", build.Nap(asking()), controlled(mysql.Object))
	lists := build.Lists{"statefulsets": list{set}, "mariadbs": list{mysql.Object}, "controllerrevisions": nil, "horizontalpodautoscalers": nil}
	f := &Function{client: kube.NewClient(lists.Serve(t)), settings: build.SleepSettings(), registry: owners.BuiltIn()}
	in, err := f.observe(t.Context(), events.Ref{Namespace: build.Namespace, Name: "web"})
	if err != nil || !in.Owners[0].Allowed {
		t.Errorf("%+v, %v", in.Owners, err)
	}
}
