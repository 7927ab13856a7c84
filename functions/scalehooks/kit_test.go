package scalehooks

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// The set of these tests, web, had 2 members, and its Scaler, pilot, wants 3. The scaling is operation build.ID.

// row is a situation in a sentence.
type row struct {
	says string
	in   Input
}

// check decides on the rows, checks each decision, and compares it with the golden file of the test.
func check(t *testing.T, rows ...row) {
	t.Helper()
	file := golden.Open(t)
	for _, row := range rows {
		t.Run(row.says, func(t *testing.T) { file.Entry(t, row.says, entry(expect(t, row.in))) })
	}
}

// entry renders a plan, the record that it stores, and the status that it gives the Scaler pilot.
func entry(p plan.Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "plan: %s %s", p.Kind, p.Reason)
	if p.Detail != "" {
		fmt.Fprintf(&b, " (%s)", p.Detail)
	}
	b.WriteString("\n")
	for _, a := range p.Actions {
		b.WriteString("- " + a.String() + "\n")
	}
	if p.Announce != "" {
		b.WriteString("-> " + strings.TrimPrefix(p.Announce, "dev.drydock.") + "\n")
	}
	if record := stored(p); record != nil {
		b.WriteString("record: " + summary(record) + "\n")
		if record.Message != "" {
			b.WriteString("says: " + record.Message + "\n")
		}
	}
	if status := told(p, "pilot"); status != nil {
		b.WriteString("status: " + rendered(status) + "\n")
		for _, c := range status.Conditions {
			fmt.Fprintf(&b, "- %s: %s\n", c.Type, c.Message)
		}
	}
	return b.String()
}

// expect returns the decision. It checks it as build.Expect does, and what is true of every decision of this function.
func expect(t *testing.T, in Input) plan.Plan {
	t.Helper()
	before := encode(in)
	p := Decide(in)
	build.Expect(t, build.World(), func() plan.Plan { return Decide(in) }, p.String(), "", objectsOf(in)...)
	if again := Decide(in); encode(again) != encode(p) {
		t.Errorf("the same input, another plan:\n%s\n%s", encode(p), encode(again))
	}
	if after := encode(in); after != before {
		t.Errorf("the decision changed what was observed, from\n%s\nto\n%s", before, after)
	}
	comesToRest(t, in)
	return p
}

// comesToRest does what is decided until nothing is, with everybody else holding still. Then deciding writes nothing (I7). On the way no
// record makes a wrong step, and no failure is told as health.
func comesToRest(t *testing.T, in Input) {
	t.Helper()
	var trail []string
	for range 20 {
		p := Decide(in)
		if p.Kind != plan.KindDo {
			if len(p.Actions) > 0 {
				t.Errorf("%s: it writes", p)
			}
			return
		}
		trail = append(trail, p.String())
		for _, a := range p.Actions {
			if a.Verb == plan.VerbPatch && a.Resource == plan.StatefulSets {
				if err := build.WrongStep(in.Set, a); err != nil {
					t.Errorf("%s: %v", a, err)
				}
			}
			in = in.after(a)
		}
		healthy(t, in)
		in.Retry, in.Rejected = false, "" // both count once
	}
	t.Errorf("it does not come to rest:\n%s", strings.Join(trail, "\n"))
}

// healthy checks that what has failed is not told to be well.
func healthy(t *testing.T, in Input) {
	t.Helper()
	for _, s := range in.Scalers {
		status := s.Status
		failed := status.Stage == v1alpha1.StageFailed || status.Failed != nil
		is := func(kind string) bool { return meta.IsStatusConditionTrue(status.Conditions, kind) }
		if failed && !is(v1alpha1.ConditionFailed) || failed && is(v1alpha1.ConditionHealthy) {
			t.Errorf("Scaler %s has failed: %s", s.Name, rendered(&status))
		}
		if is(v1alpha1.ConditionHealthy) && is(v1alpha1.ConditionFailed) {
			t.Errorf("Scaler %s is healthy and has failed: %s", s.Name, rendered(&status))
		}
	}
}

// after is the situation when the action is done. Nobody runs the Jobs, and the StatefulSet controller stands still.
func (in Input) after(a plan.Action) Input {
	switch of, _ := a.Resource.Subresource(); {
	case a.Verb == plan.VerbRecord:
	case a.Resource == plan.Autoscalers:
		in.Autoscalers = autoscalersAfter(in.Autoscalers, a)
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
				all[i] = patched(s, a)
			}
		}
		in.Scalers = all
	default:
		in.Set = patched(in.Set, a)
	}
	return in
}

func autoscalersAfter(before []*autoscalingv2.HorizontalPodAutoscaler, a plan.Action) []*autoscalingv2.HorizontalPodAutoscaler {
	var all []*autoscalingv2.HorizontalPodAutoscaler
	for _, is := range before {
		switch {
		case is.Name != a.Name:
			all = append(all, is)
		case a.Verb == plan.VerbPatch:
			all = append(all, patched(is, a))
		}
	}
	if a.Verb == plan.VerbCreate {
		all = append(all, a.Object.(*autoscalingv2.HorizontalPodAutoscaler))
	}
	return all
}

// patched is the object after the patch, as it goes over the wire.
func patched[T metav1.Object](object T, a plan.Action) T {
	ops, err := json.Marshal(a.Ops)
	if err != nil {
		panic(err)
	}
	patch, err := jsonpatch.DecodePatch(ops)
	if err != nil {
		panic(err)
	}
	text, err := patch.Apply([]byte(encode(object)))
	if err != nil {
		panic(fmt.Sprintf("%s: %v", a, err))
	}
	var next T
	if err := json.Unmarshal(text, &next); err != nil {
		panic(err)
	}
	return next
}

func encode(what any) string {
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
	return all
}

// stored is the record that the plan writes on the set, or nil.
func stored(p plan.Plan) *api.Scale {
	for _, a := range p.Actions {
		for _, op := range a.Ops {
			text, ok := op.Value.(string)
			if !ok || op.Path != "/metadata/annotations/drydock.dev~1scale" {
				continue
			}
			record, err := api.LoadScale(build.Set("web", build.Annotation(api.ScaleAnnotation, text)))
			if err != nil {
				panic(err)
			}
			return record
		}
	}
	return nil
}

// told is the status that the plan gives the Scaler, or nil.
func told(p plan.Plan, scaler string) *v1alpha1.ScalerStatus {
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

// summary renders what a record says, without its message. Times are from now.
func summary(s *api.Scale) string {
	if s == nil {
		return ""
	}
	text := fmt.Sprintf("%s %s", s.Phase, s.Reason)
	if s.FailedAt != "" {
		text += fmt.Sprintf(" at %s", s.FailedAt)
	}
	text += fmt.Sprintf(", %d to %d for %s, attempt %d", s.Previous, s.Target, s.Scaler.UID, s.Attempt)
	if s.Paused {
		text += ", paused"
	}
	if s.Ask != nil {
		text += fmt.Sprintf(", asked %d with %d keys", s.Ask.Times, len(s.Ask.Keys))
	}
	if s.CleansUp {
		text += ", cleans up"
	}
	if s.Operation != build.ID {
		text += ", new"
	}
	if s.Finished != nil {
		text += fmt.Sprintf(", finished %s", s.Finished.Sub(build.Now))
	}
	if s.Deadline != nil {
		text += fmt.Sprintf(", due %s", s.Deadline.Sub(build.Now))
	}
	return text
}

// rendered renders a status in short.
func rendered(s *v1alpha1.ScalerStatus) string {
	if s == nil {
		return ""
	}
	text := fmt.Sprintf("%s %d", s.Stage, s.Replicas)
	if s.Failed != nil {
		text += fmt.Sprintf(", failed at %s %s", s.Failed.FailedAt, s.Failed.Reason)
	}
	for _, c := range s.Conditions {
		text += fmt.Sprintf(", %s %s %s", c.Type, c.Status, c.Reason)
	}
	for _, h := range s.History {
		text += fmt.Sprintf(", %s %d to %d", h.Result, h.From, h.To)
	}
	return text
}

// on is what is observed.
func on(objects ...metav1.Object) Input {
	in := Input{Now: build.Now, Namespace: build.Namespace, Name: "web"}
	for _, object := range objects {
		switch o := object.(type) {
		case *appsv1.StatefulSet:
			in.Set = o
		case *v1alpha1.Scaler:
			in.Scalers = append(in.Scalers, o)
		case *batchv1.Job:
			in.Jobs = append(in.Jobs, o)
		case *autoscalingv2.HorizontalPodAutoscaler:
			in.Autoscalers = append(in.Autoscalers, o)
		}
	}
	return in
}

func retried(in Input) Input {
	in.Retry = true
	return in
}

func rejected(in Input) Input {
	in.Rejected = "statefulsets is forbidden"
	return in
}

// reported is the same, with what the plan says in the status of the Scalers.
func reported(in Input) Input {
	for _, a := range Decide(in).Actions {
		if a.Resource == plan.ScalerStatus {
			in = in.after(a)
		}
	}
	return in
}

// web is the set with the count. The record is to be the last option.
func web(count int32, options ...build.Option) *appsv1.StatefulSet {
	return build.Set("web", append([]build.Option{build.Replicas(count)}, options...)...)
}

// records stores a record of the scaling from 2 to 3 on the set. One that is active has five minutes left.
func records(phase api.Phase, options ...func(*api.Scale)) build.Option {
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

// quiet is the record of a set that has the count, and of which no scaling was made.
func quiet(count int32) build.Option {
	return records(api.Succeeded, func(s *api.Scale) { s.Previous, s.Target, s.Reason = count, count, api.ScalerReady })
}

// gaveUp says where a scaling was given up, for a hook.
func gaveUp(at api.Phase) func(*api.Scale) {
	return func(s *api.Scale) { s.FailedAt, s.Reason, s.Message = at, api.HookFailed, "it failed" }
}

func overdue(s *api.Scale) { s.Deadline = operation.Moment(build.Now.Add(-time.Second)) }

func of(uid types.UID) func(*api.Scale) {
	return func(s *api.Scale) { s.Scaler.UID = uid }
}

// pilot is the Scaler, which wants 3.
func pilot(options ...build.Option) *v1alpha1.Scaler { return scaler("pilot", 3, options...) }

func scaler(name string, wants int32, options ...build.Option) *v1alpha1.Scaler {
	s := &v1alpha1.Scaler{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: name, UID: types.UID("uid-" + name),
		ResourceVersion: "rv-" + name, Generation: 4, CreationTimestamp: metav1.NewTime(build.Now.Add(-time.Minute))},
		Spec: v1alpha1.ScalerSpec{Target: "web", Replicas: &wants}}
	return build.With(s, options...)
}

func edited(change func(*v1alpha1.Scaler)) build.Option { return build.Edit(change) }

// wants sets the count that the Scaler wants.
func wants(count int32) build.Option {
	return edited(func(s *v1alpha1.Scaler) { s.Spec.Replicas = &count })
}

const template = `{"spec":{"containers":[{"name":"hook","image":"registry.example/hook:1"}]}}`

// hooks gives the Scaler all hooks, with the template.
func hooks(text string) build.Option {
	hook := &v1alpha1.Hook{Job: &v1alpha1.HookJob{Template: runtime.RawExtension{Raw: []byte(text)}}}
	return edited(func(s *v1alpha1.Scaler) { s.Spec.Hooks = v1alpha1.ScalerHooks{Pre: hook, Post: hook, OnFailure: hook} })
}

var (
	hooked   = hooks(template)
	unread   = hooks(`{"spec":{}}`)
	adopting = edited(func(s *v1alpha1.Scaler) { s.Spec.ConflictPolicy = v1alpha1.ConflictAdopt })
	retry    = build.Annotation(api.RetryAnnotation, "")
	optOut   = build.Label(api.ManagedLabel, "")
	wishless = edited(func(s *v1alpha1.Scaler) { s.Spec.Replicas = nil })
)

// hook is the Job of a hook, which runs.
func hook(kind string, options ...build.Option) *batchv1.Job {
	set := web(2)
	words, err := resources.ParseScaleHook(set, "hook", template)
	if err != nil {
		panic(err)
	}
	job := resources.MakeScaleHook(set, recordOf(api.PreScaling), kind, words, time.Minute)
	job.UID, job.ResourceVersion = types.UID("uid-"+job.Name), "rv-"+job.Name
	return build.With(job, options...)
}

var (
	complete = build.Complete()
	failed   = build.Failed("BackoffLimitExceeded", "it has failed")
)
