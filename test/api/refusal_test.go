//go:build cluster

package api

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// refusal is a request that Drydock refuses. The record and a Warning name the cause and the remedy, and nothing is
// touched.
type refusal struct {
	set     func(*appsv1.StatefulSet) // changes the set before it is created
	arrange func(*kit.World)          // changes the world before the request
	request string
	reason  api.Reason
	says    []string // the names, figures and commands in the message
}

// Invariants: I8.
func TestRefusalsTouchNothingAndNameRemedy(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]refusal{
		"a malformed value":   {request: "data=big", reason: api.RequestInvalid, says: []string{api.ResizeAnnotation, "data=big"}},
		"an unknown template": {request: "logs=128Mi", reason: api.UnknownTemplate, says: []string{`"logs"`, "StatefulSet web", "[data]"}},
		"an unknown class":    {request: "data=128Mi@nvme", reason: api.UnknownClass, says: []string{"nvme", "kubectl get storageclass"}},
		"in place, which the class does not allow": {
			set:     func(s *appsv1.StatefulSet) { s.Annotations[api.ResizeMethodAnnotation] = string(api.MethodExpand) },
			request: "data=128Mi", reason: api.ExpandImpossible, says: []string{"data-web-0", "128Mi", kit.Class,
				api.ResizeMethodAnnotation},
		},
		"a set without templates": {
			set:     func(s *appsv1.StatefulSet) { s.Spec.VolumeClaimTemplates = nil },
			request: "data=128Mi", reason: api.NoTemplates, says: []string{"StatefulSet web", api.ResizeAnnotation},
		},
		"a name at the limit of 63 characters": {
			set: func(s *appsv1.StatefulSet) {
				s.Name = "web" + strings.Repeat("x", 60)
				s.Spec.Replicas = new(int32) // its pods could not be created
			},
			request: "data=128Mi", reason: api.NameTooLong, says: []string{"web" + strings.Repeat("x", 60), "63"}},
		"a pod template that runs as root": {
			set:     func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.SecurityContext = nil },
			request: "data=128Mi", reason: api.RootMoverNeeded, says: []string{"kubectl label namespace", api.RootMoverLabel}},
		"an owner that would undo the stop": {
			arrange: func(w *kit.World) { w.AddController("web") },
			request: "data=128Mi", reason: api.OwnerNotPausable, says: []string{api.OwnerPolicyAnnotation}},
		"a claim of a foreign set": {
			arrange: func(w *kit.World) { w.PatchClaim("data-web-0", `{"metadata":{"labels":{"app":"other"}}}`) },
			request: "data=128Mi", reason: api.ForeignClaim, says: []string{"data-web-0", "StatefulSet web", "app:web"}},
		"a foreign pod on the claim": {
			arrange: func(w *kit.World) { w.CreatePodOn("debug", "data-web-0") },
			request: "data=128Mi", reason: api.ForeignConsumer, says: []string{"data-web-0", "pod debug", "StatefulSet web"}},
		"a claim with another controller's finalizer": {
			arrange: func(w *kit.World) {
				w.PatchClaim("data-web-0", withFinalizer)
				w.T.Cleanup(func() { w.PatchClaim("data-web-0", withoutIt) })
			},
			request: "data=128Mi", reason: api.ForeignFinalizer, says: []string{"data-web-0", "example.com/keep"}},
		"a set with another controller's finalizer": {
			arrange: func(w *kit.World) {
				w.PatchSet("web", `{"metadata":{"finalizers":["example.com/keep"]}}`)
				w.T.Cleanup(func() { w.PatchSet("web", `{"metadata":{"finalizers":null}}`) })
			},
			request: "data=128Mi", reason: api.ForeignFinalizer, says: []string{"StatefulSet web", "example.com/keep"}},
		"no quota": {
			arrange: func(w *kit.World) { w.CreateQuota(corev1.ResourceRequestsStorage, "150Mi") },
			request: "data=128Mi", reason: api.QuotaExceeded, says: []string{"ResourceQuota quota", "150Mi", "requests.storage"}},
		"a quota that requires a CPU limit, which a mover lacks": {
			arrange: func(w *kit.World) { w.CreateQuota("limits.cpu", "10") },
			request: "data=128Mi", reason: api.Rejected, says: []string{"must specify limits.cpu for: final,first"}},
		"a limit range that a mover exceeds": {
			arrange: func(w *kit.World) { limitMemory(w, "512Mi") },
			request: "data=128Mi", reason: api.Rejected, says: []string{"maximum memory usage per Container is 512Mi"}},
		"a Pod Security level that a root mover violates": {
			arrange: func(w *kit.World) {
				w.LabelNamespace(api.RootMoverLabel, api.AllowValue)
				w.LabelNamespace("pod-security.kubernetes.io/enforce", "restricted")
				untilPodIsRefused(w)
			},
			request: "data=128Mi", reason: api.Rejected, says: []string{"violates PodSecurity"}},
		"a service account that does not exist": {
			set:     func(s *appsv1.StatefulSet) { s.Annotations[api.MoverAnnotation] = "serviceAccountName: missing" },
			request: "data=128Mi", reason: api.Rejected, says: []string{`serviceaccount "missing" not found`}},
		"a limit range": {
			arrange: func(w *kit.World) { w.CreateLimit("100Mi") },
			request: "data=128Mi", reason: api.LimitExceeded, says: []string{"LimitRange limits", "100Mi", "128Mi"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, row)
		})
	}
}

func refused(t *testing.T, row refusal) {
	w := kit.NewWorld(t)
	set := kit.WorldSet("web", 1, "64Mi", "data")
	if row.set != nil {
		row.set(set)
	}
	made := w.CreateSet(set)
	if row.arrange != nil {
		row.arrange(w)
	}
	w.Annotate(made.Name, map[string]string{api.ResizeAnnotation: row.request})
	before := w.Set(made.Name)
	claims := w.ClaimVersions()
	writes := &kit.Saboteur{}
	drive := w.Drive(writes)

	status := w.Finish(drive, made.Name)
	if status.Phase != api.Refused || status.Reason != row.reason || !mentions(status.Message, row.says...) {
		t.Errorf("%s %s: %q, want %s Refused with a message that mentions %q", status.Phase, status.Reason, status.Message, row.reason,
			row.says)
	}
	expectEvents(t, w, made.Name, "Warning "+string(row.reason))
	after := w.Set(made.Name)
	if after.Generation != before.Generation || after.UID != before.UID {
		t.Error("the set was touched")
	}
	if now := w.ClaimVersions(); now != claims {
		t.Errorf("claims or volumes were touched:\n%s\n%s", claims, now)
	}
	n := len(writes.Writes())
	for range 3 {
		_ = drive.Tick(context.Background())
	}
	if again := len(writes.Writes()); again != n {
		t.Errorf("a tick writes a refused request again: %v", writes.Writes()[n:])
	}
}

// Invariants: I8.
func TestRetryRepeatsRefusedRequest(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	w.CreateQuota(corev1.ResourceRequestsStorage, "150Mi")
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	drive := w.Drive(nil)
	expectPhase(t, w.Finish(drive, "web"), api.Refused)

	w.CreateQuota(corev1.ResourceRequestsStorage, "1Gi")
	w.Retry("web")
	w.Eventually("the retry is taken", func() string {
		_ = drive.Tick(context.Background())
		if _, there := w.Set("web").Annotations[api.RetryAnnotation]; there {
			return "the annotation is there"
		}
		return ""
	})
	status := w.Finish(drive, "web")
	expectPhase(t, status, api.Succeeded)
	if status.Attempt != 2 {
		t.Errorf("attempt %d, want 2", status.Attempt)
	}
	expectWhole(t, w, "web", 1, "data-web-0")
}

// Invariants: I8.
func TestUnreadableRecordIsReportedAndNeverOverwritten(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi", api.StatusAnnotation: "{"})
	drive := w.Drive(nil)
	for range 2 {
		if err := drive.Tick(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	expectEvents(t, w, "web", "Warning "+string(api.StatusInvalid))
	if w.Set("web").Annotations[api.StatusAnnotation] != "{" {
		t.Error("the status was overwritten")
	}
}

// TestHostileRecordCannotReachOtherVolumes: a user who may annotate a set must not reach volumes of another namespace.
// Invariants: I3, I10.
func TestHostileRecordCannotReachOtherVolumes(t *testing.T) {
	t.Parallel()
	victim, attacker := kit.NewWorld(t), kit.NewWorld(t)
	victim.CreateSet(kit.WorldSet("db", 1, "64Mi", "data"))
	volume := victim.Claim("data-db-0").Spec.VolumeName
	set := attacker.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	size := resource.MustParse("64Mi")
	for _, phase := range []api.Phase{api.Moving, api.Finishing, api.Reverting} {
		forged := &api.Resize{
			Header: api.Header{Version: api.RecordVersion, Operation: "0123456789ab", Kind: "Resize", Phase: phase,
				Set: api.SetRef{Name: "web", UID: set.UID}},
			Members: []api.Member{{Phase: api.MemberSwapping, Attempt: 1, Claims: []api.Move{{
				Claim: "data-web-0", UID: types.UID("x"), Template: "data", From: size, To: size, OldVolume: volume, NewVolume: volume}}}},
		}
		before := victim.ClaimVersions()
		attacker.Annotate("web", map[string]string{api.StatusAnnotation: forged.Encode()})
		drive := attacker.Drive(nil)
		_ = drive.Tick(context.Background())
		if now := victim.ClaimVersions(); now != before {
			t.Errorf("in phase %s the victim's objects were written:\n%s\n%s", phase, before, now)
		}
	}
}
