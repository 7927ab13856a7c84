package swarm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/apiserver"
)

// podStarts: a member starts with its newest data, unless it was unwanted in the meantime. No two pods write to a volume.
func (w *World) podStarts(c apiserver.Commit) {
	if c.After == nil || !isPlaced(c.After) || c.Before != nil && isPlaced(c.Before) {
		return
	}
	for _, name := range claimsOf(c.After) {
		w.onlyWriter(c.After, name)
		if claim := w.server.Get(in("persistentvolumeclaims", name)); claim != nil && isMember(c.After) {
			w.hasItsData(name)
			w.wishes.mounted[name] = string(claim.GetUID())
			delete(w.wishes.free, name)
		}
	}
	if isMember(c.After) {
		w.write(c.After)
		for _, set := range w.names() {
			w.note(set) // members above the wish may run for a while
		}
	}
}

// hasItsData: the volume of a claim has the newest data of the claim's member, or data that a user has asked for.
func (w *World) hasItsData(claim string) {
	newest := w.contents.newest[claim]
	has, full := w.contents.on[w.volumeOf(claim)]
	oldest, asked := w.contents.oldest[claim]
	if !asked {
		oldest = newest
	}
	switch {
	case newest == 0 || w.wishes.free[claim] || has.claim == claim && has.version >= oldest:
	case !full:
		w.violate("the member of claim %s starts on an empty volume, and was always wanted", claim)
	case has.claim != claim:
		w.violate("the member of claim %s starts on the data of claim %s", claim, has.claim)
	default:
		w.violate("the member of claim %s starts on old data", claim)
	}
}

// onlyWriter: a pod starts to write to a volume only when no other pod writes to it.
func (w *World) onlyWriter(pod *apiserver.Object, claim string) {
	volume := w.volumeOf(claim)
	for _, other := range w.server.List("pods") {
		if other.GetUID() == pod.GetUID() || !isPlaced(other) || hasEnded(other) || !writesTo(pod, claim) {
			continue
		}
		for _, theirs := range claimsOf(other) {
			if writesTo(other, theirs) && w.volumeOf(theirs) == volume {
				w.violate("pods %s and %s write to one volume", pod.GetName(), other.GetName())
			}
		}
	}
}

// writesTo reports whether a pod that runs writes to a claim. A mover writes only to the temporary claim, until its copy is complete.
func writesTo(pod *apiserver.Object, claim string) bool {
	if !isMover(pod) {
		return true
	}
	return copies(pod) && slices.ContainsFunc(movedClaims(pod), func(pair [2]string) bool { return pair[1] == claim })
}

// claimGoes: nobody deletes the claim of a member that was wanted all the time, unless its volume stays.
func (w *World) claimGoes(c apiserver.Commit) {
	if c.Before == nil || w.wishes.mounted[c.Name] != string(c.Before.GetUID()) || w.wishes.free[c.Name] {
		return
	}
	volume := w.server.Get(in2("persistentvolumes", textOf(c.Before, "spec", "volumeName")))
	if textOf(volume, "spec", "persistentVolumeReclaimPolicy") == "Retain" {
		return
	}
	if c.After == nil || c.After.GetDeletionTimestamp() != nil && c.Before.GetDeletionTimestamp() == nil {
		w.violate("%s deletes claim %s, whose member was always wanted", c.By.User, c.Name)
	}
}

// volumeGoes: nobody deletes the only volume with the newest data of a member that was wanted all the time.
func (w *World) volumeGoes(c apiserver.Commit) {
	has := w.contents.on[c.Name]
	if c.After != nil || has.claim == "" {
		return
	}
	delete(w.contents.on, c.Name)
	copied := slices.Contains(slices.Collect(maps.Values(w.contents.on)), has)
	if !copied && has.version == w.contents.newest[has.claim] && !w.wishes.free[has.claim] {
		w.violate("the only volume with the data of claim %s is deleted, and its member was always wanted", has.claim)
	}
}

// optedOutSetStaysUp: Drydock does not let an operator stop a set that its user has opted out.
func (w *World) optedOutSetStaysUp(c apiserver.Commit) {
	op := w.operatorOf(c.Name)
	stops := c.Before != nil && numberOf(c.Before, "spec", "replicas") > 0 && numberOf(c.After, "spec", "replicas") == 0
	if op != nil && c.By == operatorClient && stops &&
		c.After.GetLabels()[api.ManagedLabel] != "true" && w.wish(c.Name) > 0 && w.wishes.out[c.Name] < op.held {
		w.violate("Drydock lets the operator stop set %s, which is opted out", c.Name)
	}
}

// finish ends all faults, lets the users want all sets awake, and judges how the world settles.
func (w *World) finish() {
	w.tell("---- no more faults: the users want all sets awake")
	w.late, w.loses, w.sick, w.full, w.step = late{}, 0, false, false, 0
	for len(w.held) > 0 {
		w.release(0, false)
	}
	w.refusalsAreFewer()
	if len(w.refused.names) == 0 {
		w.refused = refusal{}
	}
	w.endUsersPauses()
	clear(w.budgets)
	for _, set := range w.names() {
		w.removeAutoscaler(set)
	}
	w.rounds(3, time.Minute)
	var dying []string // their users create them again when they are gone
	for _, set := range w.names() {
		if o := w.set(set); o != nil && o.GetDeletionTimestamp() != nil {
			dying = append(dying, set)
		}
		w.recreate(set)
	}
	if !w.judgeOptedOut() {
		return
	}
	w.keepAwake()
	w.judgeOthers()
	why := "the end has not begun"
	for n := 0; n < 95 && why != "" && w.problem == ""; n++ {
		if n == 2 || n == 40 || n == 70 {
			for _, set := range w.names() {
				w.retry(set, 0)
			}
		}
		for _, set := range dying {
			if w.set(set) == nil {
				w.recreate(set)
			}
		}
		w.keepAwake() // also a set that its operator has created again
		w.round(pauseAfter(n))
		if why = w.unsettled(); n < 5 && why == "" {
			why = "the end has not begun"
		}
	}
	if why != "" {
		w.violate("in the end, %s", why)
	}
	w.keepAwake()
	w.pass(25 * time.Hour) // longer than the retention of old volumes
	w.rounds(3, time.Minute)
	w.nothingIsLeft()
	w.staysQuiet()
	if why := w.unsettled(); why != "" {
		w.violate("later, %s", why)
	}
}

// refusalsAreFewer: while a webhook refuses writes, a function does not try one again and again, or write something else each time. Each
// tick looks at each set of a group, tries its write twice, and tries those of the other sets once. So does each step of a sleep that
// begins meanwhile.
func (w *World) refusalsAreFewer() {
	if w.refused.resource == "" || w.problem != "" {
		return
	}
	w.rounds(30, time.Minute)
	clear(w.tries)
	w.rounds(10, time.Minute)
	for _, try := range slices.Sorted(maps.Keys(w.tries)) {
		if n := w.tries[try]; n > 10*(w.Sets+1)+20 {
			w.violate("while writes to %s are refused, a function writes %d times in ten minutes: %s", w.refused.resource, n, try)
		}
	}
}

// keepAwake lets the users want all sets awake. An operator may have created a set since they last did. A set that was restored from a
// backup of its sleep stands at zero until its user scales it, see docs/sleep.md.
func (w *World) keepAwake() {
	for _, set := range w.names() {
		if o := w.set(set); o != nil && numberOf(o, "spec", "replicas") == 0 && w.hasSleepOfFormerSet(o) {
			w.scale(set, w.wish(set))
		}
		if w.annotation(set, api.AwakeUntilAnnotation) == w.lastWindow() && w.set(set).GetLabels()[api.ManagedLabel] == "true" {
			continue
		}
		if op := w.operatorOf(set); op != nil && op.way == keepsSizes {
			w.labelOwner(op, api.ManagedLabel, "true")
		}
		w.change(person, in("statefulsets", set), "", func(o *apiserver.Object) {
			put(o, "true", "metadata", "labels", api.ManagedLabel)
			put(o, w.lastWindow(), "metadata", "annotations", api.AwakeUntilAnnotation)
		})
	}
}

// hasSleepOfFormerSet reports whether the record of the set's sleep is that of a set that was deleted.
func (w *World) hasSleepOfFormerSet(o *apiserver.Object) bool {
	var record struct{ Set struct{ UID string } }
	text := w.annotation(o.GetName(), api.SleepAnnotation)
	return json.Unmarshal([]byte(text), &record) == nil && record.Set.UID != "" && record.Set.UID != string(o.GetUID())
}

// lastWindow is until when the sets are to be awake in the end.
func (w *World) lastWindow() string { return w.begin.Add(5000 * time.Hour).UTC().Format(time.RFC3339) }

// pauseAfter returns the pause after a round of the end. They grow, so that timeouts of a day end.
func pauseAfter(round int) time.Duration {
	switch {
	case round > 80:
		return 6 * time.Hour
	case round > 45:
		return 10 * time.Minute
	}
	return time.Minute
}

func (w *World) rounds(n int, long time.Duration) {
	for range n {
		if w.problem == "" {
			w.round(long)
		}
	}
}

// calm is some minutes without faults. After three of them, functions have handled all changes.
func (w *World) calm(minutes int) {
	w.rounds(minutes, time.Minute)
	if minutes >= 3 {
		w.nothingIsHidden()
	}
}

// endUsersPauses removes what users have paused.
func (w *World) endUsersPauses() {
	for _, op := range w.operators {
		if op.paused {
			w.pauseOperator(op, false)
		}
	}
	for _, set := range w.names() {
		if w.set(set) != nil {
			w.annotate(set, api.PausedAnnotation, nil)
			w.annotate(set, api.CutoverAnnotation, nil)
		}
		if w.wishes.paused[set] {
			w.pauseScaler(set, false)
		}
	}
}

// judgeOptedOut: an opted-out set gets the count that its users want within 45 minutes. A set whose operator also has others is not judged,
// because the operator may be paused for their sleep.
func (w *World) judgeOptedOut() bool {
	out := slices.DeleteFunc(w.names(), func(set string) bool {
		o := w.set(set)
		_, scaled := w.wishes.scalers[set]
		return o == nil || o.GetLabels()[api.ManagedLabel] == "true" || scaled || slices.Contains(w.refused.names, set)
	})
	if len(out) == 0 {
		return w.problem == ""
	}
	w.rounds(45, time.Minute)
	for _, set := range out {
		op := w.operatorOf(set)
		shared := op != nil && len(op.sets) > 1
		if o := w.set(set); o != nil && !shared && !w.accepts(set, numberOf(o, "spec", "replicas")) {
			w.violate("opted-out set %s has %d replicas, and its users want %d", set, numberOf(o, "spec", "replicas"), w.wish(set))
		}
	}
	return w.problem == ""
}

// judgeOthers: while all writes to some sets are refused, the other sets wake. Sets of their operators are not judged, because the
// operator may stay stopped.
func (w *World) judgeOthers() {
	if len(w.refused.names) == 0 {
		return
	}
	for _, set := range w.names() {
		w.retry(set, 0)
	}
	for range 45 {
		w.round(time.Minute)
		w.keepAwake() // also a set that its operator has created again
	}
	for _, set := range w.names() {
		o, op := w.set(set), w.operatorOf(set)
		judged := o != nil && !slices.ContainsFunc(w.refused.names, func(refused string) bool {
			return set == refused || op != nil && op == w.operatorOf(refused)
		})
		if n := numberOf(o, "spec", "replicas"); judged && n == 0 && !w.accepts(set, 0) {
			w.violate("set %s is at zero, its users want %d, and only writes to %s are refused", set, w.wish(set),
				strings.Join(w.refused.names, " and "))
		}
	}
	w.refused = refusal{}
}

// nothingIsLeft: when the retention of old volumes is over, no object belongs to an operation.
func (w *World) nothingIsLeft() {
	for _, resource := range []string{"jobs", "pods", "persistentvolumeclaims", "persistentvolumes", "controllerrevisions"} {
		for _, o := range w.server.List(resource) {
			if o.GetLabels()[api.OperationLabel] != "" {
				w.violate("after the retention, an object of an operation is left: %s %s", resource, role(o))
			}
		}
	}
}

// role returns the role of an object in its operation.
func role(o *apiserver.Object) api.Role {
	if link, err := api.LoadLink(o); err == nil && link != nil {
		return link.Role
	}
	return "without a link"
}

// staysQuiet: a settled world gets no more writes, and no event fails.
func (w *World) staysQuiet() {
	if w.problem != "" {
		return
	}
	clear(w.failures)
	from := len(w.server.Log())
	w.rounds(6, time.Minute)
	for _, c := range w.server.Log()[from:] {
		if isFunction(c.By) {
			w.violate("a settled world gets a write: %s writes %s", c.By.User, c.Key)
		}
	}
	for _, f := range slices.Sorted(maps.Keys(w.failures)) {
		w.violate("in a settled world, %s fails: %s", f, slices.Sorted(maps.Keys(w.failures[f]))[0])
	}
}

// nothingIsHidden: when no write is late, sets and owners can be written and the functions have nothing to do, a set at zero and a changed
// owner have a cause that a user can see: a record of Drydock, the pause annotation, a Scaler that a user has paused, or the annotation on
// a stopped owner, which names the set that sleeps.
func (w *World) nothingIsHidden() {
	if len(w.held)+len(w.queue)+w.late.n+w.loses > 0 || w.refused.resource == "statefulsets" || w.sick || w.problem != "" {
		return
	}
	for _, name := range w.names() {
		set := w.set(name)
		if set == nil || set.GetLabels()[api.ManagedLabel] != "true" || w.seesCause(name) {
			continue
		}
		if op := w.operatorOf(name); op == nil || !op.paused && !op.isStopped() && !w.saysItIsHeld(op) {
			if n := numberOf(set, "spec", "replicas"); n == 0 && !w.accepts(name, 0) {
				w.violate("set %s is at zero, its users want %d, and nothing says why", name, w.wish(name))
			}
		}
	}
	for _, op := range w.operators {
		o := w.server.Get(op.key)
		judged := o != nil && !op.paused && w.refused.resource != op.key.Resource
		if judged && !op.isAsWritten(o) && !slices.ContainsFunc(op.sets, w.seesCause) {
			w.violate("the owner is %v, its user wrote %v, and no set says why", writtenByUsers(o), op.wanted)
		}
	}
}

// saysItIsHeld reports whether the owner has the annotation of a pause by Drydock.
func (w *World) saysItIsHeld(op *operator) bool {
	o := w.server.Get(op.key)
	return o != nil && o.GetAnnotations()[api.OwnerPausedAnnotation] != ""
}

// seesCause reports whether the set has the pause annotation, a paused Scaler, or a record that has not succeeded or says why the owner
// stays paused.
func (w *World) seesCause(name string) bool {
	set := w.set(name)
	if set == nil || set.GetDeletionTimestamp() != nil || w.annotation(name, api.PausedAnnotation) == "true" || w.wishes.paused[name] {
		return true
	}
	return slices.ContainsFunc(operation.Of(apiserver.Decode[appsv1.StatefulSet](set)).All(), func(r operation.Record) bool {
		return r.Head().Phase != api.Succeeded || r.Head().OwnerProblem != ""
	})
}

// unsettled says what differs from the users' wishes, or returns "".
func (w *World) unsettled() string {
	for _, set := range w.names() {
		if why := w.unsettledSet(set); why != "" {
			return why
		}
	}
	for _, op := range w.operators {
		if o := w.server.Get(op.key); o != nil && !op.isAsWritten(o) {
			return fmt.Sprintf("the owner is %v, and its user wrote %v", writtenByUsers(o), op.wanted)
		}
	}
	for _, r := range w.server.List("controllerrevisions") {
		if metav1.GetControllerOf(r) == nil || r.GetLabels()[api.OperationLabel] != "" {
			return "a record is left: " + r.GetName()
		}
	}
	for _, pod := range w.server.List("pods") {
		if len(pod.GetFinalizers()) > 0 {
			return fmt.Sprintf("pod %s has the finalizer %s", pod.GetName(), pod.GetFinalizers()[0])
		}
	}
	return ""
}

func (w *World) unsettledSet(name string) string {
	o := w.set(name)
	if o == nil {
		if w.isOwned(name) || w.wishes.unclear[name] {
			return ""
		}
		return "set " + name + " does not exist"
	}
	for _, r := range operation.Of(apiserver.Decode[appsv1.StatefulSet](o)).All() {
		if r.Active() {
			return fmt.Sprintf("a %s of set %s is active in %s (%s)", r.Head().Kind, name, r.Head().Phase, r.Head().Reason)
		}
	}
	has, ready := numberOf(o, "spec", "replicas"), numberOf(o, "status", "readyReplicas")
	if !w.accepts(name, has) || ready != has {
		how := "more"
		switch wants := w.wish(name); {
		case has == 0:
			how = "NO"
		case has < wants:
			how = "fewer"
		case has == wants:
			how = "unready"
		case wants == 0:
			how = "unwanted"
		}
		return fmt.Sprintf("set %s has %s replicas: %d, %d ready, and its users want %d", name, how, has, ready, w.wish(name))
	}
	if policy := textOf(o, "spec", "persistentVolumeClaimRetentionPolicy", "whenScaled"); policy != w.wishes.policies[name] {
		return fmt.Sprintf("whenScaled of set %s is %s, and its users want %s", name, policy, w.wishes.policies[name])
	}
	scaler := w.server.Get(in("scalers", scalerName(name)))
	if scaler == nil {
		return ""
	}
	if paused, _ := scaler.Object["spec"].(map[string]any)["paused"].(bool); paused != w.wishes.paused[name] {
		return fmt.Sprintf("the Scaler of set %s has paused %t", name, paused)
	}
	if n := numberOf(scaler, "spec", "replicas"); n != w.wishes.scalers[name] {
		return fmt.Sprintf("the Scaler of set %s has %d replicas, and its users want %d", name, n, w.wishes.scalers[name])
	}
	return ""
}

// fail notes that a function has failed an event. It gets the event again.
func (w *World) fail(name api.Function, p *process, err error) {
	w.tell("  %s fails: %v", p.name, err)
	if w.failures[name] == nil {
		w.failures[name] = map[string]int{}
	}
	w.failures[name][err.Error()]++
}

// forbidden is the answer of a webhook that refuses a write.
func forbidden(r *apiserver.Request) *http.Response {
	denied := errors.New(`admission webhook "policy.example.com" denied the request`)
	return apiserver.Refuse(r, apierrors.NewForbidden(appsv1.Resource(r.Resource), r.Name, denied))
}

// reason returns the message of a refusal.
func reason(answer *http.Response) string {
	body, err := io.ReadAll(answer.Body)
	answer.Body = io.NopCloser(strings.NewReader(string(body)))
	if err != nil {
		return err.Error()
	}
	_, rest, _ := strings.Cut(string(body), `"message":"`)
	message, _, _ := strings.Cut(rest, `"`)
	return message
}
