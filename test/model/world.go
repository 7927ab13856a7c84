package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/plan"
)

// namespace of everything that has one.
const namespace = "shop"

// setName is the name of the only StatefulSet.
const setName = "web"

// World is one state of everything.
type World struct {
	objects map[key]*entry
	// incarnations counts the objects that a name has had, which tells them apart by UID.
	incarnations map[key]int
	version      int // the last resourceVersion
	now          time.Time

	processes map[types.UID]process
	contents  map[string]content // of volumes, by name
	functions [functionCount]function

	// budget is how many members have to stay ready when one is evicted; 0 without a PodDisruptionBudget.
	budget int
	// nodeSilent: the node has stopped to report, while its processes run on.
	nodeSilent bool
	// claims are those with data, replicas what the user asks for, rolling whether one member at a time may be away, gone that the user has
	// deleted the set.
	claims   []string
	replicas int32
	rolling  bool
	gone     bool
	// promptly: bookkeeping of controllers comes before anything else.
	promptly bool
	// late: backup has written after the operation was given up, as it had decided before. What it has made then may stay behind.
	late bool
	// forfeited are claims that a user has deleted while no pod was there that would keep them.
	forfeited string
	// faults is how many may still happen, happened which did: of a harmless one there may be another.
	faults   int
	happened string
	// broken is the invariant that the last step has broken.
	broken string
}

// Step is something that can happen next.
type Step struct {
	// Who does it, and what it is, in words. They are unique among the steps of one state.
	Who, What string
	// Fault: it is a fault, or the act of a stranger, and counts against the bound.
	Fault bool
	do    func(*World)
}

func (s Step) String() string { return s.Who + ": " + s.What }

func newWorld() *World {
	return &World{objects: map[key]*entry{}, incarnations: map[key]int{}, processes: map[types.UID]process{}, contents: map[string]content{},
		now: time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)}
}

// after returns the world after the step; w stays as it is.
func (w *World) after(s Step) *World {
	next := *w
	next.objects, next.incarnations = maps.Clone(w.objects), maps.Clone(w.incarnations)
	next.processes, next.contents = maps.Clone(w.processes), maps.Clone(w.contents)
	next.broken = ""
	if s.Fault {
		next.faults--
	}
	s.do(&next)
	return &next
}

// store writes the object with a new resourceVersion. An object that is being deleted goes with its last finalizer.
func (w *World) store(kind plan.Resource, o object) {
	k := key{kind, o.GetName()}
	if doomed(o) && !w.shortens(k, o) {
		delete(w.objects, k)
		return
	}
	o.SetResourceVersion("")
	if e := w.objects[k]; e != nil && bytes.Equal(e.text, withoutVersion(o)) {
		return
	}
	w.version++
	e := &entry{object: fresh(kind), text: withoutVersion(o)}
	if err := json.Unmarshal(e.text, e.object); err != nil { // as the API server does, which makes empty maps absent ones
		panic(err)
	}
	e.object.SetResourceVersion(fmt.Sprint("v", w.version))
	text := e.text
	if kind == plan.ControllerRevisions {
		text = versions.ReplaceAll(text, []byte("v"))
	}
	sum := sha256.Sum256(append([]byte(kind), text...))
	copy(e.digest[:], sum[:])
	w.objects[k] = e
}

// doomed reports whether nothing keeps the object that is being deleted.
func doomed(o object) bool {
	grace := o.GetDeletionGracePeriodSeconds()
	return o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && (grace == nil || *grace == 0)
}

// shortens reports whether the write takes a grace period away. The API server stores that, and removes the object by another write
// (kubernetes staging apiserver pkg/registry/generic/registry/store.go, Delete).
func (w *World) shortens(k key, o object) bool {
	if e := w.objects[k]; e != nil && o.GetDeletionGracePeriodSeconds() != nil {
		before := e.object.GetDeletionGracePeriodSeconds()
		return before == nil || *before != 0
	}
	return false
}

// versions are resourceVersions within annotations, which differ from path to path.
var versions = regexp.MustCompile(`\bv[0-9]+\b`)

func withoutVersion(o object) []byte {
	version := o.GetResourceVersion()
	o.SetResourceVersion("")
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	o.SetResourceVersion(version)
	return text
}
