package model

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/functions/backup"
	"drydock.dev/functions/restore"
	"drydock.dev/shared/api"
	"drydock.dev/shared/moving"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/world"
)

// readKind returns the objects of the kind.
func (w *World) readKind(kind plan.Resource) *earlyRead {
	s := &earlyRead{kind: kind, objects: map[key]*entry{}}
	for k, e := range w.objects {
		if k.kind == kind {
			s.objects[k] = e
		}
	}
	return s
}

// withEarlyRead returns the world as seen by a process that read the objects of one kind earlier.
func (w *World) withEarlyRead(early *earlyRead) *World {
	seen := *w
	seen.objects = maps.Clone(w.objects)
	maps.DeleteFunc(seen.objects, func(k key, _ *entry) bool { return k.kind == early.kind })
	maps.Copy(seen.objects, early.objects)
	return &seen
}

// settings are the settings of the functions.
var settings = api.Settings{Image: "registry.example/drydock@sha256:0", Parallelism: 4, Retention: 24 * time.Hour,
	CopyTimeout: 20 * time.Hour, QuiesceTimeout: 15 * time.Minute, StartTimeout: 10 * time.Minute, SwapTimeout: 15 * time.Minute,
	ReadyTimeout:   30 * time.Minute,
	ProgressPeriod: 10 * time.Second, ProgressTimeout: 30 * time.Minute, PlanTimeout: 10 * time.Minute}

// invocations returns the next steps of the functions. Observing and deciding is one step. Each write of the plan is a step, so that
// anything can happen in between. A rejected write ends the plan. Any event may be lost, because the sweep runs a function whenever it
// has work.
func invocations(w *World) []Step {
	var steps []Step
	var seen *world.Observed
	for i := range w.functions {
		f := w.functions[i]
		if len(f.pending) > 0 {
			a := f.pending[0]
			steps = append(steps, Step{Who: who(i), What: a.String(), do: func(w *World) { w.applyNext(i) }})
			continue
		}
		if !w.hasWork(functionNames[i]) || i >= secondBackupRole && f.early == nil {
			continue
		}
		if seen == nil {
			seen = w.observe()
		}
		o := seen
		if f.early != nil {
			o = w.withEarlyRead(f.early).observe()
		}
		p := w.decide(o, i, 0)
		if writes := writesOf(p); len(writes) > 0 || f.early != nil {
			steps = append(steps, Step{Who: who(i), What: fmt.Sprintf("decides: %s %s", p.Kind, p.Reason), do: func(w *World) {
				w.functions[i].pending, w.functions[i].early = writes, nil
			}})
		} else if f.refused != nil {
			steps = append(steps, Step{Who: who(i), What: "finishes its event: " + p.String(), do: func(w *World) { w.functions[i].refused = nil }})
		}
	}
	return steps
}

// writesOf returns the actions of a plan that change objects, without Events and dry runs.
func writesOf(p plan.Plan) []plan.Action {
	if p.Kind != plan.KindDo {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(p.Actions), func(a plan.Action) bool { return a.Verb == plan.VerbEvent || a.Verb == plan.VerbTry })
}

// applyNext applies the next action of a function.
func (w *World) applyNext(i int) {
	f := &w.functions[i]
	a := f.pending[0]
	w.checkAction(functionNames[i], a)
	record := w.record()
	if functionNames[i] == api.Backup && (record == nil || w.set().DeletionTimestamp != nil || record.Phase != api.Moving) {
		w.wroteLate = true
	}
	err := w.applyAction(a)
	switch {
	case err == nil:
		version := ""
		if e := w.objects[key{a.Resource, a.Name}]; e != nil {
			version = e.object.GetResourceVersion()
		}
		f.pending = plan.Rebase(a, version, f.pending[1:])
		return
	case !errors.Is(err, errConflict) && i < secondBackupRole:
		f.refused = err
	}
	f.pending = nil
}

// hasWork reports whether the sweep, or an event about the set, would run the function.
func (w *World) hasWork(f api.Function) bool {
	record := w.record()
	journals := len(all[*appsv1.ControllerRevision](w, plan.ControllerRevisions)) > 0
	if record == nil || !record.Active() {
		return f == api.Restore && journals
	}
	return slices.Contains(resize.ActiveFunctions(record), f) || f == api.Restore
}

func (w *World) decide(o *world.Observed, i int, waited time.Duration) plan.Plan {
	refused := w.functions[i].refused
	if functionNames[i] == api.Restore {
		in := restore.Input{Input: moving.Input{Observed: o, Settings: settings}, Namespace: namespace, Waited: waited}
		switch {
		case errors.Is(refused, errBudget):
			in.BudgetRefusal = refused.Error()
		case refused != nil:
			in.Rejected = refused.Error()
		}
		return restore.Decide(in)
	}
	in := backup.Input{Input: moving.Input{Observed: o, Settings: settings}}
	if refused != nil {
		in.Rejected = refused.Error()
	}
	for _, v := range all[*corev1.PersistentVolume](w, plan.Volumes) {
		if ref := v.Spec.ClaimRef; ref == nil || ref.UID == "" {
			in.Unclaimed = append(in.Unclaimed, v)
		}
	}
	if o.Set != nil {
		in.Options, in.OptionsErr = resources.MoverOptionsOf(o.Set, nil)
	}
	return backup.Decide(in)
}

// observe returns what shared/kube would read.
func (w *World) observe() *world.Observed {
	o := &world.Observed{Now: w.now, Name: setName, Volumes: map[string]*corev1.PersistentVolume{}, Nodes: map[string]*corev1.Node{}}
	if o.Set = w.set(); o.Set != nil {
		o.SetJSON = w.objects[key{plan.StatefulSets, setName}].asJSON()
	}
	o.Claims = all[*corev1.PersistentVolumeClaim](w, plan.Claims)
	o.Pods = all[*corev1.Pod](w, plan.Pods)
	o.Jobs = all[*batchv1.Job](w, plan.Jobs)
	for _, r := range all[*appsv1.ControllerRevision](w, plan.ControllerRevisions) {
		if api.RevisionLink(r) != nil {
			o.Journals = append(o.Journals, r)
		}
	}
	named := o.VolumeNames()
	for _, v := range all[*corev1.PersistentVolume](w, plan.Volumes) {
		link, err := api.LoadLink(v)
		if slices.Contains(named, v.Name) || err == nil && link != nil {
			o.Volumes[v.Name] = v
		}
	}
	o.ClaimManifests = map[string]*unstructured.Unstructured{}
	for _, c := range o.Claims {
		o.ClaimManifests[c.Name] = w.objects[key{plan.Claims, c.Name}].asManifest("v1", "PersistentVolumeClaim")
	}
	ready := corev1.ConditionTrue
	if w.nodeSilent {
		ready = corev1.ConditionUnknown
	}
	n := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
	n.Name = node
	o.Nodes[node] = n
	return o
}

const (
	backupRole = iota
	restoreRole
	// Second processes of the same functions run only as a fault, and only once.
	secondBackupRole
	secondRestoreRole
	functionCount
)

var functionNames = [functionCount]api.Function{api.Backup, api.Restore, api.Backup, api.Restore}

// who returns the name of the process in a story.
func who(role int) string {
	if role >= secondBackupRole {
		return "second " + string(functionNames[role])
	}
	return string(functionNames[role])
}

// function is one invocation: the writes that it has decided and not yet applied, the API server's rejection within this event, and the
// objects that it has read ahead of the others.
type function struct {
	pending []plan.Action
	refused error
	early   *earlyRead
}

// earlyRead holds the objects of one kind, read earlier than the others.
type earlyRead struct {
	kind    plan.Resource
	objects map[key]*entry
}

// node is the name of the only node.
const node = "node-1"

// process is a pod's process on the node. It can outlive the pod's object.
type process struct {
	pod, claim     string
	volume, target string // target is set for a mover
	stage          stage
	// current means that the data read by the mover includes all writes.
	current bool
	signal  string
	code    int32
}

// stage is the progress of a process on the node.
type stage string

const (
	running  stage = "running"       // a member that writes
	first    stage = "first pass"    // a mover that has read its source and has not written yet
	waiting  stage = "waiting"       // a mover, while its member runs
	final    stage = "final pass"    // a mover that knows that the member has stopped
	ended    stage = "ended"         // succeeded, not yet reported
	pinning  stage = "pinning"       // a mover whose finished copy is reported; its volumes stay mounted
	failed   stage = "failed"        // failed, with an exit code
	mounting stage = "still mounted" // reported, not yet unmounted
)

// content is the data on a volume: the claim that it belongs to, and whether it includes all writes. The zero value is an empty volume.
type content struct {
	claim   string
	current bool
	// finished means that a final pass has written the volume. A new mover refuses it as a target.
	finished bool
}

func sortedUIDs(m map[types.UID]process) []types.UID {
	uids := make([]types.UID, 0, len(m))
	for uid := range m {
		uids = append(uids, uid)
	}
	slices.Sort(uids)
	return uids
}
