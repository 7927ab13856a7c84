//go:build cluster

package api

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"drydock.dev/shared/api"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/moverreport"
	operations "drydock.dev/shared/operation"
	"drydock.dev/test/kit"
)

// Policies that keep users from writing Drydock's records and links.
const (
	recordsPolicy = "drydock-records"
	linksPolicy   = "drydock-links"
)

// tenant returns a user with all rights in the world's namespace and none elsewhere.
func tenant(t *testing.T, w *kit.World) (user string, client kubernetes.Interface) {
	t.Helper()
	user = "tenant-" + w.Namespace
	roles := w.Kube.RbacV1().Roles(w.Namespace)
	all := []string{"*"}
	if _, err := roles.Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "all"},
		Rules: []rbacv1.PolicyRule{{APIGroups: all, Resources: all, Verbs: all}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "all"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "all"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}}
	if _, err := w.Kube.RbacV1().RoleBindings(w.Namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(w.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	client = kubernetes.NewForConfigOrDie(config)
	w.Eventually("the tenant has rights", func() string {
		if _, err := client.AppsV1().StatefulSets(w.Namespace).List(t.Context(), metav1.ListOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	return user, client
}

// TestTenantCannotForgeRecords: a user with all rights in a namespace may write the input of Drydock, and may only
// remove its records.
func TestTenantCannotForgeRecords(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	_, client := tenant(t, w)
	sets := client.AppsV1().StatefulSets(w.Namespace)
	try := func(metadata string, subresource ...string) error {
		_, err := sets.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"metadata":{`+metadata+`}}`), metav1.PatchOptions{},
			subresource...)
		return err
	}
	own := []string{api.StatusAnnotation, api.SleepAnnotation, api.CleanupAnnotation, api.DeadLettersAnnotation}
	for _, key := range own {
		expectForbidden(t, "writing "+key, recordsPolicy, try(fmt.Sprintf(`"annotations":{%q:"forged"}`, key)))
		expectForbidden(t, "writing it with the status", recordsPolicy, try(fmt.Sprintf(`"annotations":{%q:"forged"}`, key), "status"))
	}
	expectForbidden(t, "asking for a cleanup pod with the status", recordsPolicy,
		try(`"annotations":{"drydock.dev/cleanup-pod-template":"x"}`, "status"))
	expectForbidden(t, "opting in with the status", recordsPolicy, try(`"labels":{"drydock.dev/group":"x"}`, "status"))
	for _, metadata := range []string{`"annotations":{"drydock.dev/resize":"data=64Mi","drydock.dev/retry":"now","note":"mine"}`,
		`"labels":{"drydock.dev/group":"g"}`} {
		if err := try(metadata); err != nil {
			t.Errorf("input %s: %v", metadata, err)
		}
	}
	for _, key := range own { // by an administrator, as if it were Drydock
		w.Annotate("web", map[string]string{key: "{}"})
		expectForbidden(t, "changing "+key, recordsPolicy, try(fmt.Sprintf(`"annotations":{%q:"forged"}`, key)))
		if err := try(fmt.Sprintf(`"annotations":{%q:null}`, key)); err != nil {
			t.Errorf("removing %s: %v", key, err)
		}
	}
}

// TestTenantCannotLinkObjects: only Drydock links a claim or a pod to an operation, or signals a mover.
func TestTenantCannotLinkObjects(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	_, client := tenant(t, w)
	link := []byte(`{"metadata":{"annotations":{"drydock.dev/operation":"{}"}}}`)
	label := []byte(`{"metadata":{"labels":{"drydock.dev/operation":"0123456789ab"}}}`)
	for _, body := range [][]byte{link, label} {
		_, err := client.CoreV1().PersistentVolumeClaims(w.Namespace).Patch(t.Context(), "data-web-0", types.MergePatchType, body,
			metav1.PatchOptions{})
		expectForbidden(t, "linking a claim", linksPolicy, err)
		_, err = client.CoreV1().Pods(w.Namespace).Patch(t.Context(), "web-0", types.MergePatchType, body, metav1.PatchOptions{})
		expectForbidden(t, "linking a pod", linksPolicy, err)
	}
	for _, key := range []string{moverreport.SignalAnnotation, moverreport.LeaseAnnotation} {
		_, err := client.CoreV1().Pods(w.Namespace).Patch(t.Context(), "web-0", types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"`+key+`":"{}"}}}`), metav1.PatchOptions{})
		expectForbidden(t, "telling a mover", linksPolicy, err)
	}
	note := []byte(`{"metadata":{"annotations":{"note":"mine"}}}`)
	if _, err := client.CoreV1().PersistentVolumeClaims(w.Namespace).Patch(t.Context(), "data-web-0", types.MergePatchType, note,
		metav1.PatchOptions{}); err != nil {
		t.Errorf("annotating a claim: %v", err)
	}
}

// TestWriterMayWriteRecords: the exemption is a right in the whole cluster.
func TestWriterMayWriteRecords(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	user, client := tenant(t, w)
	forge := func() error {
		_, err := client.AppsV1().StatefulSets(w.Namespace).Patch(t.Context(), "web", types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"drydock.dev/status":"{}"}}}`), metav1.PatchOptions{DryRun: dry})
		return err
	}
	expectForbidden(t, "without it", recordsPolicy, forge())
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "drydock-writer"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}}
	bindings := w.Kube.RbacV1().ClusterRoleBindings()
	if _, err := bindings.Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bindings.Delete(context.Background(), user, metav1.DeleteOptions{}) })
	w.Eventually("the writer may", func() string {
		if err := forge(); err != nil {
			return err.Error()
		}
		return ""
	})
}

// TestPoliciesAreWellTyped: the API server has checked the types in the expressions.
func TestPoliciesAreWellTyped(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.Eventually("the expressions are checked", func() string {
		policies, err := w.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		checked := 0
		for _, policy := range policies.Items {
			switch {
			case !strings.HasPrefix(policy.Name, "drydock-"):
			case policy.Status.ObservedGeneration != policy.Generation:
				return policy.Name + " is not"
			case policy.Status.TypeChecking == nil: // no warnings
				checked++
			default:
				checked++
				for _, warning := range policy.Status.TypeChecking.ExpressionWarnings {
					t.Errorf("%s: %s: %s", policy.Name, warning.FieldRef, warning.Warning)
				}
			}
		}
		if checked < 10 {
			return fmt.Sprintf("only %d policies are there", checked)
		}
		return ""
	})
}

// expectForbidden checks that the admission policy has denied the request. The words, if any, tell which of its rules did.
func expectForbidden(t *testing.T, what, policy string, err error, words ...string) {
	t.Helper()
	if !deniedBy(err, policy, words...) {
		t.Errorf("%s: got %v, want a denial by policy %s that mentions %q", what, err, policy, words)
	}
}

// deniedBy reports whether the error is a denial by the admission policy that contains every word. The API server names the policy in
// the error (kubernetes apiserver pkg/admission/plugin/policy/validating). A policy of one World has the namespace before its name.
func deniedBy(err error, policy string, words ...string) bool {
	return apierrors.IsForbidden(err) && mentions(err.Error(), append(words, policy+"'")...)
}

// mentions reports whether the text contains every word. Tests look for names and figures in a message; golden files of unit tests have
// the sentences.
func mentions(text string, words ...string) bool {
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
}

// newRecord returns a record of an operation on the set.
func newRecord(kind api.Kind, id string, phase api.Phase, set api.SetRef) operations.Record {
	head := api.Header{Version: api.RecordVersion, Operation: id, Kind: kind, Phase: phase, Request: "data=1Mi@other", Attempt: 1, Set: set,
		Message: `"phase":"Succeeded"`}
	switch kind {
	case api.KindSleep:
		return &api.Sleep{Header: head, Replicas: 1}
	case api.KindCleanup:
		return &api.Cleanup{Header: head}
	case api.KindScale:
		return &api.Scale{Header: head}
	}
	return &api.Resize{Header: head, Strategy: api.StrategyWhole}
}

// TestFunctionsWriteRecordsOnlyInTheirPhases: each function may write exactly the records that operation.MayWrite allows it: it begins only
// its own operations, and changes those of others only in its phases.
func TestFunctionsWriteRecordsOnlyInTheirPhases(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	web := w.CreateSet(kit.WorldSet("web", 0, "64Mi"))
	ref := api.SetRef{Name: web.Name, UID: web.UID}
	clients := map[api.Function]kubernetes.Interface{}
	for _, f := range []api.Function{api.Backup, api.CleanupPod, api.DetectResize, api.IdleTimeout, api.PauseOwner, api.Restore,
		api.ScaleFunction} {
		config := kube.Impersonate(w.Config, f)
		config.QPS = -1
		clients[f] = kubernetes.NewForConfigOrDie(config)
	}
	var accepted, rejected atomic.Int32
	try := func(f api.Function, kind api.Kind, id string, former, next api.Phase) {
		record := newRecord(kind, id, next, ref)
		record.Head().Message += " again" // the fence judges only changes
		err := annotateWeb(t.Context(), clients[f], w.Namespace, map[string]any{record.Annotation(): record.Encode()}, dry)
		may := operations.MayWrite(f, kind, former, next)
		if err != nil && !apierrors.IsForbidden(err) || may != (err == nil) {
			t.Errorf("%s writes a %s in %s over one in %q: %v, want accepted %t", f, kind, next, former, err, may)
		}
		if err != nil && !saysWho(err.Error(), f, kind, next, record.Annotation()) {
			t.Errorf("%s writes a %s in %s over one in %q: the message is %v", f, kind, next, former, err)
		}
		if may {
			accepted.Add(1)
		} else {
			rejected.Add(1)
		}
	}
	for kind, phases := range api.Phases {
		for _, former := range append([]api.Phase{""}, phases...) {
			records := map[string]any{api.StatusAnnotation: nil, api.SleepAnnotation: nil, api.CleanupAnnotation: nil, api.ScaleAnnotation: nil}
			if former != "" {
				record := newRecord(kind, operation, former, ref)
				records[record.Annotation()] = record.Encode()
			}
			if err := annotateWeb(t.Context(), w.Kube, w.Namespace, records, nil); err != nil {
				t.Fatal(err)
			}
			var functions sync.WaitGroup
			for f := range clients {
				functions.Go(func() {
					for _, next := range phases {
						try(f, kind, operation, former, next)
						if former == phases[0] { // another operation begins
							try(f, kind, another, "", next)
						}
					}
				})
			}
			functions.Wait()
		}
	}
	if accepted.Load() < 50 || rejected.Load() < 500 {
		t.Errorf("only %d writes were accepted, and %d rejected", accepted.Load(), rejected.Load())
	}
}

// saysWho reports whether the message names the function, and the record's kind and phase or the annotation that the function never writes.
func saysWho(message string, f api.Function, kind api.Kind, next api.Phase, annotation string) bool {
	_, what, named := strings.Cut(message, string(f)+" may not ")
	return named && (strings.Contains(what, "write annotation "+annotation) ||
		strings.Contains(what, " a "+string(kind)+" ") && strings.Contains(what, string(next)))
}

// recordThefts are thefts by forged records, which other functions would obey.
var recordThefts = []theft{
	{"begin a resize or a rollback of a StatefulSet that has opted in, to any size and class", func(s *thief) error {
		if err := s.writeRecord("web", api.KindResize, another, api.Planned); err != nil {
			return err
		}
		return s.writeRecord("moving", api.KindRollback, another, api.Planned)
	}, "detect-resize"},
	{"have members copied, moved or released by the record of a resize that has not begun", func(s *thief) error {
		for _, phase := range []api.Phase{api.Moving, api.Finishing, api.Reverting} {
			for _, set := range []string{"web", "planned", "moving", "ended"} {
				if err := s.writeRecord(set, api.KindResize, another, phase); err == nil {
					return nil
				}
			}
			if err := s.writeRecord("ended", api.KindResize, operation, phase); err == nil {
				return nil
			}
		}
		return s.writeRecord("web", api.KindRollback, another, api.Moving)
	}, ""},
	{"change the sizes, classes and members of a resize that waits for its turn or its owner, or start it", func(s *thief) error {
		if err := s.writeRecord("planned", api.KindResize, operation, api.Planned); err != nil {
			return err
		}
		return s.writeRecord("planned", api.KindResize, operation, api.Moving)
	}, "pause-owner"},
	{"change the record of a resize that moves members",
		func(s *thief) error { return s.writeRecord("moving", api.KindResize, operation, api.Moving) }, "backup pause-owner restore"},
	{"end a resize that moves members",
		func(s *thief) error { return s.writeRecord("moving", api.KindResize, operation, api.Reverting) }, "backup restore"},
	{"say that a resize has moved all members",
		func(s *thief) error { return s.writeRecord("moving", api.KindResize, operation, api.Finishing) }, "restore"},
	{"change the record of a resize that has ended",
		func(s *thief) error { return s.writeRecord("ended", api.KindResize, operation, api.Succeeded) }, "detect-resize pause-owner"},
	{"put a StatefulSet that has opted in to sleep, or wake it, by the record of a sleep", func(s *thief) error {
		for _, phase := range []api.Phase{api.Planned, api.Waking} {
			if err := s.writeRecord("web", api.KindSleep, another, phase); err != nil {
				return err
			}
		}
		return s.writeRecord("asleep", api.KindSleep, operation, api.Waking)
	}, "idle-timeout"},
	{"change the record of a sleep, for example how many members the StatefulSet gets back",
		func(s *thief) error { return s.writeRecord("asleep", api.KindSleep, operation, api.Asleep) }, "idle-timeout pause-owner"},
	{"write the record of a cleanup on a StatefulSet that has opted in",
		func(s *thief) error { return s.writeRecord("web", api.KindCleanup, another, api.Cleaning) }, "cleanup-pod"},
	{"write the record of a scaling on a StatefulSet that has opted in",
		func(s *thief) error { return s.writeRecord("web", api.KindScale, another, api.Scaling) }, "scale"},
	{"order a cleanup of the claims of a StatefulSet that has opted in", func(s *thief) error {
		order := &api.Ledger{Count: 3, Orders: 1, Removing: &api.Removal{Span: api.Span{End: api.NoEnd}, Order: 1}}
		return s.patchSet("web", fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, api.LedgerAnnotation, order.Encode()))
	}, "scale"},
	{"have a failed operation tried again by the annotation `drydock.dev/retry`", func(s *thief) error {
		if err := s.annotateSet("web", api.RetryAnnotation); err != nil { // it has no request
			return err
		}
		if err := s.annotateSet("requested", api.RetryAnnotation); err != nil {
			return err
		}
		return s.annotateSet("uncleaned", api.RetryAnnotation)
	}, "detect-resize"},
	{"write a record in another form than Drydock's", func(s *thief) error {
		for _, text := range []string{"stolen", "{}", `{"phase":"Moving"}`, `{ "version": 2, "phase": "Moving" }`} {
			for set, key := range map[string]string{"moving": api.StatusAnnotation, "asleep": api.SleepAnnotation} {
				if err := s.patchSet(set, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, text)); err == nil {
					return nil
				}
			}
		}
		return s.annotateSet("web", api.StatusAnnotation)
	}, ""},
	{"end an operation by removing its record", func(s *thief) error {
		for set, key := range map[string]string{"moving": api.StatusAnnotation, "asleep": api.SleepAnnotation} {
			if err := s.patchSet(set, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, key)); err == nil {
				return nil
			}
		}
		return s.patchSet("planned", fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, api.StatusAnnotation))
	}, ""},
}

// another is the id of an operation that no set has.
const another = "ba9876543210"

// layRecords creates sets with the records of operations.
func (l *loot) layRecords() {
	for name, made := range map[string]struct {
		kind  api.Kind
		phase api.Phase
	}{"planned": {api.KindResize, api.Planned}, "moving": {api.KindResize, api.Moving}, "ended": {api.KindResize, api.Succeeded},
		"asleep": {api.KindSleep, api.Asleep}} {
		set := kit.WorldSet(name, 0, "64Mi", "data")
		record := newRecord(made.kind, operation, made.phase, api.SetRef{Name: name})
		set.Annotations[record.Annotation()] = record.Encode()
		l.w.CreateSet(set)
	}
	uncleaned := newRecord(api.KindCleanup, operation, api.Failed, api.SetRef{Name: "uncleaned"}).Encode()
	for name, annotations := range map[string]map[string]string{
		"requested": {api.ResizeAnnotation: "data=1Gi+@other"},
		"uncleaned": {api.ResizeAnnotation: "data=1Gi+", api.CleanupAnnotation: uncleaned, api.CleanupTemplateAnnotation: "spec: {}"},
	} {
		set := kit.WorldSet(name, 0, "64Mi", "data")
		maps.Copy(set.Annotations, annotations)
		l.w.CreateSet(set)
	}
}

// writeRecord writes a record with a smaller size, another class and another count.
func (s *thief) writeRecord(name string, kind api.Kind, id string, phase api.Phase) error {
	record := newRecord(kind, id, phase, api.SetRef{Name: name})
	switch r := record.(type) {
	case *api.Resize:
		r.Templates = []api.TemplateTarget{{Name: "data", Size: *kit.Quantity("1Mi"), Class: "other"}}
	case *api.Sleep:
		r.Replicas = 7
	}
	record.Head().Message = "stolen"
	return s.patchSet(name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, record.Annotation(), record.Encode()))
}

// annotateWeb merges the annotations into those of the set web.
func annotateWeb(ctx context.Context, client kubernetes.Interface, namespace string, annotations map[string]any, dryRun []string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return err
	}
	_, err = client.AppsV1().StatefulSets(namespace).Patch(ctx, "web", types.MergePatchType, body, metav1.PatchOptions{DryRun: dryRun})
	return err
}

// TestTenantCannotLinkObjectsWithTheirStatus: as TestTenantCannotLinkObjects, through the subresource status. The API server stores
// annotations and labels with it, too. The policy drydock-records closes the same way for StatefulSets.
func TestTenantCannotLinkObjectsWithTheirStatus(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	_, client := tenant(t, w)
	jobs := client.BatchV1().Jobs(w.Namespace)
	_, err := jobs.Create(t.Context(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "drydock-0123456789ab-pre-scaling"},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "hook", Image: "forged"}}}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.Eventually("the pod exists", func() string {
		if _, err := client.CoreV1().Pods(w.Namespace).Get(t.Context(), "web-0", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	for _, key := range []string{api.OperationAnnotation, moverreport.SignalAnnotation, moverreport.LeaseAnnotation} {
		body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"{}"},"labels":{"drydock.dev/operation":"0123456789ab"}}}`, key)
		_, err := client.CoreV1().PersistentVolumeClaims(w.Namespace).Patch(t.Context(), "data-web-0", types.MergePatchType, body,
			metav1.PatchOptions{}, "status")
		expectForbidden(t, key+" on a claim", linksPolicy, err)
		_, err = client.CoreV1().Pods(w.Namespace).Patch(t.Context(), "web-0", types.MergePatchType, body, metav1.PatchOptions{}, "status")
		expectForbidden(t, key+" on a pod", linksPolicy, err)
		_, err = jobs.Patch(t.Context(), "drydock-0123456789ab-pre-scaling", types.MergePatchType, body, metav1.PatchOptions{}, "status")
		expectForbidden(t, key+" on a Job", linksPolicy, err)
	}
	claim, err := client.CoreV1().PersistentVolumeClaims(w.Namespace).Get(t.Context(), "data-web-0", metav1.GetOptions{})
	if err == nil && claim.Annotations[api.OperationAnnotation] != "" {
		t.Errorf("the claim has the link %q and the label %q", claim.Annotations[api.OperationAnnotation], claim.Labels[api.OperationLabel])
	}
	job, err := jobs.Get(t.Context(), "drydock-0123456789ab-pre-scaling", metav1.GetOptions{})
	if err == nil && job.Annotations[api.OperationAnnotation] != "" {
		t.Errorf("the Job has the link %q", job.Annotations[api.OperationAnnotation])
	}
}
