package sift

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/test/kit/build"
)

// sent are the events of a sweep, as SET: CONCERNS.
type sent struct {
	events []string
	fail   error
}

func (s *sent) Send(_ context.Context, e event.Event) error {
	concerns, _ := e.Extensions()["concerns"].(string)
	s.events = append(s.events, e.Extensions()["name"].(string)+": "+concerns)
	return s.fail
}

// cluster is what there is, by plural name.
type cluster map[string][]metav1.Object

func sweep(t *testing.T, c cluster, to *sent) error {
	t.Helper()
	lists := build.Plurals()
	maps.Copy(lists, c)
	return sweepLists(t, lists, to)
}

func sweepLists(t *testing.T, lists build.Lists, to *sent) error {
	t.Helper()
	tick := event.New()
	tick.SetType(events.Tick)
	_, err := New(kube.NewClient(lists.Serve(t)), api.Settings{}, to, slog.New(slog.DiscardHandler)).Handle(t.Context(), tick)
	return err
}

// TestI6SweepFindsEverythingFromTheObjectsAlone: no event is needed.
// Invariants: I6.
func TestI6SweepFindsEverythingFromTheObjectsAlone(t *testing.T) {
	type list = []metav1.Object
	data, auto := build.Template("data", "64Mi", "fixed"), build.Resize("auto")
	copying := build.Operation(api.Moving, build.Members(api.MemberPending, "data-web-0"))
	old := func(until time.Time) metav1.Object {
		return build.Volume("pv-old", build.Claim("data-web-0", "64Mi"), build.Retained(api.RoleRetired, "data-web-0"),
			build.Annotation(api.RetainedUntilAnnotation, until.UTC().Format(time.RFC3339)))
	}
	held := func() *corev1.Pod { return build.With(build.PodOf("web", 0, "data"), build.Held(0)) }
	journal := func() metav1.Object { return build.Journal(copying) }
	left := func(options ...build.Option) metav1.Object {
		return build.Volume("pv-left", build.Claim("data-web-0", "64Mi"), append([]build.Option{build.Retained(api.RoleSource, "data-web-0"), build.Released()}, options...)...)
	}
	releasedNow := build.Edit(func(v *corev1.PersistentVolume) { v.Status.LastPhaseTransitionTime = ptr.To(metav1.Now()) })
	for name, row := range map[string]struct {
		in   cluster
		want string
	}{
		"nothing": {cluster{}, ""},
		"a set without a request": {
			cluster{"statefulsets": list{build.Set("web", data)}, "persistentvolumeclaims": list{build.Claim("data-web-0", "1Mi")}}, ""},
		"a set that is not opted in": {
			cluster{"statefulsets": list{build.Set("web", data, build.Label(api.ManagedLabel, ""), build.Resize("data=1Gi"))}}, ""},
		"a request that differs from the template": {
			cluster{"statefulsets": list{build.Set("web", data, build.Resize("data=1Gi"))}}, "web: detect-resize"},
		"a claim lags behind its template": {
			cluster{"statefulsets": list{build.Set("web", data, auto)}, "persistentvolumeclaims": list{build.Claim("data-web-7", "32Mi")}}, "web: detect-resize"},
		"a claim lags behind the request, the template does not": {
			cluster{"statefulsets": list{build.Set("web", data, build.Resize("data=64Mi"))}, "persistentvolumeclaims": list{build.Claim("data-web-0", "32Mi")}}, "web: detect-resize"},
		"I7: claims are as asked for": {
			cluster{"statefulsets": list{build.Set("web", data, auto)}, "persistentvolumeclaims": list{build.Claim("data-web-0", "64Mi"), build.Claim("data-other-0", "1Mi")}}, ""},
		"I7: a refusal that only the set could mend is not judged again": {
			cluster{"statefulsets": list{build.Set("web", data, build.Resize("data=128Mi"), refusedFor(api.UnknownTemplate, time.Minute))}}, ""},
		"a fresh refusal whose cause may be gone is judged anew": {
			cluster{"statefulsets": list{build.Set("web", data, build.Resize("data=128Mi"), refusedFor(api.QuotaExceeded, time.Minute))}}, "web: detect-resize"},
		"but not of another request": {
			cluster{"statefulsets": list{build.Set("web", data, build.Resize("data=64Mi"), build.Status(build.Operation(api.Refused, func(s *api.Resize) {
				s.Request, s.Reason = "data=1Ti", api.QuotaExceeded
			})))}}, ""},
		"nor on a set that sleeps": {
			cluster{"statefulsets": list{build.Set("web", data, build.Resize("data=128Mi"), refusedFor(api.QuotaExceeded, time.Minute),
				build.WithSleep(build.Sleep(api.Asleep, build.Because("paused"))), build.Paused(), build.Replicas(0))}}, ""},
		"two sets of which one lags": {
			cluster{"statefulsets": list{build.Set("web", data, auto), build.Set("api", data, auto)},
				"persistentvolumeclaims": list{build.Claim("data-web-0", "64Mi"), build.Claim("data-api-0", "32Mi")}}, "api: detect-resize"},
		"an operation whose set changes nothing": {
			cluster{"statefulsets": list{build.Set("web", data, build.Replicas(0), build.Status(copying))}, "controllerrevisions": list{journal()}}, "web: backup"},
		"a resize that is given up": {
			cluster{"statefulsets": list{build.Set("web", data, build.Status(build.Operation(api.Reverting)))}, "controllerrevisions": list{journal()}}, "web: restore"},
		"I9: a held pod of an operation under way": {
			cluster{"statefulsets": list{build.Set("web", data, build.Status(copying))}, "controllerrevisions": list{journal()}, "pods": list{held()}}, "web: backup restore"},
		"I9: a held pod of which no set and no journal tells": {
			cluster{"statefulsets": list{build.Set("web", data)}, "pods": list{held()}}, "web: restore"},
		"I9: a held pod of an operation that has ended": {
			cluster{"statefulsets": list{build.Set("web", data, build.Status(build.Operation(api.Failed)))}, "pods": list{held()}}, "web: restore"},
		"I9: a held pod whose set is gone": {
			cluster{"pods": list{held()}}, "web: restore"},
		"the link of a held pod without the finalizer": {
			cluster{"pods": list{build.With(held(), build.Finalizers())}}, ""},
		"I3: a journal whose set is gone": {
			cluster{"controllerrevisions": list{journal()}}, "web: restore backup pause-owner"},
		"I3: a journal whose set was replaced, and asks for a resize that waits for the rest to be cleared": {
			cluster{"statefulsets": list{build.Set("web", data, build.UID("uid-2"), build.Resize("data=128Mi"))}, "controllerrevisions": list{journal()}},
			"web: detect-resize restore backup pause-owner"},
		"an old volume whose window is over": {
			cluster{"persistentvolumes": list{old(time.Now().Add(-time.Minute))}}, "web: restore"},
		"an old volume whose window is over, and an operation runs": {
			cluster{"statefulsets": list{build.Set("web", data, build.Status(copying))}, "persistentvolumes": list{old(time.Now().Add(-time.Minute))}}, "web: backup restore"},
		"an old volume whose window is over, which an administrator has freed for use": {
			cluster{"persistentvolumes": list{freed(old(time.Now().Add(-time.Minute)))}}, ""},
		"an old volume in its window": {
			cluster{"persistentvolumes": list{old(time.Now().Add(time.Minute))}}, ""},
		"a volume whose set and journal are gone": {
			cluster{"persistentvolumes": list{left()}}, "web: restore"},
		"a volume that was released a moment ago": {
			cluster{"persistentvolumes": list{left(releasedNow)}}, ""},
		"a volume whose journal is there: the journal leads to it": {
			cluster{"persistentvolumes": list{left()}, "controllerrevisions": list{journal()}}, "web: restore backup pause-owner"},
		"a volume of an operation under way": {
			cluster{"persistentvolumes": list{left()}, "statefulsets": list{build.Set("web", data, build.Status(copying))}, "controllerrevisions": list{journal()}}, "web: backup"},
		"a set that asks to grow": {
			cluster{"statefulsets": list{build.Set("web", data, build.Annotation(api.GrowAnnotation, "data=max:1Gi"))}}, "web: grow-volumes"},
		"a set whose namespace has rules for growth": {
			cluster{"statefulsets": list{build.Set("web", data)}, "configmaps": list{growth(build.Namespace)}}, "web: grow-volumes"},
		"a set, and another namespace has rules for growth": {
			cluster{"statefulsets": list{build.Set("web", data)}, "configmaps": list{growth("other")}}, ""},
		"a set that does not want the rules of its namespace": {
			cluster{"statefulsets": list{build.Set("web", data, build.Annotation(api.GrowAnnotation, api.GrowOff))}, "configmaps": list{growth(build.Namespace)}}, ""},
		"a set that asks to grow, and is resized": {
			cluster{"statefulsets": list{build.Set("web", data, build.Annotation(api.GrowAnnotation, "data=max:1Gi"), build.Status(copying))}}, "web: backup"},
		"a revision that the StatefulSet controller made of a set with the journal's annotations": {
			cluster{"controllerrevisions": list{build.With(build.Journal(copying), build.Edit(func(r *appsv1.ControllerRevision) { r.Name = "evil-5c9f4d7b8" }))}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			to := &sent{}
			if err := sweep(t, row.in, to); err != nil {
				t.Fatal(err)
			}
			slices.Sort(to.events)
			if got := strings.Join(to.events, ", "); got != row.want {
				t.Errorf("sends %q, want %q", got, row.want)
			}
		})
	}
}

func TestSweepSendsToEverybodyAndReportsWhatFailed(t *testing.T) {
	data := build.Template("data", "64Mi", "fixed")
	both := cluster{"statefulsets": {build.Set("a", data, build.Resize("data=1Gi")), build.Set("b", data, build.Resize("data=1Gi"))}}
	to := &sent{fail: errors.New("the Broker is away")}
	if err := sweep(t, both, to); err == nil || len(to.events) != 2 {
		t.Errorf("sent %v, error %v", to.events, err)
	}
	for _, plural := range []string{"statefulsets", "controllerrevisions", "persistentvolumes"} {
		lists := build.Plurals()
		delete(lists, plural)
		if err := sweepLists(t, lists, &sent{}); err == nil {
			t.Errorf("the list of %s fails, and that is no error", plural)
		}
	}
}

func freed(volume metav1.Object) metav1.Object {
	volume.(*corev1.PersistentVolume).Spec.ClaimRef = nil
	return volume
}

// growth is a ConfigMap with rules for growth, beside which there are others.
func growth(namespace string) metav1.Object {
	config := &corev1.ConfigMap{}
	config.Name, config.Namespace = api.GrowConfigMap, namespace
	return config
}
