package swarm

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/members"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/resize"
	"drydock.dev/test/kit/apiserver"
)

// act is one step of a run. A and B choose among the objects that exist, so every sequence of acts is a run.
type act struct {
	do   string
	a, b int
}

// weighted is an act that random runs have as often as its weight says.
type weighted[Do any] struct {
	weight int
	do     Do
}

// environment has the acts of everything but users.
var environment = map[string]weighted[func(w *World, a, b int)]{
	"deliver": {30, func(w *World, a, _ int) { w.withEvent(a, func(i int) { w.deliver(i) }) }},
	"twice":   {3, func(w *World, a, _ int) { w.withEvent(a, func(i int) { w.run(w.queue[i]) }) }},
	"lose":    {3, func(w *World, a, _ int) { w.withEvent(a, func(i int) { w.queue = slices.Delete(w.queue, i, i+1) }) }},
	"slow": {8, func(w *World, a, b int) {
		w.withEvent(a, func(i int) {
			if len(w.held) >= maxHeld {
				return
			}
			d := w.queue[i]
			w.queue = slices.Delete(w.queue, i, i+1)
			w.hold(d, []stop{all, writes, writes}[b%3], b/3%3)
		})
	}},
	"delay": {6, func(w *World, a, b int) {
		if len(w.held) < maxHeld {
			w.late = late{1 + a, slowResources[b%len(slowResources)].resources}
		}
	}},
	"release":   {10, func(w *World, a, b int) { w.withHeld(a, func(i int) { w.release(i, b%3 == 0) }) }},
	"drop":      {2, func(w *World, a, _ int) { w.withHeld(a, w.kill) }},
	"losereply": {2, func(w *World, a, _ int) { w.loses = 1 + a%2 }},
	"tick":      {8, func(w *World, _, _ int) { w.tick() }},
	"source":    {10, func(w *World, _, _ int) { w.source() }},
	"blind":     {2, func(w *World, _, _ int) { w.blind() }},
	"settle":    {8, func(w *World, _, _ int) { w.settle() }},
	"sync":      {4, func(w *World, _, _ int) { w.syncSets() }},
	"kubelet":   {4, func(w *World, _, _ int) { w.runPods() }},
	"storage":   {3, func(w *World, a, _ int) { w.provision([]growth{begins, grows, grows, grows}[a%4]) }},
	"full":      {1, func(w *World, _, _ int) { w.full = true }},
	"room":      {2, func(w *World, _, _ int) { w.full = false }},
	"autoscale": {3, func(w *World, a, _ int) { w.autoscale(a) }},
	"movers":    {6, func(w *World, _, _ int) { w.runMovers() }},
	"moverfails": {1, func(w *World, a, b int) {
		if movers := w.runningMovers(); len(movers) > 0 {
			w.failMover(movers[a%len(movers)], moverFailures[b%len(moverFailures)])
		}
	}},
	"jobs":      {3, func(w *World, _, _ int) { w.runJobs() }},
	"collect":   {3, func(w *World, _, _ int) { w.collect() }},
	"operator":  {5, func(w *World, a, _ int) { w.reconcile(a%4 == 0) }},
	"hooks":     {3, func(w *World, _, _ int) { w.endJobs(true) }},
	"hooksfail": {1, func(w *World, _, _ int) { w.endJobs(false) }},
	"clean":     {3, func(w *World, _, _ int) { w.endCleanupPods(true) }},
	"cleanfail": {1, func(w *World, _, _ int) { w.endCleanupPods(false) }},
	"refuse": {2, func(w *World, a, _ int) {
		resources := append([]string{"statefulsets", "persistentvolumeclaims", "pods", "controllerrevisions", "scalers", "jobs"},
			ownerResources...)
		w.refused = refusal{resource: resources[a%len(resources)]}
	}},
	"refuseset": {2, func(w *World, a, b int) { w.refuseSets(w.names()[a%w.Sets], b%2 == 1) }},
	"accept":    {2, func(w *World, _, _ int) { w.refused = refusal{} }},
	"sick":      {1, func(w *World, _, _ int) { w.sick = true }},
	"healthy":   {2, func(w *World, _, _ int) { w.sick = false }},
	"step": {2, func(w *World, a, _ int) {
		w.step = []time.Duration{-30 * time.Minute, 0, 5 * time.Minute, 2 * time.Hour}[a%4]
	}},
	"clock": {8, func(w *World, a, _ int) {
		w.pass([]time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 12 * time.Minute, 35 * time.Minute, 40 * time.Minute,
			3 * time.Hour}[a%7])
	}},
	"rush": {8, func(w *World, _, _ int) { w.rush() }},
	"calm": {10, func(w *World, a, _ int) { w.calm(1 + a%4) }},
}

// slowResources are those whose writes an act delays. None stands for all. The edits are acts of users on the same objects.
var slowResources = []struct{ resources, edits []string }{
	{}, {},
	{ownerResources, []string{"owner", "ownersize", "ownerpause"}},
	{[]string{"statefulsets"}, slices.Collect(maps.Keys(users))},
	{resources: []string{"controllerrevisions"}},
	{resources: []string{"persistentvolumeclaims"}},
	{[]string{"scalers"}, []string{"scaler", "scalerpause", "mode", "scalergone"}},
	{[]string{"jobs", "pods"}, []string{"deletejob", "deletepod"}},
}

// refuseSets lets a webhook refuse writes to one set, or to all others.
func (w *World) refuseSets(set string, others bool) {
	names := []string{set}
	if others && w.Sets > 1 {
		names = slices.DeleteFunc(w.names(), func(name string) bool { return name == set })
	}
	w.refused = refusal{"statefulsets", names}
}

// withEvent calls do with the index of an event in the queue, if there is one.
func (w *World) withEvent(a int, do func(i int)) {
	if len(w.queue) > 0 {
		do(a % len(w.queue))
	}
}

// withHeld calls do with the index of a held process, if there is one.
func (w *World) withHeld(a int, do func(i int)) {
	if len(w.held) > 0 {
		do(a % len(w.held))
	}
}

// users has the acts of users on a set. They happen only if the set exists.
var users = map[string]weighted[func(w *World, set string, b int)]{
	"scale": {6, func(w *World, set string, b int) { w.scale(set, b%4) }},
	"delete": {3, func(w *World, set string, b int) {
		options := metav1.DeleteOptions{}
		if b%3 == 0 {
			orphan := metav1.DeletePropagationOrphan
			options.PropagationPolicy = &orphan
		}
		if w.annotation(set, api.CleanupOnDeleteAnnotation) == "true" {
			for _, claim := range claimsOfSet(set) {
				w.wishes.free[claim] = true
			}
		}
		w.remove(person, in("statefulsets", set), options)
	}},
	"paused":   {6, func(w *World, set string, _ int) { w.annotate(set, api.PausedAnnotation, "true") }},
	"unpaused": {6, func(w *World, set string, _ int) { w.annotate(set, api.PausedAnnotation, nil) }},
	"activity": {6, func(w *World, set string, _ int) { w.order(events.Activity, set) }},
	"wake": {3, func(w *World, set string, _ int) {
		w.annotate(set, api.AwakeUntilAnnotation, w.usersNow().Add(20*time.Minute).UTC().Format(time.RFC3339))
	}},
	"sleep": {3, func(w *World, set string, _ int) { w.order(events.Sleep, set) }},
	"sleepat": {3, func(w *World, set string, _ int) {
		w.annotate(set, api.SleepRequestedAnnotation, w.usersNow().UTC().Format(time.RFC3339))
	}},
	"abort": {3, func(w *World, set string, _ int) { w.annotate(set, api.AbortAnnotation, "now") }},
	"retry": {3, func(w *World, set string, b int) { w.retry(set, b) }},
	"resize": {6, func(w *World, set string, b int) {
		w.annotate(set, api.ResizeAnnotation, []any{"data=2Gi", "data=3Gi", "data=2Gi@slow", "data=3Gi", "data=1Gi@slow", "data=1Gi"}[b%6])
	}},
	"method": {2, func(w *World, set string, b int) {
		w.annotate(set, api.ResizeMethodAnnotation, []any{"copy", nil, "expand", "expand-offline"}[b%4])
	}},
	"strategy": {2, func(w *World, set string, b int) { w.annotate(set, api.StrategyAnnotation, []any{"rolling", nil}[b%2]) }},
	"cutover":  {2, func(w *World, set string, b int) { w.annotate(set, api.CutoverAnnotation, []any{"approve", nil}[b%2]) }},
	"approve":  {2, func(w *World, set string, _ int) { w.annotate(set, api.ApproveAnnotation, w.operationOf(set)) }},
	"rollback": {3, func(w *World, set string, b int) { w.rollback(set, b) }},
	"withdraw": {2, func(w *World, set string, _ int) { w.annotate(set, api.ResizeAnnotation, nil) }},
	"ownerpolicy": {3, func(w *World, set string, b int) {
		policy := []any{string(api.OwnerUpdate), string(api.OwnerIgnore), nil}[b%3]
		if op := w.operatorOf(set); op != nil && op.way == keepsSizes && b%3 == 0 {
			op.updated = true
		}
		w.annotate(set, api.OwnerPolicyAnnotation, policy)
	}},
	"giveup":   {2, func(w *World, set string, b int) { w.giveUp(set, b%4, b/4) }},
	"idleoff":  {2, func(w *World, set string, _ int) { w.annotate(set, api.IdleTimeoutAnnotation, nil) }},
	"idleon":   {2, func(w *World, set string, _ int) { w.annotate(set, api.IdleTimeoutAnnotation, "30m") }},
	"cleanoff": {2, func(w *World, set string, _ int) { w.annotate(set, api.CleanupTemplateAnnotation, nil) }},
	"cleanon":  {2, func(w *World, set string, _ int) { w.annotate(set, api.CleanupTemplateAnnotation, cleanupTemplate) }},
	"optout":   {3, func(w *World, set string, b int) { w.label(set, api.ManagedLabel, nil, b) }},
	"leave": {2, func(w *World, set string, b int) {
		if !w.isOwned(set) {
			e := events.NewFromUser(events.Activity, events.Ref{Namespace: namespace, Name: set}, "")
			w.run(delivery{leaving, e})
		}
	}},
	"optin":   {4, func(w *World, set string, b int) { w.label(set, api.ManagedLabel, "true", b) }},
	"group":   {2, func(w *World, set string, b int) { w.label(set, api.GroupLabel, []any{nil, "shop"}[b%2], b) }},
	"policy":  {2, func(w *World, set string, b int) { w.setPolicy(set, []string{"Retain", "Delete"}[b%2]) }},
	"replace": {3, func(w *World, set string, _ int) { w.replace(set) }},
	"apply":   {3, func(w *World, set string, b int) { w.apply(set, b%3 == 0) }},
	"put":     {2, func(w *World, set string, _ int) { w.replaceAll(set) }},
	"hpa":     {2, func(w *World, set string, b int) { w.createAutoscaler(set, min(b%4, 1)) }},
	"budget":  {2, func(w *World, set string, b int) { w.budgets[set] = []budget{noBudget, 0, 1}[b%3] }},
	"backup":  {2, func(w *World, set string, _ int) { w.backup(set) }},
	"scalernew": {3, func(w *World, set string, _ int) {
		if !w.isOwned(set) && w.server.Get(in("scalers", scalerName(set))) == nil {
			w.createScaler(set, max(w.wishes.counts[set], 1))
		}
	}},
}

// others has the acts of users that need no StatefulSet.
var others = map[string]weighted[func(w *World, set string, b int)]{
	"create":      {5, func(w *World, set string, _ int) { w.recreate(set) }},
	"restored":    {2, func(w *World, set string, _ int) { w.restoreBackup(set) }},
	"scaler":      {6, func(w *World, set string, b int) { w.scaleScaler(set, b%4) }},
	"scalerpause": {3, func(w *World, set string, b int) { w.pauseScaler(set, b%2 == 0) }},
	"mode":        {3, func(w *World, set string, b int) { w.setMode(set, b) }},
	"hpagone":     {2, func(w *World, set string, _ int) { w.removeAutoscaler(set) }},
	"scalergone":  {3, func(w *World, set string, _ int) { w.removeScaler(set) }},
	"owner":       {5, func(w *World, set string, b int) { w.scaleOwner(w.chosenOperator(set), 1+b%3) }},
	"ownersize": {4, func(w *World, set string, b int) {
		w.resizeOwner(w.chosenOperator(set), []string{"1Gi", "2Gi", "3Gi"}[b%3])
	}},
	"ownerstop": {0, // only in stories, because a random run has to end awake
		func(w *World, set string, b int) { w.stopOwner(w.chosenOperator(set), b%2 == 1) }},
	"ownerpause":   {2, func(w *World, set string, b int) { w.pauseOperator(w.chosenOperator(set), b%2 == 1) }},
	"deletepod":    {2, func(w *World, _ string, b int) { w.removeOne("pods", b, nil) }},
	"deletejob":    {1, func(w *World, _ string, b int) { w.removeOne("jobs", b, nil) }},
	"deletetarget": {1, func(w *World, _ string, b int) { w.removeOne("persistentvolumeclaims", b, isTarget) }},
}

// removeOne lets a user delete an object of a resource. Nil selects all.
func (w *World) removeOne(resource string, b int, selects func(*apiserver.Object) bool) {
	all := w.server.List(resource)
	if selects != nil {
		all = slices.DeleteFunc(all, func(o *apiserver.Object) bool { return !selects(o) })
	}
	if len(all) > 0 {
		w.remove(person, keyOf(resource, all[b%len(all)]), metav1.DeleteOptions{})
	}
}

// do carries out an act. An act of users on a set does nothing if the set does not exist.
func (w *World) do(a act) {
	w.pass(0)
	set := w.names()[a.a%w.Sets]
	w.tell("%s %s %d", a.do, set, a.b)
	if act, is := environment[a.do]; is {
		act.do(w, a.a, a.b)
	} else if act, is := others[a.do]; is {
		act.do(w, set, a.b)
	} else if w.set(set) != nil {
		users[a.do].do(w, set, a.b)
	}
}

func (w *World) annotate(set, name string, value any) {
	w.change(person, in("statefulsets", set), "", func(o *apiserver.Object) { put(o, value, "metadata", "annotations", name) })
}

// label lets a user label the set, or its custom resource if the operator takes labels off the set. Sometimes the user does not know that.
func (w *World) label(set, name string, value any, b int) {
	if op := w.operatorOf(set); op != nil && op.way == keepsSizes && b%4 != 3 {
		w.labelOwner(op, name, value)
		return
	}
	w.change(person, in("statefulsets", set), "", func(o *apiserver.Object) { put(o, value, "metadata", "labels", name) })
}

// operationOf returns the id of the set's latest resize, or nil.
func (w *World) operationOf(set string) any {
	var record struct{ Operation string }
	if json.Unmarshal([]byte(w.annotation(set, api.StatusAnnotation)), &record) != nil {
		return nil
	}
	return record.Operation
}

// retried returns the value of a retry: the id of an operation if an operator makes the set, mostly of one that waits for a retry.
func (w *World) retried(set string, b int) string {
	if !w.isOwned(set) || b%5 == 4 {
		return "now"
	}
	id := "now"
	for _, name := range []string{api.StatusAnnotation, api.SleepAnnotation, api.CleanupAnnotation} {
		var record struct {
			Operation string
			Phase     api.Phase
		}
		if json.Unmarshal([]byte(w.annotation(set, name)), &record) == nil && (record.Phase == api.Failed || record.Phase == api.Refused) {
			id = record.Operation
		}
	}
	return id
}

// rollback asks for the old volumes of the set's latest resize. It may still run, so later data are right, too.
func (w *World) rollback(set string, b int) {
	if id := w.operationOf(set); id != nil {
		for _, has := range w.contents.on {
			if slices.Contains(claimsOfSet(set), has.claim) {
				if oldest, asked := w.contents.oldest[has.claim]; !asked || has.version < oldest {
					w.contents.oldest[has.claim] = has.version
				}
			}
		}
		live := apiserver.Decode[appsv1.StatefulSet](w.set(set))
		w.command(set, api.RollbackAnnotation, resize.RollbackOrder(live, operation.Of(live).Resize, fmt.Sprint(id), w.usersNow()), b)
	}
}

// command lets a user write a command to the set. Sometimes it goes to the custom resource, whose operator copies it again and again.
func (w *World) command(set, name string, value any, b int) {
	if op := w.operatorOf(set); op != nil && b%4 == 3 {
		w.describeOwner(op, value, "annotations", name)
		return
	}
	w.annotate(set, name, value)
}

// giveUp lets a user give up the pods from the ordinal on that the set does not request, as kubectl drydock cleanup does. Sometimes the
// order goes to the custom resource.
func (w *World) giveUp(set string, from, b int) {
	o := w.set(set)
	if o == nil {
		return
	}
	for ordinal, claim := range claimsOfSet(set) {
		if ordinal >= max(from, numberOf(o, "spec", "replicas")) {
			w.wishes.free[claim] = true
		}
	}
	w.command(set, api.CleanupFromAnnotation, members.OrderFrom(apiserver.Decode[appsv1.StatefulSet](o), from), b)
}

// retry lets a user retry what does not go on, as kubectl drydock retry does. Sometimes the value is not what it writes.
func (w *World) retry(set string, b int) {
	if w.set(set) != nil {
		w.command(set, api.RetryAnnotation, w.retried(set, b), b)
	}
	if k := in("scalers", scalerName(set)); w.server.Get(k) != nil {
		w.change(person, k, "", func(o *apiserver.Object) { put(o, "now", "metadata", "annotations", api.RetryAnnotation) })
	}
}

// scale changes the count of a set without a Scaler and an operator.
func (w *World) scale(set string, n int) {
	_, scaled := w.wishes.scalers[set]
	if o := w.set(set); scaled || w.isOwned(set) || numberOf(o, "spec", "replicas") == n || o.GetDeletionTimestamp() != nil {
		return
	}
	before, asleep := w.sleptWith(set)
	if !asleep {
		before, asleep = w.stoppedWith(set)
	}
	if !w.change(person, in("statefulsets", set), "", func(o *apiserver.Object) { put(o, int64(n), "spec", "replicas") }) {
		return
	}
	delete(w.wishes.also, set)
	if n == 0 && asleep { // it looks like Drydock's stop
		w.wishes.also[set] = before
	}
	w.wishes.counts[set] = n
	w.note(set)
}

func (w *World) scaleScaler(set string, n int) {
	k := in("scalers", scalerName(set))
	if o := w.server.Get(k); o == nil || numberOf(o, "spec", "replicas") == n || w.fixedCount(set) > 0 {
		return
	}
	if w.change(person, k, "", func(o *apiserver.Object) { put(o, int64(n), "spec", "replicas") }) {
		w.wishes.scalers[set] = n
		w.note(set)
	}
}

func (w *World) pauseScaler(set string, pause bool) {
	k := in("scalers", scalerName(set))
	if w.server.Get(k) != nil && w.change(person, k, "", func(o *apiserver.Object) { put(o, pause, "spec", "paused") }) {
		w.wishes.paused[set] = pause
	}
}

// removeScaler deletes the Scaler. The set keeps its count, or during a sleep the count from before it.
func (w *World) removeScaler(set string) {
	k := in("scalers", scalerName(set))
	if o := w.server.Get(k); o == nil || o.GetDeletionTimestamp() != nil {
		return
	}
	w.remove(person, k, metav1.DeleteOptions{})
	if w.server.Get(k) != nil {
		return
	}
	w.wishes.counts[set] = w.wishes.scalers[set]
	delete(w.wishes.scalers, set)
	if o := w.set(set); o != nil {
		w.wishes.also[set] = numberOf(o, "spec", "replicas")
		if w.annotation(set, api.SleepAnnotation) != "" {
			w.wishes.also[set] = w.wishes.lastUp[set]
		}
	}
	w.wishes.unclear[set] = w.wishes.unclear[set] || w.wishes.paused[set] // the set keeps its count, whatever that is
}

func (w *World) setPolicy(set, policy string) {
	const whenScaled = "whenScaled"
	if textOf(w.set(set), "spec", "persistentVolumeClaimRetentionPolicy", whenScaled) == policy {
		return // the write would change nothing
	}
	if w.change(person, in("statefulsets", set), "", func(o *apiserver.Object) {
		put(o, policy, "spec", "persistentVolumeClaimRetentionPolicy", whenScaled)
	}) {
		w.wishes.policies[set] = policy
	}
}
