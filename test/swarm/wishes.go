package swarm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/apiserver"
)

// wishes are the last counts and settings of the users. The oracles compare the cluster only with them.
type wishes struct {
	counts   map[string]int    // of each set, by its own users
	scalers  map[string]int    // of the Scaler of a set; absent without one
	paused   map[string]bool   // Scalers that a user has paused
	policies map[string]string // whenScaled of each set
	also     map[string]int    // a second count that is as right as the first
	unclear  map[string]bool   // sets whose users contradict each other; not judged
	lastUp   map[string]int    // the last count of a set that was not zero

	mounted map[string]string // the UID of the claim with the name that a member mounted last
	free    map[string]bool   // claims whose member was unwanted at some moment since it mounted the claim
	judged  int               // how much of the server's log has been judged
	out     map[string]int    // where in the log a set was opted out
}

func newWishes() wishes {
	return wishes{counts: map[string]int{}, scalers: map[string]int{}, paused: map[string]bool{}, policies: map[string]string{},
		also: map[string]int{}, unclear: map[string]bool{}, lastUp: map[string]int{}, mounted: map[string]string{}, free: map[string]bool{},
		out: map[string]int{}}
}

// maxMembers is above every count in a world.
const maxMembers = 8

// wish returns how many members the users of the set want.
func (w *World) wish(set string) int {
	if n, scaled := w.wishes.scalers[set]; scaled {
		return n
	}
	if op := w.operatorOf(set); op != nil {
		return numberOf(&apiserver.Object{Object: op.wanted}, "spec", "replicas")
	}
	return w.wishes.counts[set]
}

// accepts reports whether the count is what the users of the set may want.
func (w *World) accepts(set string, n int) bool {
	also, has := w.wishes.also[set]
	return w.wishes.unclear[set] || n == w.wish(set) || has && n == also
}

// note remembers which members are unwanted now. The count of a scaling that has begun does not change, as docs/scaler.md says.
func (w *World) note(set string) {
	n := w.wish(set)
	var scale struct {
		Phase  string
		Target int
	}
	if json.Unmarshal([]byte(w.annotation(set, api.ScaleAnnotation)), &scale) == nil && strings.HasSuffix(scale.Phase, "Scaling") {
		n = min(n, scale.Target)
	}
	for ordinal := n; ordinal < maxMembers; ordinal++ {
		w.wishes.free[claimName(set, ordinal)] = true
	}
}

// annotation returns an annotation of the set, or "".
func (w *World) annotation(set, name string) string {
	if o := w.set(set); o != nil {
		return o.GetAnnotations()[name]
	}
	return ""
}

// sleptWith returns the count from before the set's sleep, and false if no sleep is active.
func (w *World) sleptWith(set string) (int, bool) {
	var sleep struct {
		Phase    string
		Replicas int
	}
	text := w.annotation(set, api.SleepAnnotation)
	active := json.Unmarshal([]byte(text), &sleep) == nil && text != "" &&
		!slices.Contains([]string{"Succeeded", "Failed", "Refused"}, sleep.Phase)
	return sleep.Replicas, active
}

// stoppedWith returns the count in the record of the set's stop, and false if there is none.
func (w *World) stoppedWith(set string) (int, bool) {
	for _, o := range w.server.List("controllerrevisions") {
		link, err := api.LoadLink(o)
		if err == nil && link != nil && link.Role == api.RoleStop && link.Set.Name == set {
			return numberOf(o, "data", "stop", "replicas"), true
		}
	}
	return 0, false
}

func (w *World) isAsleep(set string) bool {
	_, active := w.sleptWith(set)
	return active
}

// observe judges what the server has stored since it was called last. It is called after each request.
func (w *World) observe() {
	log := w.server.Log()
	for ; w.wishes.judged < len(log); w.wishes.judged++ {
		c := log[w.wishes.judged]
		switch c.Resource {
		case "statefulsets":
			w.observeSet(c)
		case "pods":
			w.podStarts(c)
		case "persistentvolumeclaims":
			w.claimGoes(c)
		case "persistentvolumes":
			w.volumeGoes(c)
		}
		for _, op := range w.operators {
			if c.Key == op.key && isFunction(c.By) {
				w.sizeStays(op, c)
				op.held = w.wishes.judged
			}
		}
	}
}

func (w *World) observeSet(c apiserver.Commit) {
	if c.After == nil {
		return
	}
	if n := numberOf(c.After, "spec", "replicas"); n > 0 {
		w.wishes.lastUp[c.Name] = n
	}
	if c.Before != nil && c.Before.GetLabels()[api.ManagedLabel] == "true" && c.After.GetLabels()[api.ManagedLabel] != "true" {
		w.wishes.out[c.Name] = w.wishes.judged
	}
	w.optedOutSetStaysUp(c)
}

// claimsOfSet returns the claims that members of the set may have.
func claimsOfSet(set string) []string {
	var names []string
	for ordinal := range maxMembers {
		names = append(names, claimName(set, ordinal))
	}
	return names
}

// createUsersObjects creates the sets with their operators and Scaler.
func (w *World) createUsersObjects() {
	for i := range w.Sets {
		name := setsByOrder[i]
		w.wishes.counts[name], w.wishes.policies[name] = 3, "Retain"
		if w.Delete {
			w.wishes.policies[name] = "Delete"
		}
	}
	names := w.names()
	switch {
	case w.Owner == noOperator:
	case w.TwoOwners && w.Sets > 1:
		w.addOperator("own", w.Owner, names[:1])
		w.addOperator("other", w.Owner%lastOperator+1, names[1:2])
	case w.OwnsAll:
		w.addOperator("own", w.Owner, names)
	default:
		w.addOperator("own", w.Owner, names[:1])
	}
	for _, name := range names {
		by := person
		if w.isOwned(name) {
			by = operatorClient
		}
		w.createSet(by, name, 3)
	}
	if last := names[len(names)-1]; w.Scaler && !w.isOwned(last) {
		w.createScaler(last, 3)
	}
}

// names returns the names of all sets.
func (w *World) names() []string { return slices.Clone(setsByOrder[:w.Sets]) }

const cleanupTemplate = `{"spec":{"containers":[{"name":"clean","image":"registry.example/clean:1"}]}}`

func (w *World) createSet(by apiserver.Client, name string, replicas int) {
	if w.set(name) != nil {
		return
	}
	labels, annotations := w.manifest(name)
	metadata := map[string]any{"name": name, "namespace": namespace, "labels": labels, "annotations": annotations}
	if op := w.operatorOf(name); op != nil {
		owner := w.server.Get(op.key)
		if owner == nil {
			return
		}
		if op.seen == nil {
			op.seen = owner
		}
		if op.way == keepsSizes {
			metadata["labels"] = op.labelsOf(name)
		}
		metadata["ownerReferences"] = []any{map[string]any{"apiVersion": owner.GetAPIVersion(), "kind": owner.GetKind(), "name": op.key.Name,
			"uid": string(owner.GetUID()), "controller": true, "blockOwnerDeletion": true}}
	}
	management := "OrderedReady"
	if w.Parallel {
		management = "Parallel"
	}
	w.tell("  %s creates set %s with %d replicas", by.Manager, name, replicas)
	w.create(by, "statefulsets", map[string]any{"metadata": metadata, "spec": map[string]any{"replicas": replicas, "serviceName": name,
		"podManagementPolicy": management, "selector": map[string]any{"matchLabels": map[string]any{"app": name}},
		"revisionHistoryLimit":                 10,
		"persistentVolumeClaimRetentionPolicy": map[string]any{"whenScaled": w.wishes.policies[name], "whenDeleted": "Retain"},
		"updateStrategy":                       map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"partition": 0}},
		"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": name}}, "spec": map[string]any{
			"terminationGracePeriodSeconds": 30, "restartPolicy": "Always", "containers": []any{map[string]any{"name": "db",
				"image": "registry.example/db:1", "volumeMounts": []any{map[string]any{"name": "data", "mountPath": "/data"}}}}}},
		"volumeClaimTemplates": []any{map[string]any{"metadata": map[string]any{"name": "data"}, "spec": map[string]any{
			"accessModes": []any{"ReadWriteOnce"}, "storageClassName": class,
			"resources": map[string]any{"requests": map[string]any{"storage": w.sizeIn(name)}}}}}}})
}

func (w *World) createScaler(set string, replicas int) {
	spec := map[string]any{"target": set, "replicas": replicas}
	if w.Hook {
		spec["hooks"] = map[string]any{"pre": map[string]any{"job": map[string]any{"template": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{"name": "hook", "image": "registry.example/hook:1"}}}}}}}
	}
	if w.create(person, "scalers", map[string]any{"metadata": map[string]any{"name": scalerName(set), "namespace": namespace},
		"spec": spec}) != nil {
		w.wishes.scalers[set], w.wishes.paused[set] = replicas, false
		delete(w.wishes.also, set)
		w.note(set)
	}
}

func scalerName(set string) string { return fmt.Sprintf("pilot-%s", set) }
