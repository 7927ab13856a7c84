//go:build cluster

package api

import (
	"context"
	"fmt"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// TestRetentionPolicyWrittenWhilePodsEnd: a deployment tool restores whenScaled: Delete while the pods of the set end, or a user writes it
// to a set that had Retain. The StatefulSet controller would delete their claims with them. Both may write it before the stop, and when the
// pods have ended.
// Invariants: I1.
func TestRetentionPolicyWrittenWhilePodsEnd(t *testing.T) {
	for name, row := range map[string]struct {
		policy       appsv1.PersistentVolumeClaimRetentionPolicyType
		operatorStop bool
	}{
		"the set had Delete":                    {appsv1.DeletePersistentVolumeClaimRetentionPolicyType, false},
		"the set had Retain":                    {appsv1.RetainPersistentVolumeClaimRetentionPolicyType, false},
		"the set had Retain, an operator stops": {appsv1.RetainPersistentVolumeClaimRetentionPolicyType, true},
	} {
		t.Run(name, func(t *testing.T) { testPolicyWrittenWhilePodsEnd(t, row.policy, row.operatorStop) })
	}
}

func testPolicyWrittenWhilePodsEnd(t *testing.T, policy appsv1.PersistentVolumeClaimRetentionPolicyType, operatorStop bool) {
	w := kit.NewWorld(t)
	w.InstallPolicies()
	set := kit.WorldSet("web", 1, "64Mi", "data")
	set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
		WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType, WhenScaled: policy}
	set.Spec.Template.Finalizers = []string{"example.com/ends-slowly"}
	w.CreateSet(set)
	before, drive := w.Claim("data-web-0").UID, w.Drive(nil)
	write := func(options metav1.PatchOptions) error {
		_, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Patch(context.Background(), "web", types.MergePatchType,
			[]byte(`{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Delete"}}}`), options)
		return err
	}
	operate := func() {}
	if operatorStop {
		const kind = "CassandraDatacenter"
		row := rowOf(t, "cassandra.datastax.com", kind)
		w.GrantPause(row.Operator)
		w.DefineKind(row, kind)
		w.SetController("web", w.CreateCustom(row, kind, "main", map[string]any{}, nil))
		operate = func() { operatorOf(w, row, kind, 1) }
	}
	if err := write(metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Errorf("before the decision to stop it costs nothing: %v", err)
	}
	asked := map[api.Phase]bool{} // phases before the operator stops the set
	drive.OnEvent = func(event.Event) {
		sleep := w.Sleep("web")
		if !operatorStop || sleep == nil || asked[sleep.Phase] || *w.Set("web").Spec.Replicas == 0 {
			return
		}
		asked[sleep.Phase] = true
		if err := write(metav1.PatchOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("whenScaled Delete before the operator stops the set, in phase %s: %v", sleep.Phase, err)
		}
	}
	w.Annotate("web", map[string]string{api.PausedAnnotation: "true"})
	pods := w.Kube.CoreV1().Pods(w.Namespace)
	w.Eventually("the pod is ending", func() string {
		operate()
		_ = drive.Tick(context.Background())
		if pod, err := pods.Get(context.Background(), "web-0", metav1.GetOptions{}); err != nil || pod.DeletionTimestamp == nil {
			return "it is not"
		}
		return ""
	})
	if err := write(metav1.PatchOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("whenScaled Delete while pods end: %v", err)
		w.Eventually("the controller has seen it", func() string {
			if s := w.Set("web"); s.Status.ObservedGeneration < s.Generation {
				return "it has not"
			}
			return ""
		})
	}
	if _, err := pods.Patch(context.Background(), "web-0", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitAsleep(t, w, drive, operate)
	if claim := w.Claim("data-web-0"); claim == nil || claim.UID != before || claim.DeletionTimestamp != nil ||
		len(claim.OwnerReferences) > 0 {
		t.Errorf("I1: the claim of the sleeping set is %v", claim)
	}
	if sleep := w.Sleep("web"); sleep.OwnerStops != operatorStop || asked[api.Planned] != operatorStop ||
		asked[api.Stopping] != operatorStop {
		t.Errorf("an operator stopped the set: %t, and the test wrote before that in %v", sleep.OwnerStops, asked)
	}
	if err := write(metav1.PatchOptions{}); err != nil {
		t.Errorf("when all pods have ended it costs nothing: %v", err)
	}
}

// TestPolicyHoldsFromDecisionToStop: each record says what happens to the set. A set without one may get Delete at any time.
func TestPolicyHoldsFromDecisionToStop(t *testing.T) {
	w := kit.NewWorld(t)
	w.InstallPolicies()
	for name, row := range map[string]struct {
		replicas, pods  int32
		sleep, stop     string
		mayDeleteClaims bool
	}{
		"an operator will stop it":            {2, 2, `{"kind":"Sleep","phase":"Planned"}`, "", false},
		"it is being stopped":                 {2, 2, `{"kind":"Sleep","phase":"Stopping"}`, "", false},
		"it wakes, and old pods end":          {0, 1, `{"kind":"Sleep","phase":"Waking"}`, "", false},
		"a Scaler pauses it":                  {0, 2, "", `{"kind":"Scale"}`, false},
		"its sleep ended while pods end":      {0, 2, `{"kind":"Sleep","phase":"Succeeded"}`, `{"kind":"Sleep"}`, false},
		"it sleeps":                           {0, 0, `{"kind":"Sleep","phase":"Asleep"}`, "", true},
		"it is awake":                         {2, 2, `{"kind":"Sleep","phase":"Succeeded","message":"\"phase\":\"Planned\""}`, "", true},
		"a user scales it to zero":            {0, 2, "", "", true},
		"it was paused, and has its replicas": {2, 2, "", `{"kind":"Scale"}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			set := kit.WorldSet("web", 0, "64Mi", "data")
			set.Name, set.GenerateName, set.Labels = "", "web-", nil // no function sees it
			set.Annotations = map[string]string{api.SleepAnnotation: row.sleep}
			if row.stop != "" {
				set.Annotations[api.StopAnnotation] = row.stop
			}
			sets := w.Kube.AppsV1().StatefulSets(w.Namespace)
			made, err := sets.Create(context.Background(), set, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			// The controller corrects the status, so the test writes it again before each try. The write of whenScaled is a dry run.
			patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, row.replicas)
			if made, err = sets.Patch(context.Background(), made.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			w.Eventually("the policy says what it must", func() string {
				status := fmt.Sprintf(`{"status":{"replicas":%d}}`, row.pods)
				if _, err := sets.Patch(context.Background(), made.Name, types.MergePatchType, []byte(status), metav1.PatchOptions{},
					"status"); err != nil {
					return err.Error()
				}
				again := []byte(`{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Delete"}}}`)
				_, err := sets.Patch(context.Background(), made.Name, types.MergePatchType, again,
					metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
				if (err == nil) != row.mayDeleteClaims || err != nil && !apierrors.IsForbidden(err) {
					return fmt.Sprintf("the answer is %v", err)
				}
				return ""
			})
		})
	}
}

// TestRetentionPolicyRestoredByToolDuringFirstPass: a deployment tool restores whenScaled during the first pass. When
// the set stops, that would delete the claims outside the operation, with their volumes.
// Invariants: I1.
func TestRetentionPolicyRestoredByToolDuringFirstPass(t *testing.T) {
	set := kit.WorldSet("web", 1, "64Mi", "data", "logs")
	set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
		WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
		WhenScaled:  appsv1.DeletePersistentVolumeClaimRetentionPolicyType}
	w, drive := readyWorld(t, set)
	logs := w.Claim("logs-web-0")
	holdFirstPass(w, true)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	untilFirstPasses(t, w, drive, 1)
	w.PatchSet("web", `{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Delete"}}}`)
	holdFirstPass(w, false)
	if status := w.Finish(drive, "web"); status.Phase != api.Succeeded {
		t.Errorf("%s: %s", status.Reason, status.Message)
	}
	if now := w.Claim("logs-web-0"); now == nil || now.UID != logs.UID {
		t.Error("I1: claim logs-web-0 was deleted with the scale to zero")
	}
	policy := w.Set("web").Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled
	if policy != appsv1.DeletePersistentVolumeClaimRetentionPolicyType {
		t.Errorf("whenScaled is %s, it was Delete", policy)
	}
	expectWhole(t, w, "web", 1, "data-web-0", "logs-web-0")
}
