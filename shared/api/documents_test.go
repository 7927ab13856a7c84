package api

import (
	"bytes"
	"encoding/json"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
)

// fixture returns a stored document. These files never change, because later versions must read stored documents. A new version of
// a document gets a new file.
func fixture(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// uid is the UID of the set in the fixtures.
const uid = "5d1f7a52-9c0e-4a58-8d0c-0a3c58a6b7f1"

// stored returns the document as Drydock stores it, without spaces. A damaged one stays the same.
func stored(text string) string {
	var compact bytes.Buffer
	if json.Compact(&compact, []byte(text)) != nil {
		return text
	}
	return compact.String()
}

func annotatedSet(key, value string) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: uid, Annotations: map[string]string{key: stored(value)},
	}}
}

func setWithStatus(text string) *appsv1.StatefulSet  { return annotatedSet(StatusAnnotation, text) }
func setWithSleep(text string) *appsv1.StatefulSet   { return annotatedSet(SleepAnnotation, text) }
func setWithCleanup(text string) *appsv1.StatefulSet { return annotatedSet(CleanupAnnotation, text) }
func setWithScale(text string) *appsv1.StatefulSet   { return annotatedSet(ScaleAnnotation, text) }
func setWithLetters(text string) *appsv1.StatefulSet {
	return annotatedSet(DeadLettersAnnotation, text)
}

func claimWith(label, link string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data-web-0",
		Labels: map[string]string{OperationLabel: label}, Annotations: map[string]string{OperationAnnotation: link}}}
}

func journalWith(raw []byte, recreate string) *appsv1.ControllerRevision {
	revision := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "drydock-0123456789ab"}, Data: kruntime.RawExtension{Raw: raw},
	}
	if recreate != "" {
		revision.Annotations = map[string]string{RecreateAnnotation: recreate}
	}
	return revision
}

func volumeFor(claim string, manifest string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-2", Annotations: map[string]string{ClaimManifestAnnotation: manifest}},
		Spec:       corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: claim}},
	}
}

// TestReleasedDocumentsLoadForEver checks every field: a document that was read is written without differences.
func TestReleasedDocumentsLoadForEver(t *testing.T) {
	checkSame := func(name string, text []byte, written string) {
		t.Helper()
		var before, after any
		if err := json.Unmarshal(text, &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(written), &after); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("%s is written back with differences (-before +after):\n%s", name, diff)
		}
	}
	text := fixture(t, "status-v2.json")
	status, err := LoadResize(setWithStatus(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	checkSame("status-v2.json", text, status.Encode())
	if deadline := time.Date(2026, 3, 1, 12, 20, 0, 0, time.UTC); !status.Deadline.Time.Equal(deadline) || status.Active() ||
		status.Move("data-web-1").To.String() != "20Gi" || status.Member(1).Phase != MemberStarting || len(status.Moves()) != 2 {
		t.Errorf("%+v", status)
	}

	text = fixture(t, "status-v2-traced.json") // the same, with tracing on
	if status, err = LoadResize(setWithStatus(string(text))); err != nil || status.Trace == "" {
		t.Fatalf("%+v, %v", status, err)
	}
	checkSame("status-v2-traced.json", text, status.Encode())

	text = fixture(t, "sleep-v2.json")
	sleep, err := LoadSleep(setWithSleep(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	checkSame("sleep-v2.json", text, sleep.Encode())
	if sleep.Kind != KindSleep || !sleep.OwnerStops || sleep.Replicas != 3 || sleep.Step != StartedForOwner ||
		sleep.Annotation() != SleepAnnotation {
		t.Errorf("%+v", sleep)
	}

	text = fixture(t, "stop-v2.json")
	stop, err := LoadStopRecord(journalWith(text, ""))
	if err != nil || !stop.Of(sleep) || stop.Pending() || !stop.Again || stop.WhenScaled != "Delete" || stop.RefusedAt == nil {
		t.Fatalf("%+v, %v", stop, err)
	}
	checkSame("stop-v2.json", text, string(StopRecord{Version: RecordVersion, Stop: *stop}.Encode()))
	if diff := cmp.Diff(stop, LoadStop(annotatedSet(StopAnnotation, stop.Encode()))); diff != "" {
		t.Errorf("the annotation is read with differences:\n%s", diff)
	}

	text = fixture(t, "cleanup-v2.json")
	doc, err := LoadCleanup(setWithCleanup(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	checkSame("cleanup-v2.json", text, doc.Encode())
	if doc.Kind != KindCleanup || doc.Active() || *doc.Span != (Span{Start: 1, End: 4}) || len(doc.Ordinals) != 4 ||
		doc.Ordinals[1].NextTry == nil || doc.Annotation() != CleanupAnnotation {
		t.Errorf("%+v", doc)
	}

	text = fixture(t, "scale-v2.json")
	scale, err := LoadScale(setWithScale(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	checkSame("scale-v2.json", text, scale.Encode())
	if scale.Kind != KindScale || scale.Active() || scale.Previous != 3 || scale.Target != 1 || scale.Scaler.Name != "pilot" ||
		scale.Scaler.UID == "" ||
		scale.FailedAt != PreScaling || scale.Annotation() != ScaleAnnotation {
		t.Errorf("%+v", scale)
	}

	text = fixture(t, "link-v1-cleaner.json")
	cleaner, err := LoadLink(claimWith("c0ffee012345", string(text)))
	if err != nil || cleaner.Role != RoleCleaner || cleaner.Claims["logs-web-5"] != "2d1f7a52-9c0e-4a58-8d0c-0a3c58a6b7f1" {
		t.Fatalf("%+v, %v", cleaner, err)
	}
	checkSame("link-v1-cleaner.json", text, cleaner.Encode())

	text = fixture(t, "link-v1.json")
	link, err := LoadLink(claimWith("0123456789ab", string(text)))
	if err != nil {
		t.Fatal(err)
	}
	checkSame("link-v1.json", text, link.Encode())

	text = fixture(t, "link-v1-mover.json")
	mover, err := LoadLink(claimWith("0123456789ab", string(text)))
	if err != nil || mover.Role != RoleMover || mover.Member == nil || *mover.Member != 0 {
		t.Fatalf("%+v, %v", mover, err)
	}
	checkSame("link-v1-mover.json", text, mover.Encode())

	text = fixture(t, "journal-v2.json")
	journal, err := LoadJournal(journalWith(text, ""))
	if err != nil {
		t.Fatal(err)
	}
	checkSame("journal-v2.json", text, string(journal.Encode()))

	text = fixture(t, "dead-letters-v1.json")
	letters, err := LoadDeadLetters(setWithLetters(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	checkSame("dead-letters-v1.json", text, EncodeDeadLetters(letters))

	manifest, err := LoadManifest(journalWith(nil, string(fixture(t, "recreate-v1.json"))))
	if err != nil || manifest.Name != "web" || manifest.UID == "" || manifest.ResourceVersion != "4711" || *manifest.Spec.Replicas != 0 {
		t.Errorf("%+v, %v", manifest, err)
	}
	claim, err := LoadClaim(volumeFor("data-web-0", string(fixture(t, "claim-v1.json"))))
	if err != nil || claim.Spec.VolumeName != "pvc-2" || claim.Spec.Resources.Requests.Storage().String() != "20Gi" {
		t.Errorf("%+v, %v", claim, err)
	}
}

func TestAbsentDocumentLoadsAsNil(t *testing.T) {
	if s, err := LoadResize(&appsv1.StatefulSet{}); s != nil || err != nil {
		t.Errorf("status %v, %v", s, err)
	}
	if s, err := LoadSleep(setWithStatus(string(fixture(t, "status-v2.json")))); s != nil || err != nil {
		t.Errorf("sleep %v, %v", s, err)
	}
	if s, err := LoadResize(setWithSleep(string(fixture(t, "sleep-v2.json")))); s != nil || err != nil {
		t.Errorf("status %v, %v", s, err)
	}
	if s, err := LoadCleanup(setWithSleep(string(fixture(t, "sleep-v2.json")))); s != nil || err != nil {
		t.Errorf("cleanup %v, %v", s, err)
	}
	if s, err := LoadResize(setWithCleanup(string(fixture(t, "cleanup-v2.json")))); s != nil || err != nil {
		t.Errorf("status %v, %v", s, err)
	}
	if s, err := LoadScale(setWithCleanup(string(fixture(t, "cleanup-v2.json")))); s != nil || err != nil {
		t.Errorf("scale %v, %v", s, err)
	}
	if l, err := LoadLink(&corev1.Pod{}); l != nil || err != nil {
		t.Errorf("link %v, %v", l, err)
	}
	if m, err := LoadManifest(journalWith(nil, "")); m != nil || err != nil {
		t.Errorf("manifest %v, %v", m, err)
	}
	if l, err := LoadDeadLetters(&appsv1.StatefulSet{}); l != nil || err != nil {
		t.Errorf("dead letters %v, %v", l, err)
	}
	if c, err := LoadClaim(&corev1.PersistentVolume{}); c != nil || err != nil {
		t.Errorf("claim %v, %v", c, err)
	}
	var none *Resize
	if none.Active() {
		t.Error("no status is not active")
	}
	var unscaled *Scale
	if unscaled.Active() {
		t.Error("no scaling is not active")
	}
}

// TestUnreadableDocumentIsAnError: if garbage counted as "no operation", a second operation would start beside the first.
func TestUnreadableDocumentIsAnError(t *testing.T) {
	status := string(fixture(t, "status-v2.json"))
	link := string(fixture(t, "link-v1.json"))
	journal := string(fixture(t, "journal-v2.json"))
	recreate := string(fixture(t, "recreate-v1.json"))
	claim := string(fixture(t, "claim-v1.json"))
	letters := string(fixture(t, "dead-letters-v1.json"))
	loadLetters := func(text string) error { _, err := LoadDeadLetters(setWithLetters(text)); return err }
	sleep := string(fixture(t, "sleep-v2.json"))
	loadSleep := func(text string) error { _, err := LoadSleep(setWithSleep(text)); return err }
	cleanup := string(fixture(t, "cleanup-v2.json"))
	loadCleanup := func(text string) error { _, err := LoadCleanup(setWithCleanup(text)); return err }
	scale := string(fixture(t, "scale-v2.json"))
	loadScale := func(text string) error { _, err := LoadScale(setWithScale(text)); return err }
	loadStatus := func(text string) error { _, err := LoadResize(setWithStatus(text)); return err }
	loadLink := func(label, text string) error { _, err := LoadLink(claimWith(label, text)); return err }
	loadJournal := func(text string) error { _, err := LoadJournal(journalWith([]byte(text), "")); return err }
	loadManifest := func(text string) error { _, err := LoadManifest(journalWith(nil, text)); return err }
	loadClaim := func(name, text string) error { _, err := LoadClaim(volumeFor(name, text)); return err }
	replace := func(text, former, next string) string { return strings.Replace(text, former, next, 1) }
	without := func(text, part string) string {
		if !strings.Contains(text, part) {
			t.Fatalf("%q is not in %s", part, text)
		}
		return strings.Replace(text, part, "", 1)
	}
	for name, err := range map[string]error{
		"status: empty":                                      loadStatus(""),
		"status: null":                                       loadStatus("null"),
		"status: an empty document":                          loadStatus("{}"),
		"status: cut off":                                    loadStatus(status[:len(status)/2]),
		"status: followed by more text":                      loadStatus(status + "{}"),
		"status: of a future version":                        loadStatus(replace(status, `"version": 2`, `"version": 3`)),
		"status: of an earlier version":                      loadStatus(replace(status, `"version": 2`, `"version": 1`)),
		"status: without version":                            loadStatus(without(status, `"version": 2,`)),
		"status: without operation":                          loadStatus(without(status, `"operation": "0123456789ab",`)),
		"status: without phase":                              loadStatus(without(status, `"phase": "Failed",`)),
		"status: a phase of another kind":                    loadStatus(replace(status, `"phase": "Failed"`, `"phase": "Asleep"`)),
		"status: without set":                                loadStatus(replace(status, `"name": "web"`, `"name": ""`)),
		"status: a field of another type":                    loadStatus(replace(status, `"ordinal": 1`, `"ordinal": "1"`)),
		"status: an invalid size":                            loadStatus(replace(status, `"20Gi"`, `"lots"`)),
		"status: a size that takes minutes to parse":         loadStatus(replace(status, `"20Gi"`, `"1e-99999999"`)),
		"status: a claim's size that takes minutes to parse": loadStatus(replace(status, `"10Gi"`, `"1e99999999"`)),
		"sleep: empty":                                       loadSleep(""),
		"sleep: null":                                        loadSleep("null"),
		"sleep: cut off":                                     loadSleep(sleep[:len(sleep)/2]),
		"sleep: of a future version":                         loadSleep(replace(sleep, `"version": 2`, `"version": 3`)),
		"sleep: without operation":                           loadSleep(without(sleep, `"operation": "ba9876543210",`)),
		"sleep: without phase":                               loadSleep(without(sleep, `"phase": "Failed",`)),
		"sleep: without set":                                 loadSleep(replace(sleep, `"name": "web"`, `"name": ""`)),
		"sleep: without kind":                                loadSleep(without(sleep, `"kind": "Sleep",`)),
		"sleep: a resize":                                    loadSleep(status),
		"sleep: replicas as a string":                        loadSleep(replace(sleep, `"replicas": 3`, `"replicas": "3"`)),
		"sleep: more replicas than an int32 holds":           loadSleep(replace(sleep, `"replicas": 3`, `"replicas": 99999999999`)),
		"cleanup: empty":                                     loadCleanup(""),
		"cleanup: null":                                      loadCleanup("null"),
		"cleanup: cut off":                                   loadCleanup(cleanup[:len(cleanup)/2]),
		"cleanup: of a future version":                       loadCleanup(replace(cleanup, `"version": 2`, `"version": 3`)),
		"cleanup: without operation":                         loadCleanup(without(cleanup, `"operation": "c0ffee012345",`)),
		"cleanup: without phase":                             loadCleanup(without(cleanup, `"phase": "Failed",`)),
		"cleanup: without set":                               loadCleanup(replace(cleanup, `"name": "web"`, `"name": ""`)),
		"cleanup: without kind":                              loadCleanup(without(cleanup, `"kind": "Cleanup",`)),
		"cleanup: a sleep":                                   loadCleanup(sleep),
		"sleep: a cleanup":                                   loadSleep(cleanup),
		"scale: empty":                                       loadScale(""),
		"scale: null":                                        loadScale("null"),
		"scale: cut off":                                     loadScale(scale[:len(scale)/2]),
		"scale: followed by more text":                       loadScale(scale + "{}"),
		"scale: of a future version":                         loadScale(replace(scale, `"version": 2`, `"version": 3`)),
		"scale: without operation":                           loadScale(without(scale, `"operation": "5ca1e0012345",`)),
		"scale: without phase":                               loadScale(without(scale, `"phase": "Failed",`)),
		"scale: a phase of another kind":                     loadScale(replace(scale, `"phase": "Failed"`, `"phase": "Refused"`)),
		"scale: without set":                                 loadScale(replace(scale, `"name": "web"`, `"name": ""`)),
		"scale: without kind":                                loadScale(without(scale, `"kind": "Scale",`)),
		"scale: a sleep":                                     loadScale(sleep),
		"scale: a count as a string":                         loadScale(replace(scale, `"target": 1`, `"target": "1"`)),
		"scale: more members than an int32 holds":            loadScale(replace(scale, `"target": 1`, `"target": 99999999999`)),
		"cleanup: an ordinal as a string":                    loadCleanup(replace(cleanup, `"ordinal": 5`, `"ordinal": "5"`)),
		"cleanup: an invalid time of a try":                  loadCleanup(replace(cleanup, `"2026-03-01T12:35:10Z"`, `"soon"`)),
		"link: claims as a list":                             loadLink("0123456789ab", replace(link, `"claim": "data-web-0"`, `"claims": []`)),
		"journal: a size that takes minutes to parse":        loadJournal(replace(journal, `"10Gi"`, `"1e99999999"`)),
		"link: a member as a string":                         loadLink("0123456789ab", replace(link, `"claim": "data-web-0"`, `"member": "0"`)),
		"link: garbage":                                      loadLink("0123456789ab", "{"),
		"link: null":                                         loadLink("0123456789ab", "null"),
		"link: another operation in the label":               loadLink("other", link),
		"link: without label":                                loadLink("", link),
		"link: without operation":                            loadLink("", without(link, `"operation": "0123456789ab",`)),
		"link: without set":                                  loadLink("0123456789ab", replace(link, `"name": "web"`, `"name": ""`)),
		"journal: empty":                                     loadJournal(""),
		"journal: null":                                      loadJournal("null"),
		"journal: of a future version":                       loadJournal(replace(journal, `"version": 2`, `"version": 3`)),
		"journal: status of a future version": loadJournal(
			replace(strings.Replace(journal, `"version": 2`, `"version": 9`, 2), `"version": 9`, `"version": 2`)),
		"journal: without status":                         loadJournal(`{"version":2}`),
		"letters: empty":                                  loadLetters(""),
		"letters: null":                                   loadLetters("null"),
		"letters: a list without its document":            loadLetters("[]"),
		"letters: cut off":                                loadLetters(letters[:len(letters)/2]),
		"letters: of a future version":                    loadLetters(replace(letters, `"version": 1`, `"version": 2`)),
		"letters: without type":                           loadLetters(without(letters, `"type": "dev.drydock.object.changed",`)),
		"letters: without id":                             loadLetters(without(letters, `"id": "uid-web/4711/backup+restore",`)),
		"letters: without time":                           loadLetters(replace(letters, `"time": "2026-03-01T12:00:00Z"`, `"time": null`)),
		"letters: a code as a string":                     loadLetters(replace(letters, `422`, `"422"`)),
		"letters: more than the maximum":                  loadLetters(EncodeDeadLetters(manyLetters(MaxDeadLetters + 1))),
		"manifest: garbage":                               loadManifest("{"),
		"manifest: of another namespace":                  loadManifest(replace(recreate, `"shop"`, `"payroll"`)),
		"manifest: without name":                          loadManifest(replace(recreate, `"name": "web"`, `"name": ""`)),
		"claim: garbage":                                  loadClaim("data-web-0", "{"),
		"claim: the volume is reserved for another claim": loadClaim("data-web-1", claim),
		"claim: for another namespace":                    loadClaim("data-web-0", replace(claim, `"shop"`, `"payroll"`)),
		"claim: on another volume":                        loadClaim("data-web-0", replace(claim, `"pvc-2"`, `"pvc-3"`)),
	} {
		if err == nil {
			t.Errorf("%s: it loads", name)
		}
	}
	unreserved := volumeFor("data-web-0", claim)
	unreserved.Spec.ClaimRef = nil
	if _, err := LoadClaim(unreserved); err == nil {
		t.Error("claim: the volume is reserved for no claim: it loads")
	}
	if HasLink(claimWith("other", link), "0123456789ab", RoleTarget) {
		t.Error("an unreadable link connects the object with an operation")
	}
}

func manyLetters(n int) []UndeliveredEvent {
	letters := make([]UndeliveredEvent, n)
	for i := range letters {
		letters[i] = UndeliveredEvent{Type: "t", Source: "s", ID: "i", Subject: "o", Code: i, Time: metav1.Now()}
	}
	return letters
}

// TestDeadLetterKeyIdentifiesFailure: time, id and words do not change the key; type, object, operation, place and status do.
func TestDeadLetterKeyIdentifiesFailure(t *testing.T) {
	letter := UndeliveredEvent{Type: "t", Source: "s", ID: "1", Subject: "o", Operation: "op", Destination: "http://backup", Code: 422}
	for name, row := range map[string]struct {
		change func(*UndeliveredEvent)
		same   bool
	}{
		"another id":          {func(l *UndeliveredEvent) { l.ID = "2" }, true},
		"later":               {func(l *UndeliveredEvent) { l.Time = metav1.Now() }, true},
		"another message":     {func(l *UndeliveredEvent) { l.Message = "m" }, true},
		"sent again":          {func(l *UndeliveredEvent) { l.Resent = &metav1.Time{} }, true},
		"another type":        {func(l *UndeliveredEvent) { l.Type = "u" }, false},
		"another subject":     {func(l *UndeliveredEvent) { l.Subject = "p" }, false},
		"another operation":   {func(l *UndeliveredEvent) { l.Operation = "" }, false},
		"another destination": {func(l *UndeliveredEvent) { l.Destination = "http://restore" }, false},
		"another status":      {func(l *UndeliveredEvent) { l.Code = 0 }, false},
	} {
		other := letter
		row.change(&other)
		if same := other.Key() == letter.Key(); same != row.same {
			t.Errorf("%s: same %t", name, same)
		}
	}
}

// TestUnknownFieldsAreIgnored: a newer Drydock may add fields to the same document version.
func TestUnknownFieldsAreIgnored(t *testing.T) {
	text := bytes.Replace(fixture(t, "status-v2.json"), []byte(`"request"`), []byte(`"mood": "good", "request"`), 1)
	if _, err := LoadResize(setWithStatus(string(text))); err != nil {
		t.Error(err)
	}
}

func TestChangedCloneLeavesOriginalUnchanged(t *testing.T) {
	status, err := LoadResize(setWithStatus(string(fixture(t, "status-v2.json"))))
	if err != nil {
		t.Fatal(err)
	}
	before := status.Encode()
	clone := status.Clone()
	clone.Members[0].Phase, clone.Phase, clone.Message, clone.Expansions[0].Done = MemberMoved, Succeeded, "", false
	clone.Move("data-web-0").NewVolume = "x"
	if status.Encode() != before {
		t.Error("a change of the clone changed the original")
	}
	doc, err := LoadCleanup(setWithCleanup(string(fixture(t, "cleanup-v2.json"))))
	if err != nil {
		t.Fatal(err)
	}
	before = doc.Encode()
	other := doc.Clone()
	other.Ordinals[0].Reason, other.Ordinals = NeverUsed, append(other.Ordinals[:1], other.Ordinals[2:]...)
	if doc.Encode() != before {
		t.Error("a change of the clone's ordinals changed the original")
	}
	if status.Move("no-such-claim") != nil || status.Member(7) != nil {
		t.Error("a claim or a member that is not part of the operation was found")
	}
}

func TestTerminalPhasesAreNotActive(t *testing.T) {
	for phase, terminal := range map[Phase]bool{Planned: false, Expanding: false, Moving: false, Finishing: false, Reverting: false,
		Stopping: false, Asleep: false, Waking: false, Cleaning: false, PreScaling: false, Scaling: false, PostScaling: false, Failing: false,
		Succeeded: true, Failed: true, Refused: true} {
		if s := (&Resize{Header: Header{Phase: phase}}); phase.Terminal() != terminal || s.Active() == terminal {
			t.Errorf("%s: terminal %t, active %t", phase, phase.Terminal(), s.Active())
		}
	}
}

// TestEachKindOfRecordHasItsAnnotation: a nightly sleep must not overwrite the result of the last resize.
func TestEachKindOfRecordHasItsAnnotation(t *testing.T) {
	for _, row := range []struct {
		record interface{ Annotation() string }
		want   string
	}{{&Sleep{}, SleepAnnotation}, {&Cleanup{}, CleanupAnnotation}, {&Resize{}, StatusAnnotation}, {&Scale{}, ScaleAnnotation}} {
		if got := row.record.Annotation(); got != row.want {
			t.Errorf("a %T is in %s", row.record, got)
		}
	}
}

// TestRecordOfAnotherSetCountsAsAbsent: a record in a copied manifest says nothing about the new set.
func TestRecordOfAnotherSetCountsAsAbsent(t *testing.T) {
	for name, change := range map[string]func(*appsv1.StatefulSet){
		"another UID":  func(s *appsv1.StatefulSet) { s.UID = "uid-2" },
		"another name": func(s *appsv1.StatefulSet) { s.Name = "api" },
	} {
		set := setWithStatus(string(fixture(t, "status-v2.json")))
		set.Annotations[SleepAnnotation] = stored(string(fixture(t, "sleep-v2.json")))
		set.Annotations[CleanupAnnotation] = stored(string(fixture(t, "cleanup-v2.json")))
		set.Annotations[ScaleAnnotation] = stored(string(fixture(t, "scale-v2.json")))
		change(set)
		resize, errResize := LoadResize(set)
		sleep, errSleep := LoadSleep(set)
		cleanup, errCleanup := LoadCleanup(set)
		if resize != nil || sleep != nil || cleanup != nil || errResize != nil || errSleep != nil || errCleanup != nil {
			t.Errorf("%s: %v, %v, %v; %v, %v, %v", name, resize, sleep, cleanup, errResize, errSleep, errCleanup)
		}
		if scale, err := LoadScale(set); scale != nil || err != nil {
			t.Errorf("%s: %v, %v", name, scale, err)
		}
	}
}

// TestMemberPhaseFitsItsOperation: a rollback copies nothing, so none of its members can be in a final pass. The next step from such a
// phase would be one that no operation has.
func TestMemberPhaseFitsItsOperation(t *testing.T) {
	for name, row := range map[string]struct {
		kind    Kind
		inPlace bool
		phase   MemberPhase
		loads   bool
	}{
		"a final pass of a copy":                           {KindResize, false, MemberFinalPass, true},
		"a final pass of a rollback":                       {KindRollback, false, MemberFinalPass, false},
		"a final pass of a claim that grows in place":      {KindResize, true, MemberFinalPass, false},
		"a claim grows in place":                           {KindResize, true, MemberGrowing, true},
		"a claim that is copied grows in place":            {KindResize, false, MemberGrowing, false},
		"a claim of a rollback grows in place":             {KindRollback, true, MemberGrowing, false},
		"a swap of a rollback":                             {KindRollback, false, MemberSwapping, true},
		"a rollback retains the volumes before the stop":   {KindRollback, false, MemberCopying, true},
		"a claim that grew was deleted and is bound again": {KindResize, true, MemberSwapping, true},
		"a phase that no operation has":                    {KindResize, false, "Nonsense", false},
		"no phase":                                         {KindResize, false, "", false},
	} {
		record := &Resize{
			Header: Header{Version: RecordVersion, Operation: "0123456789ab", Kind: row.kind, Phase: Moving,
				Set: SetRef{Name: "web", UID: uid}},
			Members: []Member{{Phase: row.phase, Claims: []Move{{Claim: "data-web-0", InPlace: row.inPlace}}}},
		}
		if _, err := LoadResize(setWithStatus(record.Encode())); (err == nil) != row.loads {
			t.Errorf("%s: error %v, want one: %t", name, err, !row.loads)
		}
		record.Set.UID = "uid-2"
		if found, err := LoadResize(setWithStatus(record.Encode())); found != nil || err != nil {
			t.Errorf("%s, in the record of another set: %v, %v", name, found, err)
		}
	}
}

// TestRecordBeginsWithItsPhase: an admission policy reads operation, kind and phase from the beginning of a record. A record that other
// code reads differently is no record.
func TestRecordBeginsWithItsPhase(t *testing.T) {
	const head, rest = `{"version":2,"operation":"0123456789ab","kind":"Resize","phase":"Planned",`, `"set":{"name":"web","uid":"u"}`
	for name, row := range map[string]struct {
		text string
		read bool
	}{
		"as Drydock writes it":                  {head + rest + `}`, true},
		"a text that looks like a phase":        {head + rest + `,"message":"\"phase\":\"Moving\""}`, true},
		"a repeated phase":                      {head + rest + `,"phase":"Moving"}`, false},
		"a repeated phase in capitals":          {head + rest + `,"PHASE":"Moving"}`, false},
		"a repeated phase behind a long number": {head + rest + `,"replicas":1e99999999,"phase":"Moving"}`, false},
		"a repeated operation":                  {head + rest + `,"operation":"ba9876543210"}`, false},
		"a repeated kind":                       {head + rest + `,"kind":"Rollback"}`, false},
		"another order": {`{"phase":"Planned","version":2,"operation":"0123456789ab","kind":"Resize",` +
			rest + `}`, false},
		"a space": {strings.Replace(head, ":", ": ", 1) + rest + `}`, false},
		"an escaped letter in the name of the key":  {strings.Replace(head, `"phase"`, `"ph\u0061se"`, 1) + rest + `}`, false},
		"an escaped letter in the text of the kind": {strings.Replace(head, `"Resize"`, `"R\u0065size"`, 1) + rest + `}`, false},
	} {
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u",
			Annotations: map[string]string{StatusAnnotation: row.text}}}
		record, err := LoadResize(set)
		if read := err == nil && record != nil && record.Phase == Planned; read != row.read || !read && err == nil {
			t.Errorf("%s: %v, %v", name, record, err)
		}
	}
}

// TestHostileRecordTakesLittleMemory: a tenant may create a set with any text as its record.
func TestHostileRecordTakesLittleMemory(t *testing.T) {
	const size, mostTimes = 250 << 10, 40
	for _, element := range []string{"null", "{}", "1", `""`, "[]", `{"claim":"a123456789012345678901234567890123456789"}`} {
		for _, list := range []string{`"members":[{"phase":"Pending","claims":LIST}]`, `"members":LIST`, `"expansions":LIST`} {
			elements := "[" + strings.TrimSuffix(strings.Repeat(element+",", size/(len(element)+1)), ",") + "]"
			text := `{"version":2,"operation":"0123456789ab","kind":"Resize","phase":"Expanding","replaceSet":true,"set":{"name":"web"},` +
				strings.Replace(list, "LIST", elements, 1) + `}`
			set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u", Annotations: map[string]string{StatusAnnotation: text}}}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := LoadResize(set)
			runtime.ReadMemStats(&after)
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > mostTimes*size {
				t.Errorf("%s of %s: reading %d bytes allocated %d, error %v", list, element, size, allocated, err)
			}
		}
	}
}

// TestTemplateIsNoRecord: the StatefulSet controller copies the link of a set onto its revisions, and one of its names can look like that
// of a record. After kubectl delete --cascade=orphan, the revision has no controller. A damaged record stays a record.
func TestTemplateIsNoRecord(t *testing.T) {
	const operation = "0123456789ab"
	for data, want := range map[string]bool{
		`{"spec":{"template":{"$patch":"replace"}}}`:                  false,
		`{"version":1,"apiVersion":"apps/v1","spec":{}}`:              true,
		`{"version":1,"apiVersion":"example.com/v1","name":"orders"}`: true,
		`{"version":`: true,
	} {
		revision := journalWith([]byte(data), "")
		revision.Name = ownerPrefix(operation) + "d54767df"
		revision.Labels = map[string]string{OperationLabel: operation}
		revision.Annotations = map[string]string{OperationAnnotation: `{"version":1,"operation":"` + operation +
			`","role":"owner","set":{"name":"web"}}`}
		if got := RevisionLink(revision) != nil; got != want {
			t.Errorf("with data %s, the revision is a record: %t, want %t", data, got, want)
		}
	}
}

// TestForeignStopIsIgnored: a set that was restored from a backup, or has an annotation of another set, is not started by it.
func TestForeignStopIsIgnored(t *testing.T) {
	stop := func(change func(*Stop)) string {
		s := &Stop{Set: SetRef{Name: "web", UID: uid}, Operation: "ba9876543210", Kind: KindSleep, Replicas: 3, StoppedAt: &metav1.Time{}}
		change(s)
		return s.Encode()
	}
	for name, row := range map[string]struct {
		text  string
		loads bool
	}{
		"its own":            {stop(func(*Stop) {}), true},
		"of a paused Scaler": {stop(func(s *Stop) { s.Kind = KindScale }), true},
		"of a former set":    {stop(func(s *Stop) { s.Set.UID = "another" }), false},
		"of another set":     {stop(func(s *Stop) { s.Set.Name = "db" }), false},
		"of a resize":        {stop(func(s *Stop) { s.Kind = KindResize }), false},
		"a negative count":   {stop(func(s *Stop) { s.Replicas = -1 }), false},
		"no operation":       {stop(func(s *Stop) { s.Operation = "../web" }), false},
		"no JSON":            {"{", false},
		"too long":           {stop(func(s *Stop) { s.Refused = strings.Repeat("x", longestStop) }), false},
		"none":               {"", false},
		"a long refusal":     {stop(func(s *Stop) { s.Refused = strings.Repeat("x", 1024) }), true},
	} {
		if got := LoadStop(annotatedSet(StopAnnotation, row.text)); (got != nil) != row.loads {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for name, text := range map[string]string{"no JSON": "{", "another version": `{"version": 9, "stop": ` + stop(func(*Stop) {}) + `}`,
		"no stop": `{"version": 2}`} {
		if got, err := LoadStopRecord(journalWith([]byte(text), "")); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
