//go:build cluster

package api

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/cmd/kubectl-drydock/forecast"
	"drydock.dev/shared/api"
	"drydock.dev/shared/resize"
	"drydock.dev/test/kit"
)

// runPlan returns the output of kubectl drydock plan, and checks that the plan has changed nothing. Other controllers
// may write at the same time, so it tries several times.
func runPlan(t *testing.T, w *kit.World, args ...string) (*forecast.Document, error) {
	t.Helper()
	var changed string
	for range 4 {
		before := objectVersions(t, w)
		text, err := command(t, w, append([]string{"plan", "sts/web", "-o", "json"}, args...)...)
		if after := objectVersions(t, w); after != before {
			changed = before + "\n" + after
			continue
		}
		d := &forecast.Document{}
		if problem := json.Unmarshal([]byte(text), d); problem != nil {
			t.Fatalf("%v: %q, %v", problem, text, err)
		}
		return d, err
	}
	t.Fatalf("each plan has changed something:\n%s", changed)
	return nil, nil
}

// objectVersions returns every object of the world that a resize concerns, with its resourceVersion.
func objectVersions(t *testing.T, w *kit.World) string {
	t.Helper()
	var lines []string
	ctx, all, in := t.Context(), metav1.ListOptions{}, w.Namespace
	sets, err := w.Kube.AppsV1().StatefulSets(in).List(ctx, all)
	must(t, err)
	for i := range sets.Items {
		lines = append(lines, version(&sets.Items[i]))
	}
	revisions, err := w.Kube.AppsV1().ControllerRevisions(in).List(ctx, all)
	must(t, err)
	for i := range revisions.Items {
		lines = append(lines, version(&revisions.Items[i]))
	}
	jobs, err := w.Kube.BatchV1().Jobs(in).List(ctx, all)
	must(t, err)
	for i := range jobs.Items {
		lines = append(lines, version(&jobs.Items[i]))
	}
	pods, err := w.Kube.CoreV1().Pods(in).List(ctx, all)
	must(t, err)
	for i := range pods.Items {
		lines = append(lines, version(&pods.Items[i]))
	}
	quotas, err := w.Kube.CoreV1().ResourceQuotas(in).List(ctx, all)
	must(t, err)
	for i := range quotas.Items {
		lines = append(lines, version(&quotas.Items[i]))
	}
	events, err := w.Kube.CoreV1().Events(in).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=StatefulSet"})
	must(t, err)
	for i := range events.Items {
		lines = append(lines, version(&events.Items[i]))
	}
	return strings.Join(lines, " ") + " " + w.ClaimVersions()
}

func version(object metav1.Object) string {
	return object.GetName() + "@" + object.GetResourceVersion()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// plannedChanges renders the planned state and method of each claim, in a form that a plan and a record have in common.
func plannedChanges(d *forecast.Document) string {
	lines := []string{fmt.Sprintf("%s %v", d.Method, d.Recreate)}
	for _, c := range d.Claims {
		lines = append(lines, fmt.Sprintf("%s %s %s>%s@%s:%v from %s", c.Name, c.Method, &c.From, &c.To, c.NewClass, c.NewModes, c.Volume))
	}
	return strings.Join(lines, "\n")
}

func recordedChanges(s *api.Resize) string {
	method := api.MethodExpand
	if len(s.Members) > 0 {
		method = api.MethodCopy
	}
	lines := []string{fmt.Sprintf("%s %v", method, s.ReplaceSet)}
	for _, e := range s.Expansions {
		lines = append(lines, fmt.Sprintf("%s %s %s>%s@%s:%v from %s", e.Claim, api.MethodExpand, &e.From, &e.To, "", []string{}, e.Volume))
	}
	for _, c := range s.Moves() {
		lines = append(lines, fmt.Sprintf("%s %s %s>%s@%s:%v from %s", c.Claim, api.MethodCopy, &c.From, &c.To, c.Class, c.Modes,
			c.OldVolume))
	}
	return strings.Join(lines, "\n")
}

// expectAccepted checks that nothing refuses the resize, and that the API server accepts every write.
func expectAccepted(t *testing.T, d *forecast.Document, err error) {
	t.Helper()
	if err != nil || d.Verdict == forecast.Refused || len(d.Refused) > 0 {
		t.Fatalf("%s: %v, %v", d.Verdict, d.Refused, err)
	}
	for _, c := range d.Checks {
		if c.Outcome != forecast.Accepted {
			t.Errorf("%s %s %s is %s: %s", c.Verb, c.Resource, c.Name, c.Outcome, c.Message)
		}
	}
}

// triedWrites returns the writes that the API server has tried.
func triedWrites(d *forecast.Document) string {
	var words []string
	for _, c := range d.Checks {
		words = append(words, fmt.Sprintf("%s %s", c.Verb, c.Resource))
	}
	return strings.Join(words, ", ")
}

// TestPlanMatchesResize: a plan of an expansion, a copy or both, before and after the request, matches the resize.
func TestPlanMatchesResize(t *testing.T) {
	t.Parallel()
	const copies = "create persistentvolumeclaims, create jobs, create pods"
	for name, row := range map[string]struct {
		request, kinds string
		downtime       bool
	}{
		"expand": {"data=128Mi", "create controllerrevisions, patch persistentvolumeclaims, patch persistentvolumeclaims, " +
			"create statefulsets", false},
		"copy": {"data=128Mi@" + kit.Class + ":RWX", "create controllerrevisions, " + copies + ", " + copies + ", create statefulsets",
			true},
		"both": {"data=128Mi,logs=64Mi@" + kit.Class,
			"create controllerrevisions, patch persistentvolumeclaims, patch persistentvolumeclaims, " +
				copies + ", " + copies + ", create statefulsets", true},
	} {
		t.Run(name, func(t *testing.T) {
			w, drive := growingWorld(t, growingSet(2, "data", "logs"))
			d, err := runPlan(t, w, "--resize", row.request)
			expectAccepted(t, d, err)
			if d.Verdict != forecast.Waits || len(d.Conditions) != 1 || d.Conditions[0].Reason != api.NotRequested {
				t.Errorf("%s before %v", d.Verdict, d.Conditions)
			}
			if got := triedWrites(d); got != row.kinds {
				t.Errorf("tried %s\nwant  %s", got, row.kinds)
			}
			if (len(d.Members) > 0) != row.downtime {
				t.Errorf("members that stop: %+v, %+v", d.Members, d.Stop)
			}
			w.Annotate("web", map[string]string{api.ResizeAnnotation: row.request})
			again, err := runPlan(t, w)
			expectAccepted(t, again, err)
			if again.Verdict != forecast.Proceeds || plannedChanges(again) != plannedChanges(d) {
				t.Errorf("%s\n%s, before it was\n%s", again.Verdict, plannedChanges(again), plannedChanges(d))
			}
			status := w.Finish(drive, "web")
			expectPhase(t, status, api.Succeeded)
			if recordedChanges(status) != plannedChanges(d) {
				t.Errorf("the resize was\n%s\nthe plan was\n%s", recordedChanges(status), plannedChanges(d))
			}
			if (wasStopped(status)) != row.downtime {
				t.Errorf("stopped %v", wasStopped(status))
			}
			done, err := runPlan(t, w)
			if err != nil || done.Verdict != forecast.Nothing || len(done.Claims) > 0 {
				t.Errorf("afterwards %s, %v, %v", done.Verdict, done.Claims, err)
			}
		})
	}
}

// TestPlanOfSetThatHasNotOptedIn: it shows what is missing, and the consequences of the resize.
func TestPlanOfSetThatHasNotOptedIn(t *testing.T) {
	set := growingSet(1, "data")
	delete(set.Labels, api.ManagedLabel)
	w, _ := growingWorld(t, set)
	d, err := runPlan(t, w, "--resize", "data=128Mi", "--method", "copy")
	expectAccepted(t, d, err)
	if d.Verdict != forecast.Waits || len(d.Conditions) != 3 || d.Conditions[0].Reason != api.NotManaged ||
		d.Claims[0].Method != api.MethodCopy {
		t.Errorf("%s before %v: %v", d.Verdict, d.Conditions, d.Claims)
	}
	text, err := command(t, w, "plan", "sts/web", "--resize", "data=128Mi")
	if err != nil || !mentions(text, string(api.NotManaged), " sts web drydock.dev/managed=true") {
		t.Errorf("%v: %s", err, text)
	}
}

// TestPlanFindsEveryReason of a refusal.
func TestPlanFindsEveryReason(t *testing.T) {
	w, drive := growingWorld(t, growingSet(2, "data", "logs"))
	w.CreatePodOn("debug", "data-web-0")
	w.CreateQuota(corev1.ResourceRequestsStorage, "300Mi")
	w.CreateLimit("100Mi")
	request := "data=128Mi@nvme,logs=32Mi"
	d, err := runPlan(t, w, "--resize", request)
	if err == nil || d.Verdict != forecast.Refused {
		t.Fatalf("%s, %v", d.Verdict, err)
	}
	var found []string
	for _, p := range d.Refused {
		found = append(found, string(p.Reason))
	}
	want := "UnknownClass ForeignConsumer LimitExceeded QuotaExceeded Rejected"
	if got := strings.Join(found, " "); got != want {
		t.Errorf("refused for %s, want %s:\n%v", got, want, d.Refused)
	}
	if want := strings.ReplaceAll(want, " ", ", "); !strings.HasSuffix(err.Error(), want) {
		t.Errorf("the error is %v", err)
	}
	if len(d.Quotas) != 1 || d.Quotas[0].Fits() || d.Quotas[0].Needs.String() != "320Mi" || d.Claims[0].Users[0].Pod != "debug" &&
		!d.Claims[0].Users[1].Foreign {
		t.Errorf("quotas %+v, users %v", d.Quotas, d.Claims[0].Users)
	}
	w.Annotate("web", map[string]string{api.ResizeAnnotation: request})
	if status := w.Finish(drive, "web"); status.Phase != api.Refused || status.Reason != d.Refused[0].Reason ||
		status.Message != d.Refused[0].Message {
		t.Errorf("it was %s %s: %s", status.Phase, status.Reason, status.Message)
	}
	after, _ := runPlan(t, w)
	if len(after.Conditions) != 0 || after.Verdict != forecast.Refused {
		t.Errorf("after the refusal: %s before %v", after.Verdict, after.Conditions)
	}
}

// TestPlanFindsRefusalByAdmission: only the API server knows these, not the preflight.
func TestPlanFindsRefusalByAdmission(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		arrange func(*kit.World)
		write   []string // the verb, the resource and the name of the refused write
	}{
		"a policy about claims": {func(w *kit.World) { w.DenyCreation("", "persistentvolumeclaims", "has(object.metadata.labels.team)") },
			[]string{"create", "persistentvolumeclaims", "drydock-"}},
		"a policy about sets": {func(w *kit.World) {
			w.DenyCreation("apps", "statefulsets", "object.spec.volumeClaimTemplates[0].spec.resources.requests.storage != '128Mi'")
		}, []string{"create", "statefulsets", "web"}},
		"a quota of Jobs": {func(w *kit.World) { w.CreateQuota("count/jobs.batch", "0") }, []string{"create", "jobs", "drydock-"}},
		"a Pod Security level": {func(w *kit.World) {
			w.LabelNamespace(api.RootMoverLabel, api.AllowValue)
			w.LabelNamespace("pod-security.kubernetes.io/enforce", "restricted")
		}, []string{"create", "pods", "drydock-"}},
		"a quota that needs CPU": {func(w *kit.World) { w.CreateQuota("limits.cpu", "10") }, []string{"create", "pods", "drydock-"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := growingWorld(t, kit.WorldSet("web", 2, "64Mi", "data"))
			row.arrange(w)
			var d *forecast.Document
			var err error
			w.Eventually("the refusal is in force", func() string {
				if d, err = runPlan(t, w, "--resize", "data=128Mi"); err == nil {
					return "it is not"
				}
				return ""
			})
			d, err = runPlan(t, w, "--resize", "data=128Mi") // the rule may have come into force during the plan
			last := resize.Problem{}
			if len(d.Refused) > 0 { // the preflight may have found it, too
				last = d.Refused[len(d.Refused)-1]
			}
			if last.Reason != api.Rejected || !mentions(last.Message, row.write...) {
				t.Fatalf("%v: %v, want a message that mentions %q", err, d.Refused, row.write)
			}
			if text := last.Message; row.write[1] != "statefulsets" && !mentions(text, " 1 more") {
				t.Errorf("it says %q", text)
			}
		})
	}
}

// TestPlanWithRightsOfUser: a write without a right is not tried, and does not refuse the resize.
func TestPlanWithRightsOfUser(t *testing.T) {
	w, _ := growingWorld(t, growingSet(1, "data", "logs"))
	const user = "reader"
	w.Grant(
		user,
		"get list",
		"statefulsets.apps persistentvolumeclaims pods jobs.batch controllerrevisions.apps resourcequotas limitranges configmaps namespaces "+
			"persistentvolumes storageclasses.storage.k8s.io",
	)
	w.Grant(user, "create", "jobs.batch")
	d, err := runPlan(t, w, "--resize", "data=128Mi,logs=64Mi@"+kit.Class, "--as", user)
	if err != nil || len(d.Refused) > 0 {
		t.Fatalf("%v, %v", d.Refused, err)
	}
	for _, c := range d.Checks {
		if c.Resource == "jobs" && c.Outcome == forecast.Accepted {
			continue
		}
		if c.Outcome != forecast.Unchecked || !mentions(c.Message, string(c.Verb), string(c.Resource), w.Namespace) {
			t.Errorf("%s %s: %s: %s", c.Verb, c.Resource, c.Outcome, c.Message)
		}
	}
	text, err := command(t, w, "plan", "sts/web", "--resize", "data=128Mi", "--as", user, "--settings", w.Namespace+"/none")
	if err != nil || !mentions(text, "create statefulsets", "ConfigMap "+w.Namespace+"/none") {
		t.Errorf("%v: %s", err, text)
	}
	t.Log("\n" + text)
}

// TestExistingNameIsFoundLast: the API server reports an existing set only if nothing else is wrong, so a plan may take
// that for consent.
func TestExistingNameIsFoundLast(t *testing.T) {
	w, _ := growingWorld(t, growingSet(1, "data"))
	try := func(change func(*appsv1.StatefulSet)) error {
		set := growingSet(1, "data")
		change(set)
		_, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Create(t.Context(), set,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	if err := try(func(*appsv1.StatefulSet) {}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("a valid set: %v", err)
	}
	if err := try(func(s *appsv1.StatefulSet) { s.Spec.Replicas = ptr.To[int32](-1) }); !apierrors.IsInvalid(err) {
		t.Errorf("validation: %v", err)
	}
	w.DenyCreation("apps", "statefulsets", "object.spec.replicas < 2")
	w.Eventually("a policy comes first, too", func() string {
		if err := try(func(s *appsv1.StatefulSet) { s.Spec.Replicas = ptr.To[int32](2) }); !apierrors.IsInvalid(err) {
			return fmt.Sprint(err)
		}
		return ""
	})
}

// TestPlanChecksStorageCapacity: a plan compares the new volumes with the capacity that their driver publishes, and with the volumes that
// the node can attach. It changes nothing.
func TestPlanChecksStorageCapacity(t *testing.T) {
	w, _ := growingWorld(t, kit.WorldSet("web", 1, "64Mi", "data"))
	storage := w.Kube.StorageV1()
	class := w.Namespace + "-thick"
	waits := storagev1.VolumeBindingWaitForFirstConsumer
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: class}, Spec: storagev1.CSIDriverSpec{StorageCapacity: ptr.To(true)}}
	room := &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Name: "everywhere"}, StorageClassName: class,
		NodeTopology: &metav1.LabelSelector{}, Capacity: kit.Quantity("100Mi")}
	_, err := storage.CSIDrivers().Create(t.Context(), driver, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { _ = storage.CSIDrivers().Delete(context.Background(), class, metav1.DeleteOptions{}) })
	_, err = storage.StorageClasses().Create(t.Context(), &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class},
		Provisioner:       class,
		VolumeBindingMode: &waits}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { _ = storage.StorageClasses().Delete(context.Background(), class, metav1.DeleteOptions{}) })
	room, err = storage.CSIStorageCapacities(w.Namespace).Create(t.Context(), room, metav1.CreateOptions{})
	must(t, err)

	d, err := runPlan(t, w, "--resize", "data=128Mi@"+class)
	if err == nil || !mentions(fmt.Sprint(d.Refused), string(api.NoCapacity), "100Mi") {
		t.Errorf("%v: %v", err, d.Refused)
	}
	room.Capacity = kit.Quantity("1Gi")
	_, err = storage.CSIStorageCapacities(w.Namespace).Update(t.Context(), room, metav1.UpdateOptions{})
	must(t, err)
	if d, _ := runPlan(t, w, "--resize", "data=128Mi@"+class); mentions(fmt.Sprint(d.Refused), string(api.NoCapacity)) {
		t.Errorf("there is room: %v", d.Refused)
	}

	pod, err := w.Kube.CoreV1().Pods(w.Namespace).Get(t.Context(), "web-0", metav1.GetOptions{})
	must(t, err)
	node := pod.Spec.NodeName
	_, err = storage.CSINodes().Create(t.Context(), &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: class, NodeID: node,
			Allocatable: &storagev1.VolumeNodeResources{Count: ptr.To[int32](1)}}}}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { _ = storage.CSINodes().Delete(context.Background(), node, metav1.DeleteOptions{}) })
	noFirstPass := func() string {
		d, _ := runPlan(t, w, "--resize", "data=128Mi@"+class)
		if len(d.Members) != 1 {
			t.Fatalf("the plan has the members %+v", d.Members)
		}
		return d.Members[0].NoFirstPass
	}
	if why := noFirstPass(); why != "" {
		t.Errorf("one volume can be attached, but the plan says: %s", why)
	}
	attached := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: class}, Spec: storagev1.VolumeAttachmentSpec{
		Attacher: class, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("other")}}}
	_, err = storage.VolumeAttachments().Create(t.Context(), attached, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { _ = storage.VolumeAttachments().Delete(context.Background(), class, metav1.DeleteOptions{}) })
	if why, want := noFirstPass(), "node "+node+" has 1 of at most 1 volumes of "+class+" attached"; why != want {
		t.Errorf("the plan says %q of the first pass, want %q", why, want)
	}
}
