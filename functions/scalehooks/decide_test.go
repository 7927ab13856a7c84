package scalehooks

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

func TestSetThatIsNotScaled(t *testing.T) {
	check(t, map[string]row{
		"there is no set and no Scaler": {in: on(),
			want: "noop SetGone"},
		"there is no set": {in: on(pilot()),
			want:   "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			status: "idle 0, Healthy False TargetMissing, Failed False TargetMissing, Progressing False TargetMissing"},
		"there is no set, it was told": {in: reported(on(pilot())),
			want: "noop TargetMissing"},
		"there is no set, a hook runs": {in: on(pilot(), hook("pre")),
			want: "do HookEnded: delete jobs drydock-0123456789ab-pre-scaling"},
		"there is no set, a hook is ending": {in: reported(on(pilot(), hook("pre", build.Deleting()))),
			want: "noop TargetMissing"},
		"there is no set, the Scaler goes": {in: on(pilot(build.Deleting())),
			want: "noop SetGone"},
		"the set is being deleted": {in: on(web(2, build.Deleting()), pilot()),
			want:   "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			status: "idle 2, Healthy False TargetDeleting, Failed False TargetDeleting, Progressing False TargetDeleting"},
		"the set is deleted during a scaling": {in: on(web(2, build.Deleting(), records(api.PreScaling)), pilot(hooked), hook("pre")),
			want: "do HookEnded: delete jobs drydock-0123456789ab-pre-scaling"},
		"the record cannot be read": {in: on(web(2, build.Annotation(api.ScaleAnnotation, "{")), pilot()),
			want:   `do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}; event StatusInvalid "reading annotation drydock.dev/scale of StatefulSet shop/web: unexpected end of JSON input; remove the annotation if no operation runs"`,
			status: "idle 2, Healthy False StatusInvalid, Failed False StatusInvalid, Progressing False StatusInvalid"},
		"the record cannot be read, it is told": {in: reported(on(web(2, build.Annotation(api.ScaleAnnotation, "{")), pilot())),
			want: "noop StatusInvalid"},
		"the record cannot be read, no Scaler": {in: on(web(2, build.Annotation(api.ScaleAnnotation, "{"))),
			want: "noop StatusInvalid"},
		"the record is another set's": {in: on(web(2, build.UID("uid-other"), records(api.PreScaling)), pilot()),
			want:   "do ScalerReady: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			status: "idle 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True ScalingStarted"},
		"there is no Scaler": {in: on(web(2)),
			want: "noop HookEnded"},
		"the Scaler was deleted": {in: on(web(2, quiet(2))),
			want: "do ScalerGone: patch statefulsets web {-scale}"},
		"the Scaler is being deleted": {in: on(web(2, quiet(2)), pilot(build.Deleting())),
			want: "do ScalerGone: patch statefulsets web {-scale}"},
		"the Scaler was deleted, a hook runs": {in: on(web(2, records(api.PreScaling)), hook("pre")),
			want: "do HookEnded: delete jobs drydock-0123456789ab-pre-scaling"},
		"the Scaler was deleted while scaling": {in: on(web(3, records(api.Scaling))),
			want: "do ScalerGone: patch statefulsets web {-scale}"},
		"the Scaler was deleted after failing": {in: on(web(2, records(api.Failed, gaveUp(api.PreScaling)))),
			want: "do ScalerGone: patch statefulsets web {-scale}"},
		"it is not opted in": {in: on(web(2, optOut), pilot()),
			want:   "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			status: "idle 2, Healthy False NotManaged, Failed False NotManaged, Progressing False NotManaged"},
		"it is not opted in, it was told": {in: reported(on(web(2, optOut), pilot())),
			want: "noop NotManaged"},
		"it is not opted in, and looked after": {in: on(web(2, optOut, quiet(2)), pilot()),
			want:   "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			status: "idle 2, Healthy False NotManaged, Failed False NotManaged, Progressing False NotManaged"},
		"it is not opted in any more": {in: on(web(2, optOut, records(api.PreScaling)), pilot(hooked), hook("pre")),
			want:   `do NotManaged: patch statefulsets web {+scale}; event NotManaged "StatefulSet web has not opted in: kubectl label -n shop statefulset web drydock.dev/managed=true"; patch scalers.v1alpha1.drydock.dev/status pilot {status} -> operation.failed`,
			next:   "Failed NotManaged at PreScaling, 2 to 3 for uid-pilot, attempt 1, finished 0s",
			status: "failed 2, failed at preScaling NotManaged, Healthy False NotManaged, Failed True NotManaged, Progressing False UpToDate, Failed 2 to 3"},
		"it is not any more, and members start": {in: on(web(3, optOut, records(api.Scaling)), pilot()),
			want:   `do NotManaged: patch statefulsets web {+scale}; event NotManaged "StatefulSet web has not opted in: kubectl label -n shop statefulset web drydock.dev/managed=true"; patch scalers.v1alpha1.drydock.dev/status pilot {status} -> operation.failed`,
			next:   "Failed NotManaged at Scaling, 2 to 3 for uid-pilot, attempt 1, finished 0s",
			status: "failed 3, failed at scaling NotManaged, Healthy False NotManaged, Failed True NotManaged, Progressing False UpToDate, Failed 2 to 3"},
		"it is not any more, and it fails": {in: on(web(2, optOut, records(api.Failing, gaveUp(api.PreScaling))), pilot(hooked), hook("onFailure")),
			want:   `do NotManaged: patch statefulsets web {+scale}; event NotManaged "StatefulSet web has not opted in: kubectl label -n shop statefulset web drydock.dev/managed=true"; patch scalers.v1alpha1.drydock.dev/status pilot {status} -> operation.failed`,
			next:   "Failed NotManaged at PreScaling, 2 to 3 for uid-pilot, attempt 1, finished 0s",
			status: "failed 2, failed at preScaling NotManaged, Healthy False NotManaged, Failed True NotManaged, Progressing False UpToDate, Failed 2 to 3"},
		"it was not any more, and a hook is left": {in: on(web(2, optOut, records(api.Failed, gaveUp(api.PreScaling))), pilot(hooked), hook("pre")),
			want: "do HookEnded: delete jobs drydock-0123456789ab-pre-scaling"},
		"a resize runs": {in: on(web(2, build.Status(build.Operation(api.Moving)), quiet(2)), pilot()),
			want:   "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			status: "idle 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True InProgress"},
		"a resize runs, no record": {in: on(web(2, build.Status(build.Operation(api.Moving))), pilot()),
			want:   "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			status: "idle 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True InProgress"},
		"a resize runs, it is told": {in: reported(on(web(2, build.Status(build.Operation(api.Moving)), quiet(2)), pilot())),
			want: "noop InProgress"},
		"a resize cannot be read": {in: on(web(2, build.Annotation(api.StatusAnnotation, "{"), quiet(2)), pilot()),
			want:   "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			status: "idle 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True InProgress"},
		"it sleeps, and had no Scaler before": {in: on(web(0, build.WithSleep(build.Sleep(api.Asleep))), pilot(wants(2))),
			want:   "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			status: "idle 0, Healthy True ScalerReady, Failed False ScalerReady, Progressing True InProgress"},
		"it sleeps by the Scaler": {in: on(web(0, build.WithSleep(build.Sleep(api.Asleep)), records(api.Succeeded, away)), pilot(wants(2), pausing)),
			want:   "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			status: "idle 0, Healthy True ScalerReady, Failed False ScalerReady, Progressing False Paused, Succeeded 3 to 0"},
		"a cleanup runs": {in: on(web(2, cleaning, quiet(2)), pilot()),
			want:   "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			status: "idle 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True InProgress"},
		"a resize ran before": {in: on(web(2, build.Status(build.Operation(api.Succeeded)), quiet(2)), pilot()),
			want:   `do ScalingStarted: patch statefulsets web {+scale}; event ScalingStarted "scaling from 2 to 3"; patch scalers.v1alpha1.drydock.dev/status pilot {status}`,
			next:   "PreScaling ScalingStarted, 2 to 3 for uid-pilot, attempt 2, new, due 10m0s",
			status: "preScaling 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True ScalingStarted"},
		"a resize runs, and somebody retries": {in: on(web(2, build.Status(build.Operation(api.Moving)), records(api.Failed, gaveUp(api.PreScaling))), pilot(retry)),
			want:   "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			status: "failed 2, failed at preScaling HookFailed, Healthy False HookFailed, Failed True HookFailed, Progressing False InProgress, Failed 2 to 3"},
	})
}

// cleaning is the document of a cleanup that runs.
var cleaning = build.Annotation(api.CleanupAnnotation, (&api.Cleanup{Header: api.Header{Version: api.RecordVersion, Operation: "c0ffee012345",
	Kind: api.KindCleanup, Phase: api.Cleaning, Request: "x", Attempt: 1, Set: api.SetRef{Name: "web", UID: "uid-web"},
	Started: metav1.NewTime(build.Now)}}).Encode())

func TestFirstLook(t *testing.T) {
	known := edited(func(s *v1alpha1.Scaler) { s.Status.Target = &v1alpha1.TargetReference{Name: "web", UID: "uid-before"} })
	same := edited(func(s *v1alpha1.Scaler) { s.Status.Target = &v1alpha1.TargetReference{Name: "web", UID: "uid-web"} })
	check(t, map[string]row{
		"the count differs": {in: on(web(2), pilot()),
			want:   "do ScalerReady: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Succeeded ScalerReady, 2 to 2 for uid-pilot, attempt 1, new, finished 0s",
			status: "idle 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True ScalingStarted"},
		"the count is the same": {in: on(web(3), pilot()),
			want:   "do ScalerReady: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Succeeded ScalerReady, 3 to 3 for uid-pilot, attempt 1, new, finished 0s",
			status: "idle 3, Healthy True ScalerReady, Failed False ScalerReady, Progressing False UpToDate"},
		"the Scaler has no count": {in: on(web(2), pilot(wishless)),
			want:   "do ScalerReady: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Succeeded ScalerReady, 2 to 2 for uid-pilot, attempt 1, new, finished 0s",
			status: "idle 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing False UpToDate"},
		"the set was replaced": {in: on(web(2), pilot(known)),
			want:   `do ScalerReady: patch statefulsets web {+scale}; event TargetReplaced "StatefulSet web is another one than before (UID uid-web, was uid-before); Scaler pilot looks after it from now on"; patch scalers.v1alpha1.drydock.dev/status pilot {status}`,
			next:   "Succeeded ScalerReady, 2 to 2 for uid-pilot, attempt 1, new, finished 0s",
			status: "idle 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True ScalingStarted"},
		"the record was removed": {in: on(web(2), pilot(same)),
			want:   "do ScalerReady: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Succeeded ScalerReady, 2 to 2 for uid-pilot, attempt 1, new, finished 0s",
			status: "idle 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True ScalingStarted"},
		"another Scaler had it": {in: on(web(2, records(api.Succeeded, of("uid-gone"))), pilot()),
			want:   "do ScalerReady: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Succeeded ScalerReady, 2 to 2 for uid-pilot, attempt 2, new, finished 0s",
			status: "idle 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True ScalingStarted"},
		"another Scaler failed": {in: on(web(2, records(api.Failed, gaveUp(api.PreScaling), of("uid-gone"))), pilot()),
			want:   "do ScalerReady: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Succeeded ScalerReady, 2 to 2 for uid-pilot, attempt 2, new, finished 0s",
			status: "idle 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True ScalingStarted"},
		"another Scaler's scaling runs": {in: on(web(2, records(api.PreScaling, of("uid-gone"))), pilot(), hook("pre")),
			want:   `do ScalerGone: patch statefulsets web {+scale}; event ScalerGone "the Scaler was deleted during the scaling"; patch scalers.v1alpha1.drydock.dev/status pilot {status} -> operation.failed`,
			next:   "Failed ScalerGone at PreScaling, 2 to 3 for uid-gone, attempt 1, finished 0s",
			status: "failed 2, failed at preScaling ScalerGone, Healthy False ScalerGone, Failed True ScalerGone, Progressing False UpToDate, Failed 2 to 3"},
		"another Scaler's scaling fails": {in: on(web(2, records(api.Failing, gaveUp(api.PreScaling), of("uid-gone"))), pilot()),
			want:   `do ScalerGone: patch statefulsets web {+scale}; event ScalerGone "the Scaler was deleted during the scaling"; patch scalers.v1alpha1.drydock.dev/status pilot {status} -> operation.failed`,
			next:   "Failed ScalerGone at PreScaling, 2 to 3 for uid-gone, attempt 1, finished 0s",
			status: "failed 2, failed at preScaling ScalerGone, Healthy False ScalerGone, Failed True ScalerGone, Progressing False UpToDate, Failed 2 to 3"},
		"a retry comes with the creation": {in: on(web(2), pilot(retry)),
			want:   "do ScalerReady: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Succeeded ScalerReady, 2 to 2 for uid-pilot, attempt 1, new, finished 0s",
			status: "idle 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True ScalingStarted"},
	})
}

func TestRest(t *testing.T) {
	check(t, map[string]row{
		"the count is the one that is wanted": {in: on(web(3, quiet(3)), pilot()),
			want:   "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			status: "idle 3, Healthy True ScalerReady, Failed False ScalerReady, Progressing False UpToDate"},
		"it is told": {in: reported(on(web(3, quiet(3)), pilot())),
			want: "noop UpToDate"},
		"a scaling has ended": {in: on(web(3, records(api.Succeeded)), pilot()),
			want:   "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			status: "idle 3, Healthy True ScalerReady, Failed False ScalerReady, Progressing False UpToDate, Succeeded 2 to 3"},
		"a scaling has ended, no history": {in: on(web(3, records(api.Succeeded)), pilot(edited(noHistory))),
			want:   "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			status: "idle 3, Healthy True ScalerReady, Failed False ScalerReady, Progressing False UpToDate"},
		"a scaling has ended, and it is told": {in: reported(on(web(3, records(api.Succeeded)), pilot())),
			want: "noop UpToDate"},
		"members come and go": {in: on(web(3, build.Counting(1, 1), quiet(3)), pilot()),
			want:   "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			status: "idle 1, Healthy True ScalerReady, Failed False ScalerReady, Progressing False UpToDate"},
		"spec.replicas is missing": {in: on(web(2, quiet(2)), pilot(wishless)),
			want: "do CountAdopted: patch scalers.v1alpha1.drydock.dev pilot {replicas = 2}"},
		"spec.replicas is missing, the set is 0": {in: on(web(0, quiet(0)), pilot(wishless)),
			want: "do CountAdopted: patch scalers.v1alpha1.drydock.dev pilot {replicas = 0}"},
		"a stranger has scaled": {in: on(web(5, quiet(3)), pilot()),
			want: `do CountReverted: patch statefulsets web {+scale, replicas = 3}; event CountReverted "another client has scaled the StatefulSet to 5; Scaler pilot has put 3 back. Scale the Scaler instead: kubectl scale -n shop scaler pilot --replicas=N"`,
			next: "Succeeded ScalerReady, 3 to 3 for uid-pilot, attempt 1, finished -30s"},
		"a stranger has scaled to none": {in: on(web(0, quiet(3)), pilot()),
			want: `do CountReverted: patch statefulsets web {+scale, replicas = 3}; event CountReverted "another client has scaled the StatefulSet to 0; Scaler pilot has put 3 back. Scale the Scaler instead: kubectl scale -n shop scaler pilot --replicas=N"`,
			next: "Succeeded ScalerReady, 3 to 3 for uid-pilot, attempt 1, finished -30s"},
		"a stranger has scaled, adopt": {in: on(web(5, quiet(3)), pilot(adopting)),
			want: `do CountAdopted: patch scalers.v1alpha1.drydock.dev pilot {replicas = 5}; event CountAdopted "another client has scaled the StatefulSet from 3 to 5; Scaler pilot wants that count now"`},
		"a stranger has scaled to the wish": {in: on(web(3, quiet(2)), pilot()),
			want:   "do CountAdopted: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Succeeded CountAdopted, 3 to 3 for uid-pilot, attempt 2, new, finished 0s",
			status: "idle 3, Healthy True ScalerReady, Failed False ScalerReady, Progressing False UpToDate"},
		"the same, adopt": {in: on(web(3, quiet(2)), pilot(adopting)),
			want:   "do CountAdopted: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Succeeded CountAdopted, 3 to 3 for uid-pilot, attempt 2, new, finished 0s",
			status: "idle 3, Healthy True ScalerReady, Failed False ScalerReady, Progressing False UpToDate"},
		"a stranger, and another wish": {in: on(web(5, quiet(2)), pilot()),
			want: `do CountReverted: patch statefulsets web {+scale, replicas = 2}; event CountReverted "another client has scaled the StatefulSet to 5; Scaler pilot has put 2 back. Scale the Scaler instead: kubectl scale -n shop scaler pilot --replicas=N"`,
			next: "Succeeded ScalerReady, 2 to 2 for uid-pilot, attempt 1, finished -30s"},
		"begin": {in: on(web(2, quiet(2)), pilot()),
			want:   `do ScalingStarted: patch statefulsets web {+scale}; event ScalingStarted "scaling from 2 to 3"; patch scalers.v1alpha1.drydock.dev/status pilot {status}`,
			next:   "PreScaling ScalingStarted, 2 to 3 for uid-pilot, attempt 2, new, due 10m0s",
			status: "preScaling 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True ScalingStarted"},
		"begin with hooks": {in: on(web(2, quiet(2)), pilot(hooked)),
			want:   `do ScalingStarted: patch statefulsets web {+scale}; event ScalingStarted "scaling from 2 to 3"; patch scalers.v1alpha1.drydock.dev/status pilot {status}`,
			next:   "PreScaling ScalingStarted, 2 to 3 for uid-pilot, attempt 2, new, due 10m0s",
			status: "preScaling 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True ScalingStarted"},
		"begin to scale down": {in: on(web(3, quiet(3)), pilot(wants(1))),
			want:   `do ScalingStarted: patch statefulsets web {+scale}; event ScalingStarted "scaling from 3 to 1"; patch scalers.v1alpha1.drydock.dev/status pilot {status}`,
			next:   "PreScaling ScalingStarted, 3 to 1 for uid-pilot, attempt 2, new, due 10m0s",
			status: "preScaling 3, Healthy True ScalerReady, Failed False ScalerReady, Progressing True ScalingStarted"},
		"begin to scale to none": {in: on(web(3, quiet(3)), pilot(wants(0))),
			want:   `do ScalingStarted: patch statefulsets web {+scale}; event ScalingStarted "scaling from 3 to 0"; patch scalers.v1alpha1.drydock.dev/status pilot {status}`,
			next:   "PreScaling ScalingStarted, 3 to 0 for uid-pilot, attempt 2, new, due 10m0s",
			status: "preScaling 3, Healthy True ScalerReady, Failed False ScalerReady, Progressing True ScalingStarted"},
		"a template cannot be read": {in: on(web(2, quiet(2)), pilot(unread)),
			want:   "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			status: "idle 2, Healthy False HookInvalid, Failed False HookInvalid, Progressing False HookInvalid"},
		"a template cannot be read, it is told": {in: reported(on(web(2, quiet(2)), pilot(unread))),
			want: "noop HookInvalid"},
		"a template, and nothing to do": {in: on(web(3, quiet(3)), pilot(unread)),
			want:   "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			status: "idle 3, Healthy True ScalerReady, Failed False ScalerReady, Progressing False UpToDate"},
		"a retry, where nothing has failed": {in: on(web(3, quiet(3)), pilot(retry)),
			want: "do NothingFailed: patch scalers.v1alpha1.drydock.dev pilot {-retry}"},
		"a retry by event, nothing has failed": {in: retried(reported(on(web(3, quiet(3)), pilot()))),
			want: "noop UpToDate"},
		"a hook of before is left": {in: on(web(3, records(api.Succeeded)), pilot(hooked), hook("post", complete)),
			want: "do HookEnded: delete jobs drydock-0123456789ab-post-scaling"},
		"a hook of before is ending": {in: reported(on(web(3, records(api.Succeeded)), pilot(hooked), hook("post", build.Deleting()))),
			want: "noop UpToDate"},
		"a write was refused before": {in: rejected(on(web(2, quiet(2)), pilot())),
			want:   "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			status: "idle 2, Healthy False Rejected, Failed False Rejected, Progressing False Rejected"},
	})
}

func noHistory(s *v1alpha1.Scaler) {
	none := int32(0)
	s.Spec.HistoryLimit = &none
}

func TestBeforeTheChange(t *testing.T) {
	started := records(api.PreScaling)
	late := records(api.PreScaling, overdue)
	check(t, map[string]row{
		"there is no hook": {in: on(web(2, started), pilot()),
			want:   "do CountChanged: patch statefulsets web {+scale, replicas = 3}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Scaling CountChanged, 2 to 3 for uid-pilot, attempt 1, due 30m0s",
			status: "scaling 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True CountChanged"},
		"there is no hook, and it is late": {in: on(web(2, late), pilot()),
			want:   "do CountChanged: patch statefulsets web {+scale, replicas = 3}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Scaling CountChanged, 2 to 3 for uid-pilot, attempt 1, due 30m0s",
			status: "scaling 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True CountChanged"},
		"the hook is missing": {in: on(web(2, started), pilot(hooked)),
			want: "do HookRunning: create jobs drydock-0123456789ab-pre-scaling"},
		"the hook is missing, and it is late": {in: on(web(2, late), pilot(hooked)),
			want:   "do DeadlineExceeded: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Failing DeadlineExceeded at PreScaling, 2 to 3 for uid-pilot, attempt 1, due 10m0s",
			status: "failed 2, failed at preScaling DeadlineExceeded, Healthy False DeadlineExceeded, Failed True DeadlineExceeded, Progressing True DeadlineExceeded"},
		"the hook runs": {in: on(web(2, started), pilot(hooked), hook("pre")),
			want:   "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			status: "preScaling 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True ScalingStarted"},
		"the hook runs, it is told": {in: reported(on(web(2, started), pilot(hooked), hook("pre"))),
			want: "wait HookRunning (Job drydock-0123456789ab-pre-scaling runs)"},
		"the hook is complete": {in: on(web(2, started), pilot(hooked), hook("pre", complete)),
			want:   "do CountChanged: patch statefulsets web {+scale, replicas = 3}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Scaling CountChanged, 2 to 3 for uid-pilot, attempt 1, due 30m0s",
			status: "scaling 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True CountChanged"},
		"the hook is complete, and it is late": {in: on(web(2, late), pilot(hooked), hook("pre", complete)),
			want:   "do CountChanged: patch statefulsets web {+scale, replicas = 3}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Scaling CountChanged, 2 to 3 for uid-pilot, attempt 1, due 30m0s",
			status: "scaling 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True CountChanged"},
		"the hook has failed": {in: on(web(2, started), pilot(hooked), hook("pre", failed)),
			want:   "do HookFailed: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Failing HookFailed at PreScaling, 2 to 3 for uid-pilot, attempt 1, due 10m0s",
			status: "failed 2, failed at preScaling HookFailed, Healthy False HookFailed, Failed True HookFailed, Progressing True HookFailed"},
		"the hook is overdue": {in: on(web(2, late), pilot(hooked), hook("pre")),
			want:   "do DeadlineExceeded: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Failing DeadlineExceeded at PreScaling, 2 to 3 for uid-pilot, attempt 1, due 10m0s",
			status: "failed 2, failed at preScaling DeadlineExceeded, Healthy False DeadlineExceeded, Failed True DeadlineExceeded, Progressing True DeadlineExceeded"},
		"the hook is being deleted": {in: reported(on(web(2, started), pilot(hooked), hook("pre", build.Deleting()))),
			want: "wait HookRunning (Job drydock-0123456789ab-pre-scaling is being deleted)"},
		"it was complete, and is being deleted": {in: reported(on(web(2, started), pilot(hooked), hook("pre", complete, build.Deleting()))),
			want: "wait HookRunning (Job drydock-0123456789ab-pre-scaling is being deleted)"},
		"it is being deleted, and overdue": {in: on(web(2, late), pilot(hooked), hook("pre", build.Deleting())),
			want:   "do DeadlineExceeded: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Failing DeadlineExceeded at PreScaling, 2 to 3 for uid-pilot, attempt 1, due 10m0s",
			status: "failed 2, failed at preScaling DeadlineExceeded, Healthy False DeadlineExceeded, Failed True DeadlineExceeded, Progressing True DeadlineExceeded"},
		"the template cannot be read": {in: on(web(2, started), pilot(unread)),
			want:   "do HookInvalid: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Failing HookInvalid at PreScaling, 2 to 3 for uid-pilot, attempt 1, due 10m0s",
			status: "failed 2, failed at preScaling HookInvalid, Healthy False HookInvalid, Failed True HookInvalid, Progressing True HookInvalid"},
		"the same, and the hook is complete": {in: on(web(2, started), pilot(unread), hook("pre", complete)),
			want:   "do CountChanged: patch statefulsets web {+scale, replicas = 3}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Scaling CountChanged, 2 to 3 for uid-pilot, attempt 1, due 30m0s",
			status: "scaling 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True CountChanged"},
		"the hook was taken out while it runs": {in: reported(on(web(2, started), pilot(), hook("pre"))),
			want: "wait HookRunning (Job drydock-0123456789ab-pre-scaling runs)"},
		"the hook is of another operation": {in: on(web(2, started), pilot(hooked), hook("pre", another)),
			want: "do HookRunning: create jobs drydock-0123456789ab-pre-scaling"},
		"the hook after it is there": {in: on(web(2, started), pilot(hooked), hook("post")),
			want: "do HookEnded: delete jobs drydock-0123456789ab-post-scaling"},
		"a stranger scales": {in: on(web(5, started), pilot(hooked), hook("pre")),
			want:   "do StartedByOthers: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Failing StartedByOthers at PreScaling, 2 to 3 for uid-pilot, attempt 1, due 10m0s",
			status: "failed 5, failed at preScaling StartedByOthers, Healthy False StartedByOthers, Failed True StartedByOthers, Progressing True StartedByOthers"},
		"a stranger scales to the target": {in: on(web(3, started), pilot(hooked), hook("pre")),
			want:   "do StartedByOthers: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Failing StartedByOthers at PreScaling, 2 to 3 for uid-pilot, attempt 1, due 10m0s",
			status: "failed 3, failed at preScaling StartedByOthers, Healthy False StartedByOthers, Failed True StartedByOthers, Progressing True StartedByOthers"},
		"a stranger scales, adopt": {in: on(web(5, started), pilot(hooked, adopting), hook("pre")),
			want:   "do StartedByOthers: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Failing StartedByOthers at PreScaling, 2 to 3 for uid-pilot, attempt 1, due 10m0s",
			status: "failed 5, failed at preScaling StartedByOthers, Healthy False StartedByOthers, Failed True StartedByOthers, Progressing True StartedByOthers"},
		"a retry": {in: on(web(2, started), pilot(hooked, retry), hook("pre")),
			want: "do NothingFailed: patch scalers.v1alpha1.drydock.dev pilot {-retry}"},
		"a write is refused": {in: rejected(on(web(2, started), pilot(hooked))),
			want:   "do Rejected: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Failing Rejected at PreScaling, 2 to 3 for uid-pilot, attempt 1, due 10m0s",
			status: "failed 2, failed at preScaling Rejected, Healthy False Rejected, Failed True Rejected, Progressing True Rejected"},
		"an annotation of a user is on the set": {in: reported(on(web(2, build.Resize("data=1Gi"), started), pilot(hooked), hook("pre"))),
			want: "wait HookRunning (Job drydock-0123456789ab-pre-scaling runs)"},
	})
}

var another = build.LinkOf(api.Link{Operation: "ffffffffffff", Role: api.RoleScaleHook, Namespace: build.Namespace, Set: api.SetRef{Name: "web", UID: "uid-web"}})

func TestChange(t *testing.T) {
	changed := records(api.Scaling)
	late := records(api.Scaling, overdue)
	check(t, map[string]row{
		"the controller has not seen it": {in: on(web(3, build.Unseen(), changed), pilot()),
			want:   "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			status: "scaling 3, Healthy True ScalerReady, Failed False ScalerReady, Progressing True CountChanged"},
		"the same, it is told": {in: reported(on(web(3, build.Unseen(), changed), pilot())),
			want: "wait WaitingForReady (3 of 3 members are ready, 3 are there)"},
		"too many are there": {in: reported(on(web(3, build.Counting(4, 3), changed), pilot())),
			want: "wait WaitingForReady (3 of 3 members are ready, 4 are there)"},
		"too few are there": {in: reported(on(web(3, build.Counting(2, 2), changed), pilot())),
			want: "wait WaitingForReady (2 of 3 members are ready, 2 are there)"},
		"not all are ready": {in: reported(on(web(3, build.Counting(3, 2), changed), pilot())),
			want: "wait WaitingForReady (2 of 3 members are ready, 3 are there)"},
		"all are ready": {in: on(web(3, changed), pilot()),
			want:   "do MembersReady: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "PostScaling MembersReady, 2 to 3 for uid-pilot, attempt 1, due 10m0s",
			status: "postScaling 3, Healthy True ScalerReady, Failed False ScalerReady, Progressing True MembersReady"},
		"all are ready, and it is late": {in: on(web(3, late), pilot()),
			want:   "do MembersReady: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "PostScaling MembersReady, 2 to 3 for uid-pilot, attempt 1, due 10m0s",
			status: "postScaling 3, Healthy True ScalerReady, Failed False ScalerReady, Progressing True MembersReady"},
		"not all are ready, and it is late": {in: on(web(3, build.Counting(3, 2), late), pilot(hooked)),
			want:   "do DeadlineExceeded: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Failing DeadlineExceeded at Scaling, 2 to 3 for uid-pilot, attempt 1, due 10m0s",
			status: "failed 3, failed at scaling DeadlineExceeded, Healthy False DeadlineExceeded, Failed True DeadlineExceeded, Progressing True DeadlineExceeded"},
		"it is late, and no hook is for that": {in: on(web(3, build.Counting(3, 2), late), pilot()),
			want: `do DeadlineExceeded: patch statefulsets web {+scale}; event DeadlineExceeded "2 of 3 members are ready, and 3 are there, after 30m0s; ` +
				`look at the pods of the StatefulSet. Mend that, then: kubectl annotate -n shop scaler pilot drydock.dev/retry="; ` +
				`patch scalers.v1alpha1.drydock.dev/status pilot {status} -> operation.failed`,
			next:   "Failed DeadlineExceeded at Scaling, 2 to 3 for uid-pilot, attempt 1, finished 0s",
			status: "failed 3, failed at scaling DeadlineExceeded, Healthy False DeadlineExceeded, Failed True DeadlineExceeded, Progressing False UpToDate, Failed 2 to 3"},
		"not seen, and it is late": {in: on(web(3, build.Unseen(), late), pilot(hooked)),
			want:   "do DeadlineExceeded: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Failing DeadlineExceeded at Scaling, 2 to 3 for uid-pilot, attempt 1, due 10m0s",
			status: "failed 3, failed at scaling DeadlineExceeded, Healthy False DeadlineExceeded, Failed True DeadlineExceeded, Progressing True DeadlineExceeded"},
		"none is left": {in: on(web(0, records(api.Scaling, func(s *api.Scale) { s.Target = 0 })), pilot(wants(0))),
			want:   "do MembersReady: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "PostScaling MembersReady, 2 to 0 for uid-pilot, attempt 1, due 10m0s",
			status: "postScaling 0, Healthy True ScalerReady, Failed False ScalerReady, Progressing True MembersReady"},
		"the hook before is left": {in: on(web(3, changed), pilot(hooked), hook("pre", complete)),
			want: "do HookEnded: delete jobs drydock-0123456789ab-pre-scaling"},
		"the hook before is there no more": {in: reported(on(web(3, build.Counting(2, 2), changed), pilot(hooked), hook("pre", build.Deleting()))),
			want: "wait WaitingForReady (2 of 3 members are ready, 2 are there)"},
		"a stranger scales": {in: on(web(2, changed), pilot()),
			want: `do CountReverted: patch statefulsets web {+scale, replicas = 3}; event CountReverted "another client has scaled the StatefulSet to 2; Scaler pilot has put 3 back. Scale the Scaler instead: kubectl scale -n shop scaler pilot --replicas=N"`,
			next: "Scaling CountChanged, 2 to 3 for uid-pilot, attempt 1, due 5m0s"},
		"a stranger scales, adopt": {in: on(web(5, changed), pilot(hooked, adopting)),
			want:   "do StartedByOthers: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Failing StartedByOthers at Scaling, 2 to 3 for uid-pilot, attempt 1, due 10m0s",
			status: "failed 5, failed at scaling StartedByOthers, Healthy False StartedByOthers, Failed True StartedByOthers, Progressing True StartedByOthers"},
		"a write is refused": {in: rejected(on(web(3, changed), pilot(hooked))),
			want:   "do Rejected: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Failing Rejected at Scaling, 2 to 3 for uid-pilot, attempt 1, due 10m0s",
			status: "failed 3, failed at scaling Rejected, Healthy False Rejected, Failed True Rejected, Progressing True Rejected"},
		"a retry": {in: on(web(3, changed), pilot(retry)),
			want: "do NothingFailed: patch scalers.v1alpha1.drydock.dev pilot {-retry}"},
		"the template cannot be read by then": {in: on(web(3, changed), pilot(unread)),
			want:   "do MembersReady: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "PostScaling MembersReady, 2 to 3 for uid-pilot, attempt 1, due 10m0s",
			status: "postScaling 3, Healthy True ScalerReady, Failed False ScalerReady, Progressing True MembersReady"},
	})
}

func TestAfterTheChange(t *testing.T) {
	ready := records(api.PostScaling)
	late := records(api.PostScaling, overdue)
	check(t, map[string]row{
		"there is no hook": {in: on(web(3, ready), pilot()),
			want:   `do ScalingCompleted: patch statefulsets web {+scale}; event ScalingCompleted "scaled from 2 to 3"; patch scalers.v1alpha1.drydock.dev/status pilot {status} -> scale.completed`,
			next:   "Succeeded ScalingCompleted, 2 to 3 for uid-pilot, attempt 1, finished 0s",
			status: "idle 3, Healthy True ScalerReady, Failed False ScalerReady, Progressing False UpToDate, Succeeded 2 to 3"},
		"the hook is missing": {in: on(web(3, ready), pilot(hooked)),
			want: "do HookRunning: create jobs drydock-0123456789ab-post-scaling"},
		"the hook runs, it is told": {in: reported(on(web(3, ready), pilot(hooked), hook("post"))),
			want: "wait HookRunning (Job drydock-0123456789ab-post-scaling runs)"},
		"the hook is complete": {in: on(web(3, ready), pilot(hooked), hook("post", complete)),
			want:   `do ScalingCompleted: patch statefulsets web {+scale}; event ScalingCompleted "scaled from 2 to 3"; patch scalers.v1alpha1.drydock.dev/status pilot {status} -> scale.completed`,
			next:   "Succeeded ScalingCompleted, 2 to 3 for uid-pilot, attempt 1, finished 0s",
			status: "idle 3, Healthy True ScalerReady, Failed False ScalerReady, Progressing False UpToDate, Succeeded 2 to 3"},
		"the same, and another wish": {in: on(web(3, ready), pilot(hooked, wants(7)), hook("post", complete)),
			want:   `do ScalingCompleted: patch statefulsets web {+scale}; event ScalingCompleted "scaled from 2 to 3"; patch scalers.v1alpha1.drydock.dev/status pilot {status} -> scale.completed`,
			next:   "Succeeded ScalingCompleted, 2 to 3 for uid-pilot, attempt 1, finished 0s",
			status: "idle 3, Healthy True ScalerReady, Failed False ScalerReady, Progressing True ScalingStarted, Succeeded 2 to 3"},
		"the hook has failed": {in: on(web(3, ready), pilot(hooked), hook("post", failed)),
			want:   "do HookFailed: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Failing HookFailed at PostScaling, 2 to 3 for uid-pilot, attempt 1, due 10m0s",
			status: "failed 3, failed at postScaling HookFailed, Healthy False HookFailed, Failed True HookFailed, Progressing True HookFailed"},
		"the hook is overdue": {in: on(web(3, late), pilot(hooked), hook("post")),
			want:   "do DeadlineExceeded: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Failing DeadlineExceeded at PostScaling, 2 to 3 for uid-pilot, attempt 1, due 10m0s",
			status: "failed 3, failed at postScaling DeadlineExceeded, Healthy False DeadlineExceeded, Failed True DeadlineExceeded, Progressing True DeadlineExceeded"},
		"the hook is being deleted": {in: reported(on(web(3, ready), pilot(hooked), hook("post", build.Deleting()))),
			want: "wait HookRunning (Job drydock-0123456789ab-post-scaling is being deleted)"},
		"the template cannot be read": {in: on(web(3, ready), pilot(unread)),
			want:   "do HookInvalid: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Failing HookInvalid at PostScaling, 2 to 3 for uid-pilot, attempt 1, due 10m0s",
			status: "failed 3, failed at postScaling HookInvalid, Healthy False HookInvalid, Failed True HookInvalid, Progressing True HookInvalid"},
		"a member is not ready any more": {in: reported(on(web(3, build.Counting(3, 2), ready), pilot(hooked), hook("post"))),
			want: "wait HookRunning (Job drydock-0123456789ab-post-scaling runs)"},
		"a stranger scales": {in: on(web(5, ready), pilot(hooked), hook("post")),
			want:   "do StartedByOthers: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Failing StartedByOthers at PostScaling, 2 to 3 for uid-pilot, attempt 1, due 10m0s",
			status: "failed 5, failed at postScaling StartedByOthers, Healthy False StartedByOthers, Failed True StartedByOthers, Progressing True StartedByOthers"},
		"a stranger scales, adopt": {in: on(web(5, ready), pilot(hooked, adopting), hook("post")),
			want:   "do StartedByOthers: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Failing StartedByOthers at PostScaling, 2 to 3 for uid-pilot, attempt 1, due 10m0s",
			status: "failed 5, failed at postScaling StartedByOthers, Healthy False StartedByOthers, Failed True StartedByOthers, Progressing True StartedByOthers"},
		"a write is refused": {in: rejected(on(web(3, ready), pilot(hooked))),
			want:   "do Rejected: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Failing Rejected at PostScaling, 2 to 3 for uid-pilot, attempt 1, due 10m0s",
			status: "failed 3, failed at postScaling Rejected, Healthy False Rejected, Failed True Rejected, Progressing True Rejected"},
		"the hook before is there": {in: on(web(3, ready), pilot(hooked), hook("pre", complete)),
			want: "do HookEnded: delete jobs drydock-0123456789ab-pre-scaling"},
		"the history is full": {in: on(web(3, ready), pilot(edited(fullHistory))),
			want:   `do ScalingCompleted: patch statefulsets web {+scale}; event ScalingCompleted "scaled from 2 to 3"; patch scalers.v1alpha1.drydock.dev/status pilot {status} -> scale.completed`,
			next:   "Succeeded ScalingCompleted, 2 to 3 for uid-pilot, attempt 1, finished 0s",
			status: "idle 3, Healthy True ScalerReady, Failed False ScalerReady, Progressing False UpToDate, Succeeded 2 to 3, Succeeded 1 to 2"},
		"the last of the hooks goes last": {in: on(web(3, records(api.Succeeded)), pilot(hooked), hook("post", complete)),
			want: "do HookEnded: delete jobs drydock-0123456789ab-post-scaling"},
	})
}

func fullHistory(s *v1alpha1.Scaler) {
	two := int32(2)
	s.Spec.HistoryLimit = &two
	for _, operation := range []string{"222222222222", "111111111111"} {
		s.Status.History = append(s.Status.History, v1alpha1.ScalingResult{Operation: operation, From: 1, To: 2, Result: "Succeeded", Finished: metav1.NewTime(build.Now)})
	}
}

func TestFailing(t *testing.T) {
	failing := records(api.Failing, gaveUp(api.PreScaling))
	made := records(api.Failing, gaveUp(api.PreScaling), hookMade)
	late := records(api.Failing, gaveUp(api.PreScaling), overdue)
	check(t, map[string]row{
		"there is no hook": {in: on(web(2, failing), pilot()),
			want:   `do HookFailed: patch statefulsets web {+scale}; event HookFailed "it failed"; patch scalers.v1alpha1.drydock.dev/status pilot {status} -> operation.failed`,
			next:   "Failed HookFailed at PreScaling, 2 to 3 for uid-pilot, attempt 1, finished 0s",
			status: "failed 2, failed at preScaling HookFailed, Healthy False HookFailed, Failed True HookFailed, Progressing False UpToDate, Failed 2 to 3"},
		"the hook is missing": {in: on(web(2, failing), pilot(hooked)),
			want: "do HookRunning: create jobs drydock-0123456789ab-onfailure-scaling"},
		"the hook runs, it is told": {in: reported(on(web(2, made), pilot(hooked), hook("onFailure"))),
			want: "wait HookRunning (Job drydock-0123456789ab-onfailure-scaling runs)"},
		"the hook is there": {in: reported(on(web(2, failing), pilot(hooked), hook("onFailure"))),
			want: "do HookRunning: patch statefulsets web {+scale}",
			next: "Failing HookFailed at PreScaling, 2 to 3 for uid-pilot, attempt 1, due 5m0s"},
		"its Job was deleted": {in: on(web(2, made), pilot(hooked)),
			want:   `do HookFailed: patch statefulsets web {+scale}; event HookFailed "it failed"; patch scalers.v1alpha1.drydock.dev/status pilot {status} -> operation.failed`,
			next:   "Failed HookFailed at PreScaling, 2 to 3 for uid-pilot, attempt 1, finished 0s",
			status: "failed 2, failed at preScaling HookFailed, Healthy False HookFailed, Failed True HookFailed, Progressing False UpToDate, Failed 2 to 3"},
		"the hook is complete": {in: on(web(2, failing), pilot(hooked), hook("onFailure", complete)),
			want:   `do HookFailed: patch statefulsets web {+scale}; event HookFailed "it failed"; patch scalers.v1alpha1.drydock.dev/status pilot {status} -> operation.failed`,
			next:   "Failed HookFailed at PreScaling, 2 to 3 for uid-pilot, attempt 1, finished 0s",
			status: "failed 2, failed at preScaling HookFailed, Healthy False HookFailed, Failed True HookFailed, Progressing False UpToDate, Failed 2 to 3"},
		"the hook fails": {in: on(web(2, failing), pilot(hooked), hook("onFailure", failed)),
			want:   `do HookFailed: patch statefulsets web {+scale}; event HookFailed "it failed"; patch scalers.v1alpha1.drydock.dev/status pilot {status} -> operation.failed`,
			next:   "Failed HookFailed at PreScaling, 2 to 3 for uid-pilot, attempt 1, finished 0s",
			status: "failed 2, failed at preScaling HookFailed, Healthy False HookFailed, Failed True HookFailed, Progressing False UpToDate, Failed 2 to 3"},
		"the hook is overdue": {in: on(web(2, late), pilot(hooked), hook("onFailure")),
			want:   `do HookFailed: patch statefulsets web {+scale}; event HookFailed "it failed"; patch scalers.v1alpha1.drydock.dev/status pilot {status} -> operation.failed`,
			next:   "Failed HookFailed at PreScaling, 2 to 3 for uid-pilot, attempt 1, finished 0s",
			status: "failed 2, failed at preScaling HookFailed, Healthy False HookFailed, Failed True HookFailed, Progressing False UpToDate, Failed 2 to 3"},
		"the hook is missing, and late": {in: on(web(2, late), pilot(hooked)),
			want:   `do HookFailed: patch statefulsets web {+scale}; event HookFailed "it failed"; patch scalers.v1alpha1.drydock.dev/status pilot {status} -> operation.failed`,
			next:   "Failed HookFailed at PreScaling, 2 to 3 for uid-pilot, attempt 1, finished 0s",
			status: "failed 2, failed at preScaling HookFailed, Healthy False HookFailed, Failed True HookFailed, Progressing False UpToDate, Failed 2 to 3"},
		"the hook is being deleted": {in: reported(on(web(2, made), pilot(hooked), hook("onFailure", build.Deleting()))),
			want: "wait HookRunning (Job drydock-0123456789ab-onfailure-scaling runs)"},
		"the template cannot be read": {in: on(web(2, failing), pilot(unread)),
			want:   `do HookFailed: patch statefulsets web {+scale}; event HookFailed "it failed"; patch scalers.v1alpha1.drydock.dev/status pilot {status} -> operation.failed`,
			next:   "Failed HookFailed at PreScaling, 2 to 3 for uid-pilot, attempt 1, finished 0s",
			status: "failed 2, failed at preScaling HookFailed, Healthy False HookFailed, Failed True HookFailed, Progressing False UpToDate, Failed 2 to 3"},
		"a write is refused": {in: rejected(on(web(2, failing), pilot(hooked))),
			want:   `do HookFailed: patch statefulsets web {+scale}; event HookFailed "it failed"; patch scalers.v1alpha1.drydock.dev/status pilot {status} -> operation.failed`,
			next:   "Failed HookFailed at PreScaling, 2 to 3 for uid-pilot, attempt 1, finished 0s",
			status: "failed 2, failed at preScaling HookFailed, Healthy False HookFailed, Failed True HookFailed, Progressing False UpToDate, Failed 2 to 3"},
		"the hook that failed is left": {in: on(web(2, failing), pilot(hooked), hook("pre", failed)),
			want: "do HookEnded: delete jobs drydock-0123456789ab-pre-scaling"},
		"a stranger scales": {in: reported(on(web(5, made), pilot(hooked), hook("onFailure"))),
			want: "wait HookRunning (Job drydock-0123456789ab-onfailure-scaling runs)"},
		"a retry comes too early, and stays": {in: reported(on(web(2, made), pilot(hooked, retry), hook("onFailure"))),
			want: "wait HookRunning (Job drydock-0123456789ab-onfailure-scaling runs)"},
		"it failed while members started": {in: on(web(3, records(api.Failing, gaveUp(api.Scaling))), pilot()),
			want:   `do HookFailed: patch statefulsets web {+scale}; event HookFailed "it failed"; patch scalers.v1alpha1.drydock.dev/status pilot {status} -> operation.failed`,
			next:   "Failed HookFailed at Scaling, 2 to 3 for uid-pilot, attempt 1, finished 0s",
			status: "failed 3, failed at scaling HookFailed, Healthy False HookFailed, Failed True HookFailed, Progressing False UpToDate, Failed 2 to 3"},
		"it failed after the change": {in: on(web(3, records(api.Failing, gaveUp(api.PostScaling))), pilot()),
			want:   `do HookFailed: patch statefulsets web {+scale}; event HookFailed "it failed"; patch scalers.v1alpha1.drydock.dev/status pilot {status} -> operation.failed`,
			next:   "Failed HookFailed at PostScaling, 2 to 3 for uid-pilot, attempt 1, finished 0s",
			status: "failed 3, failed at postScaling HookFailed, Healthy False HookFailed, Failed True HookFailed, Progressing False UpToDate, Failed 2 to 3"},
		"there is another hook of the name": {in: on(web(2, failing), pilot(hooked), hook("onFailure", another)),
			want: "do HookRunning: create jobs drydock-0123456789ab-onfailure-scaling"},
	})
}

func hookMade(s *api.Scale) { s.HookMade = true }

func TestFailed(t *testing.T) {
	at := func(phase api.Phase) build.Option { return records(api.Failed, gaveUp(phase)) }
	check(t, map[string]row{
		"it is not told": {in: on(web(2, at(api.PreScaling)), pilot()),
			want:   "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			status: "failed 2, failed at preScaling HookFailed, Healthy False HookFailed, Failed True HookFailed, Progressing False UpToDate, Failed 2 to 3"},
		"it is told": {in: reported(on(web(2, at(api.PreScaling)), pilot())),
			want: "noop UpToDate"},
		"another wish, no retry": {in: reported(on(web(2, at(api.PreScaling)), pilot(wants(7)))),
			want: "noop UpToDate"},
		"a stranger scales": {in: reported(on(web(5, at(api.PreScaling)), pilot())),
			want: "noop UpToDate"},
		"a stranger scales, adopt": {in: reported(on(web(5, at(api.PreScaling)), pilot(adopting))),
			want: "noop UpToDate"},
		"the hook is left": {in: on(web(2, at(api.PreScaling)), pilot(hooked), hook("onFailure", complete)),
			want: "do HookEnded: delete jobs drydock-0123456789ab-onfailure-scaling"},
		"retry before the change": {in: on(web(2, at(api.PreScaling)), pilot(retry, hooked)),
			want:   `do Retrying: patch statefulsets web {+scale}; event Retrying "taken up again at preScaling"; patch scalers.v1alpha1.drydock.dev/status pilot {status}`,
			next:   "PreScaling Retrying, 2 to 3 for uid-pilot, attempt 2, new, due 10m0s",
			status: "preScaling 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True Retrying"},
		"retry by event": {in: retried(on(web(2, at(api.PreScaling)), pilot(hooked))),
			want:   `do Retrying: patch statefulsets web {+scale}; event Retrying "taken up again at preScaling"; patch scalers.v1alpha1.drydock.dev/status pilot {status}`,
			next:   "PreScaling Retrying, 2 to 3 for uid-pilot, attempt 2, new, due 10m0s",
			status: "preScaling 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True Retrying"},
		"retry while members start": {in: on(web(3, at(api.Scaling)), pilot(retry)),
			want:   `do Retrying: patch statefulsets web {+scale}; event Retrying "taken up again at scaling"; patch scalers.v1alpha1.drydock.dev/status pilot {status}`,
			next:   "Scaling Retrying, 2 to 3 for uid-pilot, attempt 2, new, due 30m0s",
			status: "scaling 3, Healthy True ScalerReady, Failed False ScalerReady, Progressing True Retrying"},
		"retry after the change": {in: on(web(3, at(api.PostScaling)), pilot(retry, hooked)),
			want:   `do Retrying: patch statefulsets web {+scale}; event Retrying "taken up again at postScaling"; patch scalers.v1alpha1.drydock.dev/status pilot {status}`,
			next:   "PostScaling Retrying, 2 to 3 for uid-pilot, attempt 2, new, due 10m0s",
			status: "postScaling 3, Healthy True ScalerReady, Failed False ScalerReady, Progressing True Retrying"},
		"retry without a count": {in: on(web(2, at(api.PreScaling)), pilot(retry, wishless)),
			want:   `do Retrying: patch statefulsets web {+scale}; event Retrying "taken up again at preScaling"; patch scalers.v1alpha1.drydock.dev/status pilot {status}`,
			next:   "PreScaling Retrying, 2 to 3 for uid-pilot, attempt 2, new, due 10m0s",
			status: "preScaling 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True Retrying"},
		"retry with another wish": {in: on(web(2, at(api.PreScaling)), pilot(retry, wants(7))),
			want:   `do ScalingStarted: patch statefulsets web {+scale}; event ScalingStarted "scaling from 2 to 7"; patch scalers.v1alpha1.drydock.dev/status pilot {status}`,
			next:   "PreScaling ScalingStarted, 2 to 7 for uid-pilot, attempt 2, new, due 10m0s",
			status: "preScaling 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True ScalingStarted"},
		"retry after, with another wish": {in: on(web(3, at(api.PostScaling)), pilot(retry, wants(1))),
			want:   `do ScalingStarted: patch statefulsets web {+scale}; event ScalingStarted "scaling from 3 to 1"; patch scalers.v1alpha1.drydock.dev/status pilot {status}`,
			next:   "PreScaling ScalingStarted, 3 to 1 for uid-pilot, attempt 2, new, due 10m0s",
			status: "preScaling 3, Healthy True ScalerReady, Failed False ScalerReady, Progressing True ScalingStarted"},
		"retry, the wish is what there is": {in: on(web(2, at(api.PreScaling)), pilot(retry, wants(2))),
			want:   "do CountAdopted: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Succeeded CountAdopted, 2 to 2 for uid-pilot, attempt 2, new, finished 0s",
			status: "idle 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing False UpToDate"},
		"retry, a template is wrong": {in: on(web(2, at(api.PreScaling)), pilot(retry, unread)),
			want:   "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			status: "failed 2, failed at preScaling HookFailed, Healthy False HookFailed, Failed True HookFailed, Progressing False HookInvalid, Failed 2 to 3"},
		"retry, a stranger scaled": {in: on(web(5, at(api.PreScaling)), pilot(retry)),
			want:   `do ScalingStarted: patch statefulsets web {+scale}; event ScalingStarted "scaling from 5 to 3"; patch scalers.v1alpha1.drydock.dev/status pilot {status}`,
			next:   "PreScaling ScalingStarted, 5 to 3 for uid-pilot, attempt 2, new, due 10m0s",
			status: "preScaling 5, Healthy True ScalerReady, Failed False ScalerReady, Progressing True ScalingStarted"},
		"retry of what failed for opt-out": {in: on(web(2, records(api.Failed, gaveUp(api.PreScaling), notManaged)), pilot(retry)),
			want:   `do Retrying: patch statefulsets web {+scale}; event Retrying "taken up again at preScaling"; patch scalers.v1alpha1.drydock.dev/status pilot {status}`,
			next:   "PreScaling Retrying, 2 to 3 for uid-pilot, attempt 2, new, due 10m0s",
			status: "preScaling 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True Retrying"},
		"retry, and the hook is still left": {in: on(web(2, at(api.PreScaling)), pilot(retry, hooked), hook("onFailure", complete)),
			want:   `do Retrying: patch statefulsets web {+scale}; event Retrying "taken up again at preScaling"; patch scalers.v1alpha1.drydock.dev/status pilot {status}`,
			next:   "PreScaling Retrying, 2 to 3 for uid-pilot, attempt 2, new, due 10m0s",
			status: "preScaling 2, Healthy True ScalerReady, Failed False ScalerReady, Progressing True Retrying"},
	})
}

func notManaged(s *api.Scale) { s.Reason = api.NotManaged }

func TestSecondScaler(t *testing.T) {
	older := scaler("older", 5, build.Age(time.Hour))
	check(t, map[string]row{
		"the one of the record scales": {in: on(web(3, quiet(3)), pilot(), older),
			want:   "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}; patch scalers.v1alpha1.drydock.dev/status older {status}",
			status: "idle 3, Healthy True ScalerReady, Failed False ScalerReady, Progressing False UpToDate"},
		"both are told": {in: reported(on(web(3, quiet(3)), pilot(), older)),
			want: "noop UpToDate"},
		"the older one takes a new set": {in: on(web(2), pilot(), older),
			want:   "do ScalerReady: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}; patch scalers.v1alpha1.drydock.dev/status older {status}",
			next:   "Succeeded ScalerReady, 2 to 2 for uid-older, attempt 1, new, finished 0s",
			status: "idle 0, Healthy False TargetTaken, Failed False TargetTaken, Progressing False TargetTaken"},
		"of the same age: by UID": {in: on(web(2), pilot(), scaler("another", 9)),
			want:   "do ScalerReady: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}; patch scalers.v1alpha1.drydock.dev/status another {status}",
			next:   "Succeeded ScalerReady, 2 to 2 for uid-another, attempt 1, new, finished 0s",
			status: "idle 0, Healthy False TargetTaken, Failed False TargetTaken, Progressing False TargetTaken"},
		"the first one goes: the other takes": {in: on(web(3, quiet(3)), pilot(build.Deleting()), older),
			want: "do ScalerReady: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status older {status}",
			next: "Succeeded ScalerReady, 3 to 3 for uid-older, attempt 2, new, finished 0s"},
		"the first one goes during a scaling": {in: on(web(3, records(api.Scaling)), pilot(build.Deleting()), older),
			want: `do ScalerGone: patch statefulsets web {+scale}; event ScalerGone "the Scaler was deleted during the scaling"; patch scalers.v1alpha1.drydock.dev/status older {status} -> operation.failed`,
			next: "Failed ScalerGone at Scaling, 2 to 3 for uid-pilot, attempt 1, finished 0s"},
		"a scaling, and the other's retry": {in: on(web(3, records(api.Scaling)), pilot(), scaler("older", 5, retry)),
			want:   "do MembersReady: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}; patch scalers.v1alpha1.drydock.dev/status older {status}",
			next:   "PostScaling MembersReady, 2 to 3 for uid-pilot, attempt 1, due 10m0s",
			status: "postScaling 3, Healthy True ScalerReady, Failed False ScalerReady, Progressing True MembersReady"},
		"there is no set": {in: on(pilot(), older),
			want:   "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}; patch scalers.v1alpha1.drydock.dev/status older {status}",
			status: "idle 0, Healthy False TargetTaken, Failed False TargetTaken, Progressing False TargetTaken"},
		"the second one had failed of its own": {in: on(web(3, quiet(3)), pilot(), scaler("older", 5, edited(hadFailed))),
			want:   "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}; patch scalers.v1alpha1.drydock.dev/status older {status}",
			status: "idle 3, Healthy True ScalerReady, Failed False ScalerReady, Progressing False UpToDate"},
	})
}

func hadFailed(s *v1alpha1.Scaler) {
	s.Status.Stage, s.Status.Failed = v1alpha1.StageFailed, &v1alpha1.ScalerFailure{FailedAt: v1alpha1.StageScaling, Reason: "x"}
	s.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionFalse, Reason: "x", LastTransitionTime: metav1.NewTime(build.Now)},
		{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue, Reason: "x", LastTransitionTime: metav1.NewTime(build.Now)}}
}

// TestNewerWishChangesNothing: from its begin to its end a scaling goes to its target.
func TestNewerWishChangesNothing(t *testing.T) {
	const ended = "the hook after has ended"
	stages := map[string]func(options ...build.Option) Input{
		"the hook before starts": func(o ...build.Option) Input { return on(web(2, records(api.PreScaling)), pilot(o...)) },
		"the hook before runs":   func(o ...build.Option) Input { return on(web(2, records(api.PreScaling)), pilot(o...), hook("pre")) },
		"the hook before has ended": func(o ...build.Option) Input {
			return on(web(2, records(api.PreScaling)), pilot(o...), hook("pre", complete))
		},
		"the hook before has failed": func(o ...build.Option) Input {
			return on(web(2, records(api.PreScaling)), pilot(o...), hook("pre", failed))
		},
		"members start": func(o ...build.Option) Input {
			return on(web(3, build.Counting(3, 2), records(api.Scaling)), pilot(o...))
		},
		"members are ready":   func(o ...build.Option) Input { return on(web(3, records(api.Scaling)), pilot(o...)) },
		"the hook after runs": func(o ...build.Option) Input { return on(web(3, records(api.PostScaling)), pilot(o...), hook("post")) },
		ended: func(o ...build.Option) Input {
			return on(web(3, records(api.PostScaling)), pilot(o...), hook("post", complete))
		},
		"it fails": func(o ...build.Option) Input {
			return on(web(2, records(api.Failing, gaveUp(api.PreScaling))), pilot(o...))
		},
	}
	decide := func(name string, in Input) string {
		p := Decide(in)
		if name == ended { // the status tells of the wish then
			p.Actions = slices.DeleteFunc(p.Actions, func(a plan.Action) bool { return a.Resource == plan.ScalerStatus })
		}
		return encode(p)
	}
	for name, in := range stages {
		want := decide(name, in(hooked))
		for _, wish := range []build.Option{wants(0), wants(2), wants(7), wishless} {
			if got := decide(name, in(hooked, wish)); got != want {
				t.Errorf("%s: a newer wish\ngot  %s\nwant %s", name, got, want)
			}
		}
	}
}

// TestCountAndRecordAreOneWrite: nothing can come between the change of the count and the word of it.
func TestCountAndRecordAreOneWrite(t *testing.T) {
	p := Decide(on(web(2, records(api.PreScaling)), pilot(hooked), hook("pre", complete)))
	patch := p.Actions[0]
	paths := ""
	for _, op := range patch.Ops {
		paths += op.Path + " "
	}
	if want := "/metadata/resourceVersion /metadata/annotations/drydock.dev~1scale /spec/replicas "; patch.Resource != plan.StatefulSets || paths != want {
		t.Errorf("%s %s", patch.Resource, paths)
	}
	if got := patch.Ops[2].Value; got != int32(3) {
		t.Errorf("replicas = %v", got)
	}
	for _, a := range p.Actions[1:] {
		if a.Resource == plan.StatefulSets {
			t.Errorf("another write: %s", a)
		}
	}
}

// TestDeadlinesOfTheStages are the Scaler's, or those that its schema has.
func TestDeadlinesOfTheStages(t *testing.T) {
	own := edited(func(s *v1alpha1.Scaler) {
		s.Spec.Deadlines = v1alpha1.ScalerDeadlines{Pre: "1m", Scaling: "2m", Post: "3m", OnFailure: "4m"}
	})
	none := edited(func(s *v1alpha1.Scaler) { s.Spec.Deadlines = v1alpha1.ScalerDeadlines{Pre: "x", Scaling: "0s"} })
	for name, row := range map[string]struct {
		in        func(build.Option) Input
		own, none time.Duration
	}{
		"before":     {func(o build.Option) Input { return on(web(2, quiet(2)), pilot(o)) }, time.Minute, 10 * time.Minute},
		"the change": {func(o build.Option) Input { return on(web(2, records(api.PreScaling)), pilot(o)) }, 2 * time.Minute, 30 * time.Minute},
		"after":      {func(o build.Option) Input { return on(web(3, records(api.Scaling)), pilot(o)) }, 3 * time.Minute, 10 * time.Minute},
		"a failure": {func(o build.Option) Input {
			return on(web(3, build.Counting(3, 1), records(api.Scaling, overdue)), pilot(hooked, o))
		},
			4 * time.Minute, 10 * time.Minute},
	} {
		for option, want := range map[*build.Option]time.Duration{&own: row.own, &none: row.none} {
			if got := stored(Decide(row.in(*option))).Deadline.Sub(build.Now); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
	}
}

// TestOperationsOfRetriesDiffer, so that no Job of a hook is taken for another's.
func TestOperationsOfRetriesDiffer(t *testing.T) {
	seen := map[string]string{build.ID: "the first"}
	for _, phase := range []api.Phase{api.PreScaling, api.Scaling, api.PostScaling} {
		count := int32(3)
		if phase == api.PreScaling {
			count = 2
		}
		for attempt := range 3 {
			next := stored(Decide(on(web(count, records(api.Failed, gaveUp(phase), func(s *api.Scale) { s.Attempt = attempt })), pilot(retry))))
			if next.Phase != phase || next.FailedAt != "" {
				t.Errorf("%s: %s", phase, summary(next))
			}
			if was, twice := seen[next.Operation]; twice && !strings.Contains(was, "attempt") {
				t.Errorf("%s attempt %d has the operation of %s", phase, attempt, was)
			}
			seen[next.Operation] = string(phase) + " attempt"
		}
	}
}

// TestRetryOfWhatWasStoppedWhileItFailed begins where the scaling had failed, and not with the hook for a failure.
func TestRetryOfWhatWasStoppedWhileItFailed(t *testing.T) {
	in := on(web(3, optOut, records(api.Failing, gaveUp(api.PostScaling))), pilot(hooked))
	for _, a := range Decide(in).Actions {
		in = in.after(a)
	}
	in.Set = build.With(in.Set, build.Label(api.ManagedLabel, "true"))
	if next := stored(Decide(retried(in))); next == nil || next.Phase != api.PostScaling || next.FailedAt != "" {
		t.Errorf("it goes on with %s", summary(next))
	}
}
