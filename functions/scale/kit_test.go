package scale

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/podend"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// In these tests, StatefulSet web had 2 members, and its Scaler pilot requests 3. The scaling is operation build.ID.

// row is a situation: a sentence, and the input for it.
type row struct {
	says string
	in   Input
}

// check decides on the rows, checks each decision, and compares it with the golden file of the test.
func check(t *testing.T, rows ...row) {
	t.Helper()
	file := golden.Open(t)
	for _, row := range rows {
		t.Run(row.says, func(t *testing.T) { file.Entry(t, row.says, entry(row.in, decideAndCheck(t, row.in))) })
	}
}

// entry renders the records of the set, and the plan.
func entry(in Input, p plan.Plan) string {
	has := ""
	if in.Set != nil {
		if sleep := operation.Of(in.Set).Sleep; sleep != nil {
			has += "has: " + build.Words(sleep) + "\n"
		}
		if stop := api.LoadStop(in.Set); stop != nil {
			has += "has: stop; " + build.Words(stop) + "\n"
		}
		if record := recordIn(in); record != nil {
			has += "has: " + build.Words(record) + "\n"
		}
	}
	return has + build.Plan(p, build.World(), objectsOf(in)...)
}

// decideAndCheck returns the decision. It applies the checks of build.Guard, and the checks for all decisions of this function.
func decideAndCheck(t *testing.T, in Input) plan.Plan {
	t.Helper()
	before := toJSON(in)
	p := build.Guard(t, api.ScaleFunction, build.World(), func() plan.Plan { return Decide(in) }, objectsOf(in)...)
	if again := Decide(in); toJSON(again) != toJSON(p) {
		t.Errorf("the same input, another plan:\n%s\n%s", toJSON(p), toJSON(again))
	}
	if after := toJSON(in); after != before {
		t.Errorf("the decision changed its input from\n%s\nto\n%s", before, after)
	}
	checkConverges(t, in)
	return p
}

// checkConverges carries out the decisions until Decide has no more actions, while no other client acts. The last decision must write
// nothing (I7). On the way, no record makes an invalid transition, and no failed Scaler is reported healthy.
func checkConverges(t *testing.T, in Input) {
	t.Helper()
	var trail []string
	for range 20 {
		p := Decide(in)
		if p.Kind != plan.KindDo {
			if len(p.Actions) > 0 {
				t.Errorf("%s: a plan that does nothing has actions", p)
			}
			return
		}
		trail = append(trail, p.String())
		for _, a := range p.Actions {
			if a.Verb == plan.VerbPatch && a.Resource == plan.StatefulSets {
				if err := build.CheckStep(api.ScaleFunction, in.Set, a); err != nil {
					t.Errorf("%s: %v", a, err)
				}
			}
			in = in.afterAction(a)
		}
		checkHealthConditions(t, in)
		in.Retry, in.Rejected, in.RejectedPlan = false, "", "" // each counts once
	}
	t.Errorf("the decisions do not converge:\n%s", strings.Join(trail, "\n"))
}

// playToEnd carries out the decisions until no scaling is active. Hooks complete, and members follow the count. It returns the
// environments of the hooks, too.
func playToEnd(t *testing.T, in Input) (end Input, hooks []map[string]string) {
	t.Helper()
	for range 100 {
		p := Decide(in)
		for _, a := range p.Actions {
			if job, ok := a.Object.(*batchv1.Job); ok {
				env := map[string]string{}
				for _, e := range job.Spec.Template.Spec.Containers[0].Env {
					env[e.Name] = e.Value
				}
				hooks = append(hooks, env)
			}
			in = in.afterAction(a)
		}
		if p.Kind == plan.KindDo {
			continue
		}
		if record, err := api.LoadScale(in.Set); err != nil || !record.Active() {
			return in, hooks
		}
		for i, job := range in.Jobs {
			in.Jobs[i] = build.With(job.DeepCopy(), build.Complete())
		}
		in = withHookPods(in)
		in.Set = in.Set.DeepCopy()
		n := statefulset.Replicas(in.Set)
		in.Set.Status.Replicas, in.Set.Status.ReadyReplicas, in.Set.Status.ObservedGeneration = n, n, in.Set.Generation
	}
	t.Fatal("the scalings do not end")
	return in, hooks
}

// checkHealthConditions checks that no failed Scaler is reported healthy.
func checkHealthConditions(t *testing.T, in Input) {
	t.Helper()
	for _, s := range in.Scalers {
		status := s.Status
		failed := status.Stage == v1alpha1.StageFailed || status.Failed != nil
		isTrue := func(kind string) bool { return meta.IsStatusConditionTrue(status.Conditions, kind) }
		if failed && !isTrue(v1alpha1.ConditionFailed) || failed && isTrue(v1alpha1.ConditionHealthy) {
			t.Errorf("Scaler %s has failed: %s", s.Name, build.Words(&status))
		}
		if isTrue(v1alpha1.ConditionHealthy) && isTrue(v1alpha1.ConditionFailed) {
			t.Errorf("Scaler %s is healthy and has failed: %s", s.Name, build.Words(&status))
		}
	}
}

// afterAction returns the situation after the action. The Job controller and the StatefulSet controller do not act.
func (in Input) afterAction(a plan.Action) Input {
	switch of, _ := a.Resource.Subresource(); {
	case a.Verb == plan.VerbEvent:
	case a.Resource == plan.Autoscalers:
		in.Autoscalers = autoscalersAfterAction(in.Autoscalers, a)
	case a.Resource == plan.ControllerRevisions:
		in.Records = recordsAfterAction(in.Records, a)
	case a.Verb == plan.VerbCreate:
		job := a.Object.(*batchv1.Job).DeepCopy()
		job.UID, job.ResourceVersion = types.UID("uid-"+job.Name), "rv-"+job.Name
		in.Jobs = append(append([]*batchv1.Job{}, in.Jobs...), job)
	case a.Verb == plan.VerbDelete:
		var left []*batchv1.Job
		for _, job := range in.Jobs {
			if job.Name != a.Name {
				left = append(left, job)
			}
		}
		in.Jobs = left
	case of == plan.Scalers:
		all := append([]*v1alpha1.Scaler{}, in.Scalers...)
		for i, s := range all {
			if s.Name == a.Name {
				all[i] = build.After(s, a)
			}
		}
		in.Scalers = all
	default:
		in.Set = build.After(in.Set, a)
	}
	return in
}

func recordsAfterAction(before []*appsv1.ControllerRevision, a plan.Action) []*appsv1.ControllerRevision {
	var all []*appsv1.ControllerRevision
	for _, r := range before {
		if r.Name != a.Name || a.Verb != plan.VerbDelete {
			all = append(all, r)
		}
	}
	if a.Verb == plan.VerbCreate {
		all = append(all, stored(a.Object.(*appsv1.ControllerRevision)))
	}
	return all
}

// stored returns the record as the API server stores it.
func stored(revision *appsv1.ControllerRevision) *appsv1.ControllerRevision {
	revision = revision.DeepCopy()
	revision.UID, revision.ResourceVersion = types.UID("uid-"+revision.Name), "rv-"+revision.Name
	return revision
}

func autoscalersAfterAction(before []*autoscalingv2.HorizontalPodAutoscaler, a plan.Action) []*autoscalingv2.HorizontalPodAutoscaler {
	var all []*autoscalingv2.HorizontalPodAutoscaler
	for _, live := range before {
		switch {
		case live.Name != a.Name:
			all = append(all, live)
		case a.Verb == plan.VerbPatch:
			all = append(all, build.After(live, a))
		}
	}
	if a.Verb == plan.VerbCreate {
		all = append(all, a.Object.(*autoscalingv2.HorizontalPodAutoscaler))
	}
	return all
}

func toJSON(what any) string {
	text, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func objectsOf(in Input) []metav1.Object {
	var all []metav1.Object
	if in.Set != nil {
		all = append(all, in.Set)
	}
	for _, s := range in.Scalers {
		all = append(all, s)
	}
	for _, j := range in.Jobs {
		all = append(all, j)
	}
	for _, a := range in.Autoscalers {
		all = append(all, a)
	}
	for _, r := range in.Records {
		all = append(all, r)
	}
	if in.Namesake != nil {
		all = append(all, in.Namesake)
	}
	return all
}

// reportedStatus returns the status that the plan writes to the Scaler, or nil.
func reportedStatus(p plan.Plan, scaler string) *v1alpha1.ScalerStatus {
	for _, a := range p.Actions {
		if a.Resource == plan.ScalerStatus && a.Name == scaler {
			for _, op := range a.Ops {
				if status, ok := op.Value.(*v1alpha1.ScalerStatus); ok {
					return status
				}
			}
		}
	}
	return nil
}

// recordIn returns the record of the set's scaling, or nil.
func recordIn(in Input) *api.Scale { return operation.Of(in.Set).Scale }

// observed returns the input with the objects.
func observed(objects ...metav1.Object) Input {
	in := Input{Now: build.Now, Namespace: build.Namespace, Name: "web"}
	for _, object := range objects {
		switch o := object.(type) {
		case *appsv1.StatefulSet:
			in.Set = o
		case *v1alpha1.Scaler:
			in.Scalers = append(in.Scalers, o)
		case *batchv1.Job:
			if isHook(o, "web") {
				in.Jobs = append(in.Jobs, o)
			} else {
				in.Namesake = o
			}
		case *autoscalingv2.HorizontalPodAutoscaler:
			in.Autoscalers = append(in.Autoscalers, o)
		case *appsv1.ControllerRevision:
			in.Records = append(in.Records, stored(o))
		}
	}
	return withHookPods(in)
}

// withHookPods returns the input with the pods of its complete Jobs, which have ended by themselves.
func withHookPods(in Input) Input {
	in.HookPods = build.EndedPods(in.Now, in.Jobs...)
	in.Kills = build.NoKills(in.HookPods...)
	return in
}

// withDrainedPod returns the input after a deletion of the hook's pod, which exited with 0.
func withDrainedPod(in Input) Input {
	for _, pod := range in.HookPods {
		pod.DeletionTimestamp = ptr.To(metav1.NewTime(build.Now))
	}
	return in
}

// withKill returns the input with an Event of the kubelet that it ended the hook's pod.
func withKill(in Input) Input {
	for uid := range in.Kills.Events {
		in.Kills.Events[uid] = podend.Told{Kill: &corev1.Event{Reason: "Evicted", Message: "The node was low on resource: memory."}}
	}
	return in
}

// withEnd returns the input if the hook's pod ended so long ago.
func withEnd(in Input, ago time.Duration) Input {
	for _, pod := range in.HookPods {
		pod.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(build.Now.Add(-ago))
	}
	return in
}

// withUnread returns the input if the pods of the hook's Job, which ended just now, cannot be read.
func withUnread(in Input) Input {
	in = withoutPods(in)
	in.Kills.Unread = "reading the pods of Job hook: the server is shutting down"
	for i, job := range in.Jobs {
		in.Jobs[i] = build.With(job.DeepCopy(), build.Edit(func(j *batchv1.Job) { j.Status.CompletionTime = ptr.To(metav1.NewTime(build.Now)) }))
	}
	return in
}

func withoutPods(in Input) Input {
	in.HookPods, in.Kills = nil, podend.Kills{}
	return in
}

func withRetryEvent(in Input) Input {
	in.Retry = true
	return in
}

func withRejection(in Input) Input { return withRejectionOf("", in) }

// withRejectionOf returns the input after the API server has rejected a write of the plan with this reason.
func withRejectionOf(planned api.Reason, in Input) Input {
	in.Rejected, in.RejectedPlan = "statefulsets is forbidden", planned
	return in
}

// withReportedStatus returns the input after the plan's writes to the status of the Scalers.
func withReportedStatus(in Input) Input {
	for _, a := range Decide(in).Actions {
		if a.Resource == plan.ScalerStatus {
			in = in.afterAction(a)
		}
	}
	return in
}

// web returns the set with the count. A record must be the last option.
func web(count int32, options ...build.Option) *appsv1.StatefulSet {
	return build.Set("web", append([]build.Option{build.Replicas(count)}, options...)...)
}

// withRecord stores a record of the scaling from 2 to 3 on the set. An active scaling has five minutes until its deadline.
func withRecord(phase api.Phase, options ...func(*api.Scale)) build.Option {
	record := recordOf(phase, options...)
	return build.Annotation(api.ScaleAnnotation, record.Encode())
}

func recordOf(phase api.Phase, options ...func(*api.Scale)) *api.Scale {
	record := &api.Scale{
		Header: api.Header{Version: api.RecordVersion, Operation: build.ID, Kind: api.KindScale, Phase: phase, Request: "3", Attempt: 1,
			Set: api.SetRef{Name: "web", UID: "uid-web"}, Started: metav1.NewTime(build.Now.Add(-time.Minute))},
		Scaler: api.ScalerRef{Name: "pilot", UID: "uid-pilot"}, Previous: 2, Target: 3,
	}
	record.Reason = map[api.Phase]api.Reason{api.PreScaling: api.ScalingStarted, api.Scaling: api.CountChanged,
		api.PostScaling: api.MembersReady, api.Succeeded: api.ScalingCompleted}[phase]
	if phase.Terminal() {
		record.Finished = operation.Moment(build.Now.Add(-30 * time.Second))
	} else {
		record.Deadline = operation.Moment(build.Now.Add(5 * time.Minute))
	}
	for _, option := range options {
		option(record)
	}
	return record
}

// withEndedScaling stores the record of a set with the count, and without a scaling so far.
func withEndedScaling(count int32) build.Option {
	return withRecord(api.Succeeded, func(s *api.Scale) { s.Previous, s.Target, s.Reason = count, count, api.ScalerReady })
}

// failedAt marks the scaling as failed in the phase, because of a hook.
func failedAt(at api.Phase) func(*api.Scale) {
	return func(s *api.Scale) { s.FailedAt, s.Reason, s.Message = at, api.HookFailed, "it failed" }
}

func overdue(s *api.Scale) { s.Deadline = operation.Moment(build.Now.Add(-time.Second)) }

func ofScaler(uid types.UID) func(*api.Scale) {
	return func(s *api.Scale) { s.Scaler.UID = uid }
}

// pilot returns the Scaler, which requests 3 members.
func pilot(options ...build.Option) *v1alpha1.Scaler { return scaler("pilot", 3, options...) }

func scaler(name string, wants int32, options ...build.Option) *v1alpha1.Scaler {
	s := &v1alpha1.Scaler{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: name, UID: types.UID("uid-" + name),
		ResourceVersion: "rv-" + name, Generation: 4, CreationTimestamp: metav1.NewTime(build.Now.Add(-time.Minute))},
		Spec: v1alpha1.ScalerSpec{Target: "web", Replicas: &wants}}
	return build.With(s, options...)
}

func editScaler(change func(*v1alpha1.Scaler)) build.Option { return build.Edit(change) }

// wants sets the count that the Scaler requests.
func wants(count int32) build.Option {
	return editScaler(func(s *v1alpha1.Scaler) { s.Spec.Replicas = &count })
}

const template = `{"spec":{"containers":[{"name":"hook","image":"registry.example/hook:1"}]}}`

// hooks gives the Scaler all three hooks, with the pod template.
func hooks(text string) build.Option {
	hook := &v1alpha1.Hook{Job: &v1alpha1.HookJob{Template: runtime.RawExtension{Raw: []byte(text)}}}
	return editScaler(func(s *v1alpha1.Scaler) { s.Spec.Hooks = v1alpha1.ScalerHooks{Pre: hook, Post: hook, OnFailure: hook} })
}

var (
	withHooks        = hooks(template)
	withInvalidHooks = hooks(`{"spec":{}}`)
	withAdoptPolicy  = editScaler(func(s *v1alpha1.Scaler) { s.Spec.ConflictPolicy = v1alpha1.ConflictAdopt })
	withRetry        = build.Annotation(api.RetryAnnotation, "")
	notOptedIn       = build.Label(api.ManagedLabel, "")
	withoutCount     = editScaler(func(s *v1alpha1.Scaler) { s.Spec.Replicas = nil })
)

// hookJob returns the running Job of the hook.
func hookJob(kind string, options ...build.Option) *batchv1.Job {
	set := web(2)
	parsed, err := resources.ParseScaleHook(set, "hook", template)
	if err != nil {
		panic(err)
	}
	job := resources.MakeScaleHook(set, recordOf(api.PreScaling), kind, parsed, time.Minute)
	job.UID, job.ResourceVersion = types.UID("uid-"+job.Name), "rv-"+job.Name
	return build.With(job, options...)
}

var (
	completed = build.Complete()
	failed    = build.Failed("BackoffLimitExceeded", "it has failed")
)
