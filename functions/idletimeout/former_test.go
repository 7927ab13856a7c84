package idletimeout

import (
	"reflect"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

// restored gives a set the state after the restore of a backup that was made while the former set of this name slept.
func restored(name string, options ...func(*api.Sleep)) build.Option {
	options = append([]func(*api.Sleep){build.AsleepFor(time.Hour), func(s *api.Sleep) {
		s.Set = api.SetRef{Name: name, UID: "uid-before"}
	}}, options...)
	record := build.Annotation(api.SleepAnnotation, build.Sleep(api.Asleep, options...).Encode())
	return func(o metav1.Object) {
		build.Replicas(0)(o)
		record(o)
		build.Generation(1)(o)
	}
}

// TestRestoredSetTakesOverItsSleep: a set that was restored from a backup of a sleeping set sleeps, and wakes with the former count.
func TestRestoredSetTakesOverItsSleep(t *testing.T) {
	p := Decide(on(web(restored("web", build.OriginalWhenScaled(appsv1.DeletePersistentVolumeClaimRetentionPolicyType)))))
	asleep := build.StoredSleep(p)
	if asleep == nil || asleep.Phase != api.Asleep || asleep.Replicas != 3 || asleep.Set.UID != "uid-web" ||
		asleep.WhenScaled != appsv1.DeletePersistentVolumeClaimRetentionPolicyType || p.Actions[0].Resource != plan.ControllerRevisions {
		t.Fatalf("%s: %s", p, build.Words(asleep))
	}
	if p := Decide(on(web(zero, build.WithSleep(asleep)))); p.Kind == plan.KindDo {
		t.Errorf("nothing needs the set: %s", p)
	}
	woken := build.StoredSleep(Decide(on(web(zero, build.WithSleep(asleep), build.AwakeFor(time.Hour)))))
	if woken == nil || woken.Phase != api.Waking || woken.Replicas != 3 {
		t.Errorf("after a visit: %s", build.Words(woken))
	}
	paused := build.StoredSleep(Decide(on(web(restored("web"), build.Paused()))))
	if paused == nil || paused.Request != idle.RequestPaused {
		t.Errorf("a paused set: %s", build.Words(paused))
	}
}

// TestFormerSleepCountsOnlyAtCreation: if the spec was changed after the creation of a set, another client may have scaled it to zero.
func TestFormerSleepCountsOnlyAtCreation(t *testing.T) {
	ended := build.Sleep(api.Succeeded, func(s *api.Sleep) { s.Set.UID = "uid-before" })
	for situation, set := range map[string]*appsv1.StatefulSet{
		"a user scaled the restored set up, and to zero again": web(restored("web"), build.Generation(3)),
		"the former set did not sleep":                         web(restored("web"), build.Annotation(api.SleepAnnotation, ended.Encode())),
		"the record is that of another set":                    web(restored("db")),
		"an operator has its own count":                        web(restored("web"), build.ControlledBy("Database", "main")),
		"the set was created with its replicas":                web(restored("web"), build.Replicas(3)),
		"the set has not opted in":                             build.With(web(restored("web")), build.Label(api.ManagedLabel, "false")),
	} {
		if record := build.StoredSleep(Decide(on(build.With(set, build.AwakeFor(time.Hour))))); record != nil {
			t.Errorf("%s: %s", situation, build.Words(record))
		}
	}
}

// TestRestoredGroupWakesTogether: web depends on db, and the visit is for web only.
func TestRestoredGroupWakesTogether(t *testing.T) {
	c := newCluster(t, staleWeb(shop, restored("web"), build.DependsOn("db"),
		build.Annotation(api.AwakeUntilAnnotation, idle.FormatTime(time.Now().Add(time.Hour)))), member("db", shop, restored("db")))
	handle(t, c.function(build.SleepSettings()), newEvent(events.ObjectChanged, "1", time.Now(), aboutWeb))
	if db := c.set("db"); statefulset.Replicas(db) != 3 {
		t.Errorf("db has %d replicas: %s", statefulset.Replicas(db), build.Words(idle.MemberOf(db).Sleep))
	}
	if m := idle.MemberOf(c.set("web")); !m.Sleep.Active() || m.Sleep.Phase != api.Waking {
		t.Errorf("web: %s", build.Words(m.Sleep))
	}
}

// TestRestoredSetWithScalerWakes: a namespace was restored from a backup that was made while its set with a Scaler slept. The Scaler is
// in the backup as idle-timeout left it: paused. docs/operations.md: each set wakes with its former count at the next visit.
func TestRestoredSetWithScalerWakes(t *testing.T) {
	pilot := &v1alpha1.Scaler{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "pilot", UID: "uid-pilot", ResourceVersion: "5"},
		Spec: v1alpha1.ScalerSpec{Target: "web", Replicas: ptr.To[int32](3), Paused: true}}
	visited := build.Annotation(api.AwakeUntilAnnotation, idle.FormatTime(time.Now().Add(time.Hour)))
	for name, row := range map[string]*appsv1.StatefulSet{
		"the visit comes first":    staleWeb(restored("web"), visited),
		"scale-hooks took it over": scaledByPilot(staleWeb(restored("web"), visited)),
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, row, pilot.DeepCopy())
			handle(t, c.function(build.SleepSettings()), newEvent(events.ObjectChanged, "1", time.Now(), aboutWeb))
			set := c.set("web")
			scaler := &v1alpha1.Scaler{}
			for _, o := range c.objects["scalers"] {
				scaler = o.(*v1alpha1.Scaler)
			}
			if woken := idle.MemberOf(set).Sleep.Active(); !woken || scaler.Spec.Paused {
				t.Errorf("woken %t (replicas %d), the Scaler is paused %t: it keeps the set at zero, or scales it to zero after the wake-up",
					woken, statefulset.Replicas(set), scaler.Spec.Paused)
			}
		})
	}
}

// TestWakeOfRestoredSetIsNotLost: the first event about a restored set is a wake-up. It arrived at the end of a second, and the take-over
// happens in the next second.
func TestWakeOfRestoredSetIsNotLost(t *testing.T) {
	for _, kind := range []string{events.Wake, events.Activity} {
		for name, first := range map[string]*appsv1.StatefulSet{
			"restored": web(restored("web")),
			"asleep":   web(zero, build.WithSleep(build.Sleep(api.Asleep, build.AsleepFor(time.Hour)))),
		} {
			set := first
			woke := false
			for range 4 {
				in := on(set).withSignal(kind, 200*time.Millisecond) // one second earlier on the clock
				p := Decide(in)
				for _, a := range p.Actions {
					for _, op := range a.Ops {
						text, ok := op.Value.(string)
						switch {
						case ok && op.Path == "/metadata/annotations/drydock.dev~1sleep":
							set = build.With(set.DeepCopy(), build.Annotation(api.SleepAnnotation, text))
						case ok && op.Path == "/metadata/annotations/drydock.dev~1last-activity":
							set = build.With(set.DeepCopy(), build.Annotation(api.LastActivityAnnotation, text))
						}
					}
				}
				if s := build.StoredSleep(p); s != nil && s.Phase == api.Waking {
					woke = true
				}
			}
			if !woke {
				t.Errorf("%s, %s: the set is needed and stays asleep: %s, last activity %s", kind, name, build.Words(idle.MemberOf(set).Sleep),
					set.Annotations[api.LastActivityAnnotation])
			}
		}
	}
}

// TestInterruptedTakeOverContinues: the process died after it created the record, or the write to the set was rejected.
func TestInterruptedTakeOverContinues(t *testing.T) {
	for name, set := range map[string]*appsv1.StatefulSet{"idle": web(restored("web")), "paused": web(restored("web"), build.Paused())} {
		in := on(set)
		p := Decide(in)
		var record *appsv1.ControllerRevision
		for _, a := range p.Actions {
			if a.Verb == plan.VerbCreate && a.Resource == plan.ControllerRevisions {
				record = a.Object.(*appsv1.ControllerRevision)
			}
		}
		in.Records["web"] = []Record{{Revision: record, Link: api.RevisionLink(record)}}
		in.Now = in.Now.Add(time.Minute)
		p = Decide(in)
		if s := build.StoredSleep(p); s == nil || s.Phase != api.Asleep {
			t.Errorf("%s: nothing needs the set, but %s: %s", name, p, build.Words(s))
		}
	}
}

// TestRejectedTakeOver: the API server rejects the ControllerRevision (a quota, a policy). A visit needs the set.
func TestRejectedTakeOver(t *testing.T) {
	in := on(web(restored("web"), build.AwakeFor(time.Hour)))
	in.RejectedRecords = map[string]string{"web": "exceeded quota"}
	p := Decide(in)
	for _, a := range p.Actions {
		if a.Verb == plan.VerbCreate && a.Resource == plan.ControllerRevisions {
			t.Errorf("the rejected write is repeated, so the set never wakes and each event fails: %s", p)
		}
	}
	if s := build.StoredSleep(p); s == nil || s.Phase != api.Asleep {
		t.Errorf("the set does not take over the sleep: %s", p)
	}
}

// restoredScaler returns the paused Scaler of a restored set.
func restoredScaler(replicas int32) *v1alpha1.Scaler {
	return &v1alpha1.Scaler{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "pilot", UID: "uid-pilot", ResourceVersion: "5"},
		Spec: v1alpha1.ScalerSpec{Target: "web", Replicas: &replicas, Paused: true}}
}

// pilotOf returns the only Scaler of the cluster.
func pilotOf(t *testing.T, c *cluster) *v1alpha1.Scaler {
	t.Helper()
	if len(c.objects["scalers"]) != 1 {
		t.Fatalf("there are %d Scalers, want 1", len(c.objects["scalers"]))
	}
	return c.objects["scalers"][0].(*v1alpha1.Scaler)
}

// pausedPilot reports whether the only Scaler is paused.
func pausedPilot(t *testing.T, c *cluster) bool {
	t.Helper()
	return pilotOf(t, c).Spec.Paused
}

// TestVisitOfRestoredSetWithoutItsRecord: the API server rejects ControllerRevisions, for example because of a quota. A visitor needs the
// restored set.
func TestVisitOfRestoredSetWithoutItsRecord(t *testing.T) {
	visited := build.Annotation(api.AwakeUntilAnnotation, idle.FormatTime(time.Now().Add(time.Hour)))
	for name, scalers := range map[string][]metav1.Object{"alone": nil, "with its Scaler": {restoredScaler(3)}} {
		c := newCluster(t, staleWeb(restored("web"), visited))
		c.objects["scalers"] = scalers
		c.refuse, c.refuseOf = "metadata", []string{"controllerrevisions"}
		for _, id := range []string{"1", "2", "3"} {
			handle(t, c.function(build.SleepSettings()), newEvent(events.ObjectChanged, id, time.Now(), aboutWeb))
		}
		m := idle.MemberOf(c.set("web"))
		if statefulset.Replicas(m.Set) != 3 {
			t.Errorf("%s: no write of the replicas was rejected, and the set does not start: %s", name, build.Words(m.Sleep))
		}
		if scalers != nil && pausedPilot(t, c) {
			t.Errorf("%s: the Scaler stays paused, so scale-hooks stops the set that is in use", name)
		}
	}
}

// TestTakeOverOfEndedPause: the former set slept because a user had paused it. The restored set is not paused.
func TestTakeOverOfEndedPause(t *testing.T) {
	asleep := build.StoredSleep(Decide(on(web(restored("web", build.SleepCause(idle.RequestPaused))))))
	p := Decide(on(web(zero, build.WithSleep(asleep))))
	if woken := build.StoredSleep(p); woken == nil || woken.Phase != api.Waking {
		t.Errorf("the pause is over, and the set stays at zero: %s, after the take-over %s", p, build.Words(asleep))
	}
}

// TestFormerSleepEndsNoPauseOfAUser: a client that may only create StatefulSets creates one with the forged record of a former sleep. A
// user has stopped the set by its Scaler. scale-hooks may have taken the set over already.
func TestFormerSleepEndsNoPauseOfAUser(t *testing.T) {
	visited := build.Annotation(api.AwakeUntilAnnotation, idle.FormatTime(time.Now().Add(time.Hour)))
	for name, change := range map[string]func(*v1alpha1.Scaler){
		"a user has paused it since": func(s *v1alpha1.Scaler) { s.Generation = 7 },
		"the user requests no member": func(s *v1alpha1.Scaler) {
			s.Spec.Replicas = ptr.To[int32](0)
		},
	} {
		for _, recorded := range []bool{false, true} {
			pilot := &v1alpha1.Scaler{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "pilot", UID: "uid-pilot",
				ResourceVersion: "5", Generation: 1}, Spec: v1alpha1.ScalerSpec{Target: "web", Replicas: ptr.To[int32](3), Paused: true}}
			change(pilot)
			set := staleWeb(restored("web", func(s *api.Sleep) { s.Replicas = 700 }), visited)
			if recorded {
				set = scaledByPilot(set)
			}
			before := pilot.DeepCopy()
			c := newCluster(t, set, pilot)
			handle(t, c.function(build.SleepSettings()), newEvent(events.ObjectChanged, "1", time.Now(), aboutWeb))
			if !pausedPilot(t, c) || !reflect.DeepEqual(before.Spec, pilotOf(t, c).Spec) {
				t.Errorf("%s, scale-hooks first %t: the Scaler was %+v; now %+v", name, recorded, before.Spec, pilotOf(t, c).Spec)
			}
		}
	}
}

// TestPauseOfAUserEndsAFormerSleep: the restored set sleeps, and a user pauses its Scaler. The sleep ends, and the set stays at zero.
func TestPauseOfAUserEndsAFormerSleep(t *testing.T) {
	asleep := build.StoredSleep(guarded(t, on(web(restored("web")))))
	in := on(web(zero, build.WithSleep(asleep)))
	in.UserPaused = map[string]bool{"web": true}
	if ended := build.StoredSleep(guarded(t, in)); ended == nil || ended.Phase != api.Succeeded || ended.Reason != api.SetPaused {
		t.Errorf("the sleep is %s", build.Words(ended))
	}
}

// TestRestoredSetThatWasWakingWakes: the backup was made while the former set was waking, and at zero: a quota rejected its replicas.
func TestRestoredSetThatWasWakingWakes(t *testing.T) {
	waking := func(s *api.Sleep) {
		s.Phase, s.Reason, s.Message = api.Waking, api.StartRefused, "the API server rejected 3 replicas: exceeded quota"
	}
	set := web(restored("web", waking))
	for i := range 4 {
		in := on(set)
		in.Now = in.Now.Add(time.Duration(i) * time.Hour)
		s := build.StoredSleep(Decide(in))
		if s == nil {
			t.Fatalf("the set was needed, and stays at zero: %s", build.Words(in.Group[0].Sleep))
		}
		if s.Phase == api.Waking {
			return
		}
		set = web(zero, build.WithSleep(s))
	}
	t.Errorf("the set was needed, and does not wake: %s", build.Words(idle.MemberOf(set).Sleep))
}

// TestRestoredScalerIsNotTakenForAUsersPause: a namespace was restored from a backup of a sleeping set, the Scaler not after the set.
func TestRestoredScalerIsNotTakenForAUsersPause(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	visited := build.Annotation(api.AwakeUntilAnnotation, idle.FormatTime(now.Add(time.Hour)))
	for name, row := range map[string]struct {
		created    time.Time
		generation int64
	}{
		"the clock of idle-timeout is two minutes slow": {now.Add(2 * time.Minute), 1},
		"another field was written since":               {now, 2}, // scale-hooks: setRequestedCount; a user: spec.mode
	} {
		pilot := &v1alpha1.Scaler{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "pilot", UID: "uid-pilot",
			ResourceVersion: "5", Generation: row.generation, CreationTimestamp: metav1.NewTime(row.created),
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "kubectl-create", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:paused":{},"f:target":{}}}`)}},
				{Manager: api.FieldManager, FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:replicas":{}}}`)}}}},
			Spec: v1alpha1.ScalerSpec{Target: "web", Replicas: ptr.To[int32](3), Paused: true}}
		set := staleWeb(restored("web"), visited)
		set.CreationTimestamp = metav1.NewTime(row.created)
		c := newCluster(t, scaledByPilot(set), pilot)
		for _, id := range []string{"1", "2", "3"} {
			handle(t, c.function(build.SleepSettings()), newEvent(events.ObjectChanged, id, time.Now(), aboutWeb))
		}
		if pausedPilot(t, c) {
			t.Errorf("%s: a visitor needs the set; it is left at zero: %s", name, build.Words(idle.MemberOf(c.set("web")).Sleep))
		}
	}
}
