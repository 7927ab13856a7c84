package model

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// identity returns a digest of the state. It ignores resourceVersions and incarnations that nothing refers to.
func (w *World) identity() [16]byte {
	var sum [16]byte
	for _, e := range w.objects {
		for i := range sum {
			sum[i] ^= e.digest[i]
		}
	}
	h := sha256.New()
	h.Write(sum[:])
	for _, uid := range slices.Sorted(maps.Keys(w.processes)) {
		fmt.Fprintf(h, "%s %+v\n", uid, w.processes[uid])
	}
	for _, name := range slices.Sorted(maps.Keys(w.contents)) {
		fmt.Fprintf(h, "%s %+v\n", name, w.contents[name])
	}
	for i := range w.functions {
		w.functions[i].identify(h, w)
	}
	fmt.Fprintln(h, w.budget, w.nodeSilent, w.faults, w.replicas, w.setDeleted, w.wroteLate, w.unprotectedDeletes, w.orderIsCurrent())
	_ = binary.Write(h, binary.LittleEndian, w.now.Unix())
	var id [16]byte
	copy(id[:], h.Sum(nil))
	return id
}

// orderIsCurrent reports whether the journal's manifest for the new set was made from the present version of the set.
func (w *World) orderIsCurrent() bool {
	for _, journal := range all[*appsv1.ControllerRevision](w, plan.ControllerRevisions) {
		if manifest, err := api.LoadManifest(journal); err == nil && manifest != nil && w.set() != nil {
			return manifest.ResourceVersion == w.set().ResourceVersion
		}
	}
	return false
}

// identify writes the distinguishing parts of the function's state: its pending writes, and whether their preconditions hold.
func (f *function) identify(h io.Writer, w *World) {
	fmt.Fprintln(h, f.refused)
	if f.early != nil {
		f.early.identify(h, w)
	}
	for _, a := range f.pending {
		e := w.objects[key{a.Resource, a.Name}]
		version, uid := "", ""
		if e != nil {
			version, uid = e.object.GetResourceVersion(), string(e.object.GetUID())
		}
		fmt.Fprintln(h, a.Verb, a.Resource, a.Name, a.ResourceVersion == version, string(a.UID) == uid)
		for _, op := range a.Ops {
			if op.Path == "/metadata/resourceVersion" {
				fmt.Fprintln(h, op.Value == version)
				continue
			}
			text, _ := json.Marshal(op)
			if a.Resource == plan.ControllerRevisions {
				text = versions.ReplaceAll(text, []byte("v"))
			}
			_, _ = h.Write(text)
		}
		if a.Object != nil {
			text, _ := json.Marshal(a.Object)
			_, _ = h.Write(text)
		}
	}
}

// identify writes the objects, and whether each has changed since it was read.
func (s *earlyRead) identify(h io.Writer, w *World) {
	fmt.Fprintln(h, s.kind)
	for _, k := range slices.SortedFunc(maps.Keys(s.objects), func(a, b key) int { return strings.Compare(a.name, b.name) }) {
		_, _ = h.Write(s.objects[k].digest[:])
		fmt.Fprintln(h, k.name, s.objects[k] == w.objects[k])
	}
}
