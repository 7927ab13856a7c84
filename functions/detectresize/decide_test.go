package detectresize

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/sts"
	"drydock.dev/test/kit/build"
)

type objects = []metav1.Object

// row is a situation, the plan for it, and what the plan stores as status.
type row struct {
	in   Input
	want string
	next string
}

func check(t *testing.T, rows map[string]row) {
	t.Helper()
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			build.Expect(t, row.in.Observed, func() plan.Plan { return Decide(row.in) }, row.want, row.next)
		})
	}
}

// world is a cluster with the classes fixed and fast, without quotas and limits.
func world(groups ...objects) Input {
	var all objects
	for _, g := range groups {
		all = append(all, g...)
	}
	return Input{Input: resize.Input{Settings: build.Settings(), Observed: build.World(all...), Cluster: &sts.Cluster{
		Classes: map[string]*storagev1.StorageClass{"fixed": {}, "fast": {}}}}}
}

func (in Input) with(change func(*sts.Cluster)) Input {
	change(in.Cluster)
	return in
}

// set is StatefulSet web with two replicas that asks for data=128Mi.
func set(options ...build.Option) objects {
	return objects{build.Set("web", append([]build.Option{build.Replicas(2), build.Template("data", "64Mi", "fixed"), build.Resize("data=128Mi")}, options...)...)}
}

// claims are bound claims of 64Mi with their volumes.
func claims(names ...string) objects {
	var all objects
	for _, name := range names {
		all = append(all, bound(build.Claim(name, "64Mi"))...)
	}
	return all
}

func bound(claim *corev1.PersistentVolumeClaim) objects {
	return objects{claim, build.VolumeOf(claim)}
}

func both() objects { return claims("data-web-0", "data-web-1") }

const (
	parts   = "; data-web-0 Pending; data-web-1 Pending"
	planned = "Planned ResizeDetected, attempt 1, round 1, generation 0, replicas 2, due in 10m0s"
	told    = `event ResizeDetected "2 claims will be copied to new volumes" -> resize.detected`
	begun   = "do ResizeDetected: patch statefulsets web {+status}; " + told
)

func TestNothingToDo(t *testing.T) {
	retry := build.Annotation(api.RetryAnnotation, "")
	failed := build.Operation(api.Failed, func(s *api.Resize) { s.FailedAt = api.Copying })
	held := build.Operation(api.Failed, func(s *api.Resize) { s.FailedAt = api.Switching })
	check(t, map[string]row{
		"there is no set":                     {in: world(), want: "noop SetGone"},
		"the set is being deleted":            {in: world(set(build.Deleting()), both()), want: "noop SetGone"},
		"the set is not opted in":             {in: world(set(build.Label(api.ManagedLabel, "")), both()), want: "noop NotManaged"},
		"opted in means the word true":        {in: world(set(build.Label(api.ManagedLabel, "yes")), both()), want: "noop NotManaged"},
		"nobody asks":                         {in: world(objects{build.Set("web", build.Template("data", "64Mi", "fixed"))}, both()), want: "noop NotRequested"},
		"an operation runs":                   {in: world(set(build.Status(build.Operation(api.Copying))), both()), want: "noop InProgress"},
		"an operation runs, and a retry asks": {in: world(set(build.Status(build.Operation(api.RollingBack)), retry), both()), want: "noop InProgress"},
		"I7: every claim is as asked for": {
			in: world(set(build.Resize("data=64Mi")), both()), want: "noop UpToDate"},
		"I7: claims follow their template, and do": {
			in: world(set(build.Resize("auto")), both()), want: "noop UpToDate"},
		"with auto a claim may be larger than its template": {
			in: world(set(build.Resize("auto")), bound(build.Claim("data-web-0", "100Mi"))), want: "noop UpToDate"},
		"up to date, the retry is taken all the same": {
			in: world(set(build.Resize("auto"), retry), both()), want: "do UpToDate: patch statefulsets web {-retry}"},
		"the same request failed before: it waits for a retry": {
			in: world(set(build.Status(failed)), both()), want: "noop AlreadyRefused"},
		"I1: the set is held at zero after a failed switch, whatever is asked for": {
			in: world(set(build.Status(held), build.Resize("data=256Mi")), both()), want: "noop AlreadyRefused"},
		"the status cannot be read: nothing is done, but it is said": {
			in: world(set(build.Annotation(api.StatusAnnotation, "{")), both()),
			want: `do StatusInvalid: event StatusInvalid "reading annotation drydock.dev/status of StatefulSet shop/web: unexpected end of JSON input; ` +
				`remove the annotation if no operation runs"`},
	})
}

func TestMoverPodThatTheAPIServerRefusesIsARefusal(t *testing.T) {
	copy0 := api.CopyName(api.OperationID("uid-web", "data=128Mi", 1), "data-web-0", 1)
	denied := func(in Input) Input {
		in.Denied = "pods is forbidden: exceeded quota: team"
		return in
	}
	const message = "the API server would refuse the pods that copy the volumes: pods is forbidden: exceeded quota: team. " +
		"Change what it names, or how movers run with the annotation drydock.dev/mover"
	check(t, map[string]row{
		"nothing else is in the way": {
			in:   denied(world(set(), both())),
			want: `do Rejected: patch statefulsets web {+status}; event Rejected "` + message + `" -> operation.failed`,
			next: "Refused Rejected, attempt 1, round 0, generation 0, replicas 2",
		},
	})
	for name, row := range map[string]struct {
		in    Input
		tried string
	}{
		"a claim is copied":                  {world(set(), both()), copy0},
		"nobody asks":                        {world(objects{build.Set("web", build.Template("data", "64Mi", "fixed"))}, both()), ""},
		"something else is in the way":       {world(set(build.Resize("data=128Mi@nvme")), both()), ""},
		"a claim has no volume yet":          {world(set(), objects{build.Claim("data-web-0", "64Mi", build.On(""))}), ""},
		"somebody wants a rollback":          {world(set(build.Annotation(api.RollbackAnnotation, build.ID)), both()), ""},
		"an operation runs":                  {world(set(build.Status(build.Operation(api.Copying))), both()), ""},
		"the claims grow, nothing is copied": {growable(world(set(), both())), ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := moverToTry(row.in)
			if row.tried == "" && pod != nil || row.tried != "" && (pod == nil || pod.Name != row.tried || pod.Labels["job-name"] != row.tried) {
				t.Errorf("would try %v, want %q", pod, row.tried)
			}
		})
	}
}

func growable(in Input) Input {
	return in.with(func(c *sts.Cluster) { c.Classes["fixed"].AllowVolumeExpansion = ptr.To(true) })
}

func TestResizeBegins(t *testing.T) {
	retry := build.Annotation(api.RetryAnnotation, "now")
	failed := build.Operation(api.Failed, func(s *api.Resize) { s.FailedAt = api.Copying })
	held := build.Operation(api.Failed, build.Parts(api.ClaimVerified, "data-web-0"), build.Quiet(5), func(s *api.Resize) { s.FailedAt = api.Switching })
	logs := build.Template("logs", "32Mi", "fixed")
	check(t, map[string]row{
		"by annotation": {in: world(set(), both()), want: begun, next: planned + parts},
		"the claims of ordinals beyond the replicas too, and those of nobody not": {
			in:   world(set(build.Replicas(1)), claims("data-web-0", "data-web-1", "data-web-01", "data-webb-0", "logs-web-0")),
			want: begun,
			next: "Planned ResizeDetected, attempt 1, round 1, generation 0, replicas 1, due in 10m0s" + parts,
		},
		"one claim has the size already": {
			in:   world(set(), bound(build.Claim("data-web-0", "128Mi")), claims("data-web-1")),
			want: strings.Replace(begun, "2 claims", "1 claims", 1),
			next: planned + "; data-web-1 Pending",
		},
		"by template: somebody has created the set again with a larger one": {
			in:   world(objects{build.Set("web", build.Replicas(2), build.Template("data", "128Mi", "fixed"), build.Resize("auto"))}, both()),
			want: begun,
			next: planned + parts,
		},
		"by template, another class": {
			in:   world(objects{build.Set("web", build.Replicas(2), build.Template("data", "64Mi", "fast"), build.Resize(" auto "))}, both()),
			want: begun,
			next: planned + parts,
		},
		"several templates": {
			in:   world(set(logs, build.Resize("logs=48Mi@fast,data=128Mi")), both(), bound(build.Claim("logs-web-0", "32Mi"))),
			want: strings.Replace(begun, "2 claims", "3 claims", 1),
			next: planned + parts + "; logs-web-0 Pending",
		},
		"only one of several templates": {
			in:   world(set(logs, build.Resize("logs=48Mi")), both(), bound(build.Claim("logs-web-0", "32Mi"))),
			want: strings.Replace(begun, "2 claims", "1 claims", 1),
			next: planned + "; logs-web-0 Pending",
		},
		"I1: scaling down would delete the claims: that is switched off before, and remembered": {
			in:   world(set(build.WhenScaled("Delete")), both()),
			want: "do ResizeDetected: patch statefulsets web {whenScaled Retain, +status}; " + told,
			next: "Planned ResizeDetected, attempt 1, round 1, generation 0, replicas 2, whenScaled Delete, due in 10m0s" + parts,
		},
		"scaling down retains the claims anyway": {
			in: world(set(build.WhenScaled("Retain")), both()), want: begun, next: planned + parts},
		"a failed operation is retried": {
			in:   world(set(build.Status(failed), retry), both()),
			want: "do ResizeDetected: patch statefulsets web {-retry, +status}; " + told,
			next: strings.Replace(planned, "attempt 1", "attempt 2", 1) + parts,
		},
		"something else is asked for after a failure": {
			in:   world(set(build.Status(failed), build.Resize("data=256Mi")), both()),
			want: begun,
			next: strings.Replace(planned, "attempt 1", "attempt 2", 1) + parts,
		},
		"claims lag again after a success, as when one was restored from a backup": {
			in:   world(set(build.Status(build.Operation(api.Succeeded))), both()),
			want: begun,
			next: strings.Replace(planned, "attempt 1", "attempt 2", 1) + parts,
		},
		"I3: the status is another set's: it does not count": {
			in:   world(set(build.Status(failed), build.UID("uid-2")), both()),
			want: begun,
			next: planned + parts,
		},
		"an operation that was given up in the switch is taken up again": {
			in:   world(set(build.Status(held), retry, build.Replicas(0)), both()),
			want: "do Retrying: patch statefulsets web {-retry, +status} -> backup.completed",
			next: "Switching Retrying, attempt 1, round 1, generation 5, replicas 3, due in 12m0s; data-web-0 Verified on pv-new-data-web-0",
		},
		"also when nobody asks for a resize any more": {
			in:   world(objects{build.Set("web", build.Template("data", "64Mi", "fixed"), build.Status(held), retry)}, both()),
			want: "do Retrying: patch statefulsets web {-retry, +status} -> backup.completed",
			next: "Switching Retrying, attempt 1, round 1, generation 5, replicas 3, due in 12m0s; data-web-0 Verified on pv-new-data-web-0",
		},
		"the method copy is asked for": {
			in: world(set(build.Annotation(api.ResizeMethodAnnotation, "copy")), both()), want: begun, next: planned + parts},
		"an owner that is to be ignored": {
			in:   world(set(build.Owned("Database", "main"), build.Annotation(api.OwnerPolicyAnnotation, "ignore")), both()),
			want: begun, next: planned + parts},
		"pods of the set use the claims, and one that is done": {
			in: world(set(), both(), objects{build.PodOf("web", 0, "data"), build.PodOf("web", 1, "data"),
				build.Pod("old-backup", []string{"data-web-0"}, build.InPhase(corev1.PodSucceeded))}),
			want: begun, next: planned + parts},
	})
}

func TestWhatAnOperationBeginsWith(t *testing.T) {
	in := world(set(build.Template("logs", "32Mi", "fixed"), build.Resize("logs=48Mi@fast,data=128Mi@fixed")), claims("data-web-0"), bound(build.Claim("logs-web-0", "32Mi")))
	s := build.Stored(Decide(in))
	if s.Operation != api.OperationID("uid-web", s.Request, 1) || s.Set != (api.SetRef{Name: "web", UID: "uid-web"}) || s.Method != api.MethodCopy || !s.Recreate {
		t.Errorf("%+v", s)
	}
	data, logs := s.Claims[0], s.Claims[1]
	if data.UID != "uid-data-web-0" || data.OldVolume != "pv-data-web-0" || data.From.String() != "64Mi" || data.To.String() != "128Mi" || data.Class != "" {
		t.Errorf("%+v", data)
	}
	if logs.Template != "logs" || logs.Class != "fast" || s.Templates[1].Class != "fast" || s.Templates[0].Name != "data" {
		t.Errorf("%+v %+v", logs, s.Templates)
	}
	auto := build.Stored(Decide(world(objects{build.Set("web", build.Template("data", "128Mi", "fixed"), build.Resize("auto"))}, claims("data-web-0"))))
	if auto.Recreate {
		t.Error("the set's template is right already, it must not be created again")
	}
}

func TestSomethingHasToSettleFirst(t *testing.T) {
	check(t, map[string]row{
		"a claim is still part of an operation": {
			in:   world(set(), bound(build.Claim("data-web-0", "64Mi", build.Link(api.RoleSource, "data-web-0", 0)))),
			want: `do CleaningUp: event CleaningUp "the resize waits: claim data-web-0 is still part of operation 0123456789ab"`,
		},
		"a partition keeps an older revision, which a set created again would not know": {
			in:   world(set(build.Edit(canary)), both()),
			want: `do RolloutRunning: event RolloutRunning "the resize waits: a partition keeps replicas of an older revision, which a set that is created again would not know; finish the rollout, or undo it"`,
		},
		"a claim has no volume yet": {
			in:   world(set(), objects{build.Claim("data-web-0", "64Mi", build.On(""))}),
			want: `do ClaimNotBound: event ClaimNotBound "the resize waits: claim data-web-0 has no volume yet; look at kubectl describe pvc data-web-0"`,
		},
		"a claim's volume is gone": {
			in:   world(set(), objects{build.Claim("data-web-0", "64Mi")}),
			want: `do ClaimNotBound: event ClaimNotBound "the resize waits: volume pv-data-web-0 of claim data-web-0 does not exist; bring the volume back, or delete the claim if its data is given up"`,
		},
	})
}

// refusal is a request, why it is refused, and the beginning of what is said.
type refusal struct {
	in      Input
	reason  api.Reason
	message string
}

func TestI8EveryRefusalIsWrittenDownAndSaysWhatToDo(t *testing.T) {
	request := func(text string) Input { return world(set(build.Resize(text)), both()) }
	quota := func(name corev1.ResourceName, hard, used string) Input {
		return world(set(), both()).with(func(c *sts.Cluster) {
			c.Quotas = []corev1.ResourceQuota{{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Status: corev1.ResourceQuotaStatus{
				Hard: corev1.ResourceList{name: resource.MustParse(hard)}, Used: corev1.ResourceList{name: resource.MustParse(used)}}}}
		})
	}
	limit := func(kind corev1.LimitType, least, largest string) Input {
		return world(set(), both()).with(func(c *sts.Cluster) { c.Limits = []corev1.LimitRange{limitRange(kind, least, largest)} })
	}
	long := strings.Repeat("a", 53)
	many := objects{}
	for i := range 257 {
		many = append(many, claims("data-web-"+resource.NewQuantity(int64(i), resource.DecimalSI).String())...)
	}
	user := func(change func(*corev1.PodSpec)) Input {
		return world(set(build.Edit(func(s *appsv1.StatefulSet) { change(&s.Spec.Template.Spec) })), both())
	}
	check := map[string]refusal{
		"a request that cannot be read":    {request("data=lots"), api.RequestInvalid, `drydock.dev/resize="data=lots": size "lots" is not a quantity; write "auto", or TEMPLATE=SIZE`},
		"an empty request":                 {request(""), api.RequestInvalid, `drydock.dev/resize=""`},
		"a template that there is not":     {request("db=1Gi"), api.UnknownTemplate, `drydock.dev/resize="db=1Gi" names template "db", StatefulSet web has [data]`},
		"a set without templates":          {world(objects{build.Set("web", build.Resize("auto"))}), api.NoTemplates, "StatefulSet web has no volumeClaimTemplates"},
		"a class that there is not":        {request("data=128Mi@slow"), api.UnknownClass, "storage class slow, asked for template data, does not exist"},
		"a claim of a class that is gone":  {world(set(), bound(build.Claim("data-web-0", "64Mi", build.OfClass("retired")))), api.UnknownClass, `claim data-web-0 is of storage class "retired"`},
		"a claim without a class":          {world(set(), bound(build.Claim("data-web-0", "64Mi", build.OfClass("")))), api.UnknownClass, `claim data-web-0 is of storage class ""`},
		"a claim without the set's labels": {world(set(), bound(build.Claim("data-web-0", "64Mi", build.Label("app", "else")))), api.ForeignClaim, "claim data-web-0 has the name of one of StatefulSet web"},
		"a claim of another set":           {world(set(), bound(build.Claim("data-web-0", "64Mi", build.Owned("StatefulSet", "other")))), api.ForeignClaim, "claim data-web-0"},
		"a claim that is being deleted":    {world(set(), bound(build.Claim("data-web-0", "64Mi", build.Deleting()))), api.ClaimBusy, "claim data-web-0 is being deleted"},
		"a claim with a forged link": {world(set(), bound(build.Claim("data-web-0", "64Mi", build.Annotation(api.OperationAnnotation, "{}")))),
			api.LinkInvalid, "annotation drydock.dev/operation of shop/data-web-0 names operation"},
		"a pod of somebody else": {world(set(), both(), objects{build.Pod("reports", []string{"data-web-1"})}), api.ForeignConsumer,
			"claim data-web-1 is in use by pod reports, which does not belong to StatefulSet web. Delete the pod, or wait until it has ended"},
		"a pod of a set before this one": {world(set(), both(), objects{build.With(build.PodOf("web", 0, "data"), build.Owned("StatefulSet", "web-before"))}),
			api.ForeignConsumer, "claim data-web-0 is in use by pod web-0"},
		"I10: the workload runs as root":        {user(func(p *corev1.PodSpec) { p.SecurityContext.RunAsUser = ptr.To[int64](0) }), api.RootMoverNeeded, "StatefulSet shop/web runs as root"},
		"I10: the workload names no user":       {user(func(p *corev1.PodSpec) { p.SecurityContext = nil }), api.RootMoverNeeded, "StatefulSet shop/web runs as a user that neither its pod template nor a running pod names"},
		"an owner that would undo the stop":     {world(set(build.Owned("Database", "main")), both()), api.OwnerNotPausable, "Database main (example.com/v1) controls StatefulSet web"},
		"the method expand":                     {world(set(build.Annotation(api.ResizeMethodAnnotation, "expand")), both()), api.ExpandImpossible, "claim data-web-0 cannot become 128Mi in place, as drydock.dev/resize-method=expand asks: its StorageClass fixed does not allow"},
		"a method that there is not":            {world(set(build.Annotation(api.ResizeMethodAnnotation, "magic")), both()), api.MethodUnknown, `drydock.dev/resize-method="magic" is not a method`},
		"a name too long for its pods' labels":  {longNamed(long), api.NameTooLong, "StatefulSet name " + long + " has 53 characters"},
		"more claims than one status can hold":  {world(set(), many), api.TooManyClaims, "257 claims are to be resized, one operation takes at most 256"},
		"a manifest too large for the journal":  {world(set(build.Annotation("notes", strings.Repeat("x", 200<<10))), both()), api.TooManyClaims, "the manifest of StatefulSet web has more than 204800 bytes"},
		"quota: storage":                        {quota("requests.storage", "300Mi", "128Mi"), api.QuotaExceeded, "ResourceQuota team allows 300Mi of requests.storage, 128Mi are used and the resize needs 256Mi more"},
		"quota: claims":                         {quota("persistentvolumeclaims", "3", "2"), api.QuotaExceeded, "ResourceQuota team allows 3 of persistentvolumeclaims"},
		"quota: claims, by its other name":      {quota("count/persistentvolumeclaims", "3", "2"), api.QuotaExceeded, "ResourceQuota team allows 3 of count/persistentvolumeclaims"},
		"quota: storage of the class":           {quota("fixed.storageclass.storage.k8s.io/requests.storage", "1Mi", "0"), api.QuotaExceeded, "ResourceQuota team allows 1Mi of fixed.storageclass"},
		"quota: storage of the class asked for": {quotaFor("data=128Mi@fast", "fast.storageclass.storage.k8s.io/requests.storage"), api.QuotaExceeded, "ResourceQuota team allows 1 of fast.storageclass"},
		"quota: claims of the class":            {quota("fixed.storageclass.storage.k8s.io/persistentvolumeclaims", "3", "2"), api.QuotaExceeded, "ResourceQuota team allows 3 of fixed.storageclass"},
		"limit: too large":                      {limit(corev1.LimitTypePersistentVolumeClaim, "1Mi", "100Mi"), api.LimitExceeded, "LimitRange sizes allows claims of at most 100Mi, template data is to have 128Mi"},
		"limit: too small":                      {limit(corev1.LimitTypePersistentVolumeClaim, "1Gi", "2Gi"), api.LimitExceeded, "LimitRange sizes asks claims for at least 1Gi, template data is to have 128Mi"},
	}
	for name, row := range check {
		t.Run(name, func(t *testing.T) {
			p := Decide(row.in)
			s := build.Stored(p)
			if s == nil {
				t.Fatalf("nothing is stored: %s", p)
			}
			want := "do " + string(row.reason) + ": patch statefulsets " + row.in.Name + " {+status}; event " + string(row.reason)
			if !strings.HasPrefix(p.String(), want) || !strings.HasSuffix(p.String(), "-> operation.failed") {
				t.Errorf("plan %s\nwant %s ... -> operation.failed", p, want)
			}
			if s.Phase != api.Refused || s.Reason != row.reason || !strings.HasPrefix(s.Message, row.message) || s.Finished == nil {
				t.Errorf("stores %+v\nwant %s: %s", s, row.reason, row.message)
			}
			if note := p.Actions[1].Note; !note.Warning || note.Message != s.Message {
				t.Errorf("says %+v", note)
			}
		})
	}
}

// TestPlanRemembersAsWhomAdmissionHasPodsRun: when the set is stopped no pod can tell it to the movers.
func TestPlanRemembersAsWhomAdmissionHasPodsRun(t *testing.T) {
	user := int64(1000660000)
	set := build.Set("web", build.Template("data", "64Mi", "fixed"), build.Resize("data=128Mi"))
	set.Spec.Template.Spec.SecurityContext = nil
	pod := build.PodOf("web", 0, "data")
	pod.Spec.Containers = []corev1.Container{{Name: "db", SecurityContext: &corev1.SecurityContext{RunAsUser: &user}}}
	s := build.Stored(Decide(world(objects{set}, claims("data-web-0"), objects{pod})))
	if s == nil || s.Phase != api.Planned || s.Admitted == nil || *s.Admitted.RunAsUser != user {
		t.Errorf("%+v", s)
	}
}

func TestWhatIsNoReasonToRefuse(t *testing.T) {
	fits := world(set(), both()).with(func(c *sts.Cluster) {
		c.Quotas = []corev1.ResourceQuota{{Status: corev1.ResourceQuotaStatus{
			Hard: corev1.ResourceList{"requests.storage": resource.MustParse("384Mi"), "pods": resource.MustParse("3")},
			Used: corev1.ResourceList{"requests.storage": resource.MustParse("128Mi"), "pods": resource.MustParse("1")}}}}
		c.Limits = []corev1.LimitRange{limitRange(corev1.LimitTypePersistentVolumeClaim, "128Mi", "128Mi"), limitRange(corev1.LimitTypeContainer, "1Gi", "1Gi")}
	})
	root := world(set(build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.SecurityContext = nil })), both()).
		with(func(c *sts.Cluster) { c.RootMovers = true })
	check(t, map[string]row{
		"quota and limit are just met":          {in: fits, want: begun, next: planned + parts},
		"I10: the namespace allows root movers": {in: root, want: begun, next: planned + parts},
		"no claim has to be copied, so no mover runs": {
			in: world(objects{build.Set("web", build.Replicas(2), build.Template("data", "64Mi", "fixed"), build.Resize("data=128Mi"),
				build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.SecurityContext = nil }))}, bound(build.Claim("data-web-0", "128Mi"))),
			want: strings.Replace(begun, "2 claims will be copied to new volumes", "the set is created again with its new templates", 1),
			next: planned,
		},
	})
	if in := longNamed(strings.Repeat("a", 52)); build.Stored(Decide(in)).Phase != api.Planned {
		t.Error("a name of 52 characters leaves room for the hash")
	}
}

// TestRetryEvent: the event does what the annotation does, and nothing where nothing failed.
func TestRetryEvent(t *testing.T) {
	annotation := build.Annotation(api.RetryAnnotation, "now")
	failed := build.Operation(api.Failed, func(s *api.Resize) { s.FailedAt = api.Copying })
	refused := build.Operation(api.Refused)
	held := build.Operation(api.Failed, build.Parts(api.ClaimVerified, "data-web-0"), build.Quiet(5), func(s *api.Resize) { s.FailedAt = api.Switching })
	another := build.Operation(api.Failed, func(s *api.Resize) { s.Request = "data=100Mi" })
	linked := bound(build.Claim("data-web-0", "64Mi", build.Link(api.RoleSource, "data-web-0", 0)))
	asks := func(in Input) Input { return asking(in, "") }
	second := strings.Replace(planned, "attempt 1", "attempt 2", 1) + parts
	check(t, map[string]row{
		"it failed: it is taken up again":               {in: asks(world(set(build.Status(failed)), both())), want: begun, next: second},
		"it was refused: it is looked at again":         {in: asks(world(set(build.Status(refused)), both())), want: begun, next: second},
		"the event names the operation that failed":     {in: asking(world(set(build.Status(failed)), both()), build.ID), want: begun, next: second},
		"the event names another one: it comes late":    {in: asking(world(set(build.Status(failed)), both()), "other"), want: "noop NothingFailed"},
		"another request failed: the present one is it": {in: asks(world(set(build.Status(another)), both())), want: begun, next: second},
		"it is refused again, for what is the matter now": {
			in:   asks(world(set(build.Resize("data=128Mi@nvme"), build.Status(refused)), both())),
			want: `do UnknownClass: patch statefulsets web {+status}; event UnknownClass "storage class nvme, asked for template data, does not exist; name one of those that kubectl get storageclass lists" -> operation.failed`,
			next: "Refused UnknownClass, attempt 2, round 0, generation 0, replicas 2",
		},
		"the set is held at zero: the switch goes on": {
			in:   asks(world(set(build.Status(held), build.Replicas(0)), both())),
			want: "do Retrying: patch statefulsets web {+status} -> backup.completed",
			next: "Switching Retrying, attempt 1, round 1, generation 5, replicas 3, due in 12m0s; data-web-0 Verified on pv-new-data-web-0",
		},
		"the annotation asks too: it is taken as well": {
			in:   asks(world(set(build.Status(failed), annotation), both())),
			want: strings.Replace(begun, "{+status}", "{-retry, +status}", 1), next: second},
		"it cannot begin yet: the wish is written down": {
			in: asks(world(set(build.Status(failed)), linked)), want: "do CleaningUp: patch statefulsets web {+retry}"},
		"it is written down, and cannot begin yet": {
			in:   asks(world(set(build.Status(failed), annotation), linked)),
			want: `do CleaningUp: event CleaningUp "the resize waits: claim data-web-0 is still part of operation 0123456789ab"`},
		"I7: the event twice: the operation runs": {in: asks(world(set(build.Status(build.Operation(api.Planned))), both())), want: "noop InProgress"},
		"I7: it succeeded":                        {in: asks(world(set(build.Status(build.Operation(api.Succeeded))), both())), want: "noop NothingFailed"},
		"I7: there was never an operation":        {in: asks(world(set(), both())), want: "noop NothingFailed"},
		"I7: nobody asks for anything":            {in: asks(world(objects{build.Set("web", build.Template("data", "64Mi", "fixed"))}, both())), want: "noop NothingFailed"},
		"I7: it failed, and nobody asks any more": {
			in: asks(world(objects{build.Set("web", build.Template("data", "64Mi", "fixed"), build.Status(failed))}, both())), want: "noop NotRequested"},
		"I7: it failed, and somebody did the rest by hand": {
			in: asks(world(set(build.Resize("auto"), build.Status(failed)), both())), want: "noop UpToDate"},
		"I3: the status is another set's":   {in: asks(world(set(build.Status(failed), build.UID("uid-2")), both())), want: "noop NothingFailed"},
		"there is no set":                   {in: asks(world()), want: "noop SetGone"},
		"the set has not opted in":          {in: asks(world(set(build.Label(api.ManagedLabel, ""), build.Status(failed)), both())), want: "noop NotManaged"},
		"I1: held, and no retry, just look": {in: world(set(build.Status(held)), both()), want: "noop AlreadyRefused"},
	})
}

// asking is what is observed because of a retry event.
func asking(in Input, operation string) Input {
	in.Retry = &resize.Retry{Of: operation}
	return in
}

func TestI7RefusalIsWrittenOnce(t *testing.T) {
	in := world(set(build.Resize("data=lots")), both())
	refused := build.Stored(Decide(in))
	again := world(set(build.Resize("data=lots"), build.Status(refused)), both())
	again.Now = build.Now.Add(time.Hour)
	if p := Decide(again); p.String() != "noop AlreadyRefused" {
		t.Error(p)
	}
	retried := world(set(build.Resize("data=lots"), build.Status(refused), build.Annotation(api.RetryAnnotation, "")), both())
	if s := build.Stored(Decide(retried)); s.Attempt != 2 || s.Operation == refused.Operation {
		t.Errorf("a retry is the next attempt: %+v", s)
	}
}

// TestNothingToDoNeedsNoCluster: what is not wanted must not need the cluster.
func TestNothingToDoNeedsNoCluster(t *testing.T) {
	for _, in := range []Input{world(), world(set(build.Resize("auto")), both()), world(set(build.Status(build.Operation(api.Copying))))} {
		in.Cluster = nil
		if wanted, p := want(in); wanted != nil || p.Reason == "" {
			t.Errorf("wants %+v, plan %s", wanted, p)
		}
		Decide(in)
	}
}

func TestTheSameRefusalIsFoundEveryTime(t *testing.T) {
	hard := corev1.ResourceList{"requests.storage": resource.MustParse("1"), "persistentvolumeclaims": resource.MustParse("1"), "count/persistentvolumeclaims": resource.MustParse("1")}
	short := world(set(), both()).with(func(c *sts.Cluster) {
		c.Quotas = []corev1.ResourceQuota{{Status: corev1.ResourceQuotaStatus{Hard: hard}}}
	})
	for name, in := range map[string]Input{"request": world(set(build.Resize("a=1Gi,b=1Gi,c=1Gi")), both()), "quota": short} {
		first := Decide(in).String()
		for range 50 {
			if p := Decide(in).String(); p != first {
				t.Fatalf("%s: first %s\nthen %s", name, first, p)
			}
		}
	}
}

func quotaFor(request string, name corev1.ResourceName) Input {
	return world(set(build.Resize(request)), both()).with(func(c *sts.Cluster) {
		c.Quotas = []corev1.ResourceQuota{{ObjectMeta: metav1.ObjectMeta{Name: "team"},
			Status: corev1.ResourceQuotaStatus{Hard: corev1.ResourceList{name: resource.MustParse("1")}}}}
	})
}

func longNamed(name string) Input {
	claim := build.Claim("data-"+name+"-0", "64Mi", build.Label("app", name))
	return world(objects{build.Set(name, build.Template("data", "64Mi", "fixed"), build.Resize("data=128Mi"))}, bound(claim))
}

func limitRange(kind corev1.LimitType, least, largest string) corev1.LimitRange {
	return corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "sizes"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
		Type: kind,
		Min:  corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(least)},
		Max:  corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(largest)}}}}}
}

func canary(set *appsv1.StatefulSet) {
	set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](1)}
	set.Status.CurrentRevision, set.Status.UpdateRevision = "web-1", "web-2"
}
