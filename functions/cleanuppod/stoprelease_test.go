package cleanuppod

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/functions/pauseowner"
	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

// stoppedCluster returns a custom resource that the sleep has stopped, and the sleep's record of it.
func stoppedCluster(t *testing.T, set *appsv1.StatefulSet, sleep *api.Sleep) pauseowner.OwnerRecord {
	t.Helper()
	row, _ := owners.BuiltIn().Find("pxc.percona.com", "PerconaXtraDBCluster")
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	object.SetAPIVersion("pxc.percona.com/v1")
	object.SetKind("PerconaXtraDBCluster")
	object.SetNamespace(build.Namespace)
	object.SetName("main")
	object.SetUID("uid-main")
	object.SetResourceVersion("7")
	ref := metav1.OwnerReference{APIVersion: "pxc.percona.com/v1", Kind: "PerconaXtraDBCluster", Name: "main", UID: "uid-main"}
	resource, err := row.Resource(ref)
	if err != nil {
		t.Fatal(err)
	}
	hold, err := row.Hold(owners.ByStop, resource, object, api.Holder{Operation: sleep.Operation, Set: "web"})
	if err != nil {
		t.Fatal(err)
	}
	doc := api.PausedOwner{Version: api.PauseVersion, APIVersion: ref.APIVersion, Kind: ref.Kind, Resource: row.Plural(ref.Kind), Name: "main",
		UID: "uid-main", Stopped: true}
	revision := resources.MakeOwnerRecord(set, sleep, doc)
	revision.UID, revision.ResourceVersion = "uid-record", "9"
	link, _ := api.LoadLink(revision)
	return pauseowner.OwnerRecord{Revision: revision, Link: link, Owner: &doc, Row: row, Resource: resource,
		Object: patchedOwner(t, object, hold)}
}

func patchedOwner(t *testing.T, object *unstructured.Unstructured, actions []plan.Action) *unstructured.Unstructured {
	t.Helper()
	next, err := build.Patched(object, actions...)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// TestRefusedSleepKeepsStoppedMembers: an operator has stopped a set of three members for a sleep, but the sleep is refused, because its
// functions were away for DRYDOCK_PLAN_TIMEOUT. The operator starts the members one by one when pause-owner ends the stop.
func TestRefusedSleepKeepsStoppedMembers(t *testing.T) {
	for started, replicas := range map[string]int32{"it has started none": 0, "it has started the first": 1} {
		t.Run(started, func(t *testing.T) {
			sleep := build.Sleep(api.Planned, build.OwnerStops(), build.SleepDue(-time.Second))
			set := web(build.Replicas(replicas), build.ReplicaCounts(replicas, replicas), build.ControlledBy("PerconaXtraDBCluster", "main"),
				settledRecord(3), build.WithSleep(sleep))
			records := []pauseowner.OwnerRecord{stoppedCluster(t, set, sleep)}
			for range 10 {
				p := pauseowner.Decide(pauseowner.Input{Observed: build.World(set), Namespace: build.Namespace, Settings: build.SleepSettings(),
					OwnerRecords: records})
				if p.Kind != plan.KindDo {
					break
				}
				set = afterPlan(set, p)
				for _, a := range p.Actions {
					switch {
					case a.Resource == plan.ControllerRevisions && a.Verb == plan.VerbDelete:
						records = nil
					case len(records) > 0 && a.Resource == records[0].Resource:
						records[0].Object = patchedOwner(t, records[0].Object, []plan.Action{a})
					}
				}
				// idle-timeout gets each change, too
				set = afterPlan(set, idleTimeout(build.Now, "web", set))
			}
			if len(records) > 0 {
				t.Fatal("the record of the owner stays")
			}
			objects := []metav1.Object{set, usedClaim("data-web-0"), usedClaim("data-web-1"), usedClaim("data-web-2")}
			if replicas > 0 {
				objects = append(objects, replica(0))
			}
			expectCleanupWithoutSleep(t, objects...)
			in, err := functionOn(t, read(objects...)).observe(t.Context(), ref, false)
			if err != nil {
				t.Fatal(err)
			}
			in.PodRejected, in.Doubt = "", ""
			if p := Decide(in); p.Reason == api.CleanupStarted {
				t.Errorf("the claims of the members that the operator starts next are cleaned up: %s; sleep: %s", p,
					set.Annotations[api.SleepAnnotation])
			}
		})
	}
}
