package pauseowner

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// notAllowing is the owner of which no person has said that it may be paused.
func (o Owner) notAllowing() Owner {
	o.Allowed = false
	return o
}

func TestOwnerThatDoesNotAllowItIsNotPaused(t *testing.T) {
	mysql, stop := onlyPause(t), onlyStop(t)
	planned := build.Sleep(api.Planned, build.SleepDue(time.Minute))
	file := golden.Open(t)
	refused := map[string]Owner{
		"to be paused":                    mysql.notAllowing(),
		"to be stopped":                   stop.notAllowing(),
		"paused for another operation":    mysql.held(t, owners.ByPause, "other").notAllowing(),
		"paused before the consent ended": mysql.held(t, owners.ByPause, build.SleepID).notAllowing(),
		"an autoscaler's":                 keda(t).notAllowing(),
	}
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		t.Run(name, func(t *testing.T) {
			file.Entry(t, name, refusedWith(t, asked(planned, []Owner{refused[name]}), api.OwnerNotPausable))
		})
	}
	t.Run("a person has paused it: nothing is written to it", func(t *testing.T) {
		o := mysql.notAllowing()
		o.Object = o.Object.DeepCopy()
		_ = unstructured.SetNestedField(o.Object.Object, true, "spec", "suspend")
		if p := Decide(asked(planned, []Owner{o})); p.Announce != events.OwnerPaused || p.Reason != api.OwnerConsents || writesTo(p, o.Resource) {
			t.Error(p)
		}
	})
	t.Run("the release needs no consent", func(t *testing.T) {
		held := mysql.held(t, owners.ByPause, build.SleepID).notAllowing()
		in := Input{Observed: build.World(build.Set("web", build.WithSleep(build.Sleep(api.Succeeded)))), Records: []Record{held.recorded(owners.ByPause)}}
		if p := Decide(in); p.Reason != api.OwnerResumed {
			t.Error(p)
		}
	})
}

// TestOwnerThatStaysPausedIsReported: the rights to it are gone when its set is awake.
func TestOwnerThatStaysPausedIsReported(t *testing.T) {
	mysql := onlyPause(t).held(t, owners.ByPause, build.SleepID)
	record := mysql.recorded(owners.ByPause)
	record.Row = mysql.Row
	unread := record
	unread.Object, unread.Denied = nil, errors.New("it is forbidden")
	const problem = "MariaDB main stays paused: it is forbidden. Give the rights with kubectl drydock rbac --owners mariadb-operator"
	in := func(phase api.Phase, r Record, options ...func(*api.Sleep)) Input {
		return Input{Observed: build.World(build.Set("web", build.WithSleep(build.Sleep(phase, options...)))), Records: []Record{r}}
	}
	stays := func(s *api.Sleep) { s.OwnerProblem = problem }
	released := onlyPause(t).recorded(owners.ByPause)
	check(t, map[string]Input{
		"it cannot be read":           in(api.Succeeded, unread),
		"it cannot be written":        in(api.Succeeded, record).denied("it is forbidden"),
		"that was told":               in(api.Succeeded, unread, stays),
		"the set sleeps still":        in(api.Asleep, unread),
		"the rights are back":         in(api.Succeeded, record, stays),
		"it is resumed":               in(api.Succeeded, released, stays),
		"the set is gone: a log line": Input{Observed: build.World(), Records: []Record{unread}},
	})
	if (Input{Observed: build.World(), Records: []Record{unread}}).problems() == nil || in(api.Succeeded, unread).problems() != nil {
		t.Error("a dead letter is for a set that is gone only")
	}
}

// asking is a sleep that waits for its owner at the time of the test.
func asking() *api.Sleep {
	return build.Sleep(api.Planned, func(s *api.Sleep) { s.Deadline = operation.Moment(time.Now().Add(time.Hour)) })
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
			set := build.Set("web", build.WithSleep(asking()), controlled(mysql.Object), row.set)
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
	set := build.Set("web", build.WithSleep(asking()), controlled(mysql.Object))
	lists := build.Lists{"statefulsets": list{set}, "mariadbs": list{mysql.Object}, "controllerrevisions": nil, "horizontalpodautoscalers": nil}
	f := &Function{client: kube.NewClient(lists.Serve(t)), settings: build.SleepSettings(), registry: owners.BuiltIn()}
	in, err := f.observe(t.Context(), events.Ref{Namespace: build.Namespace, Name: "web"})
	if err != nil || !in.Owners[0].Allowed {
		t.Errorf("%+v, %v", in.Owners, err)
	}
}
