package detectresize

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/resize"
	"drydock.dev/test/kit/build"
)

// standing stores that the set's request was refused, as the set is so far.
func standing(reason api.Reason, message string) build.Option {
	return build.Edit(func(s *appsv1.StatefulSet) {
		build.Status(build.Operation(api.Refused, func(status *api.Resize) {
			status.Request, status.Reason, status.Message, status.Judged = s.Annotations[api.ResizeAnnotation], reason, message, resize.JudgedOn(s)
			status.Finished = operation.Moment(build.Now.Add(-time.Hour))
		}))(s)
	})
}

func TestStandingRefusalIsJudgedAnew(t *testing.T) {
	const unknown = "storage class nvme, asked for template data, does not exist; name one of those that kubectl get storageclass lists"
	nvme := build.Resize("data=128Mi@nvme")
	at := func(in Input, minute int) Input {
		in.Now = time.Date(2026, 1, 1, 12, minute, 0, 0, time.UTC)
		return in
	}
	denied := func(in Input, why string) Input {
		in.Denied = why
		return in
	}
	const full = "the API server would refuse the pods that copy the volumes: 7 used. Change what it names, or how movers run with the annotation drydock.dev/mover"
	check(t, map[string]row{
		"its cause is there: nothing is written": {
			in: world(set(nvme, standing(api.UnknownClass, unknown)), both()), want: "noop AlreadyRefused"},
		"its cause is gone: the resize begins": {
			in: world(set(standing(api.QuotaExceeded, "full")), both()), want: begun, next: "Planned ResizeDetected, attempt 2, round 1, generation 0, replicas 2, due in 10m0s" + parts},
		"another reason is another refusal": {
			in:   world(set(nvme, standing(api.QuotaExceeded, "full")), both()),
			want: `do UnknownClass: patch statefulsets web {+status}; event UnknownClass "` + unknown + `" -> operation.failed`,
			next: "Refused UnknownClass, attempt 2, round 0, generation 0, replicas 2",
		},
		"the same reason in other words is no news": {
			in:   world(set(nvme, standing(api.UnknownClass, "storage class ssd does not exist")), both()),
			want: "do UnknownClass: patch statefulsets web {+status}",
			next: "Refused UnknownClass, attempt 1, round 1, generation 0, replicas 3",
		},
		"the set has changed, and the cause is there": {
			in:   world(set(nvme, standing(api.UnknownClass, unknown), build.Generation(6)), both()),
			want: "do UnknownClass: patch statefulsets web {+status}",
			next: "Refused UnknownClass, attempt 1, round 1, generation 0, replicas 3",
		},
		"figures that change are left alone": {
			in: at(denied(world(set(standing(api.Rejected, full)), both()), "8 used"), 11), want: "noop AlreadyRefused"},
		"every tenth minute they are not": {
			in: at(denied(world(set(standing(api.Rejected, full)), both()), "8 used"), 20), want: "do Rejected: patch statefulsets web {+status}",
			next: "Refused Rejected, attempt 1, round 1, generation 0, replicas 3"},
		"a user who asks again gets an answer": {
			in:   world(set(nvme, standing(api.UnknownClass, unknown), build.Annotation(api.RetryAnnotation, "now")), both()),
			want: `do UnknownClass: patch statefulsets web {-retry, +status}; event UnknownClass "` + unknown + `" -> operation.failed`,
			next: "Refused UnknownClass, attempt 2, round 0, generation 0, replicas 2",
		},
	})
}
