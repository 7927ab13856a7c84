package swarm

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/apiserver"
)

// The storage has two classes. It binds claims at once and can grow volumes.
const (
	class      = "fast"
	otherClass = "slow"
	driver     = "disk.example.com"
)

// Ways of the storage to grow volumes.
type growth int

const (
	grows   growth = iota
	begins         // it works on the new size, and is not ready
	refuses        // it has no room
)

// provision plays the storage: it binds claims, grows volumes, and removes what is released.
func (w *World) provision(how growth) {
	for _, claim := range w.server.List("persistentvolumeclaims") {
		k := keyOf("persistentvolumeclaims", claim)
		switch {
		case claim.GetDeletionTimestamp() != nil:
			if !w.isUsed(claim.GetName()) {
				w.change(storage, k, "", func(o *apiserver.Object) { dropFinalizer(o, "kubernetes.io/pvc-protection") })
			}
		case textOf(claim, "status", "phase") == "Pending":
			w.bind(claim)
		default:
			w.grow(claim, how)
		}
	}
	for _, volume := range w.server.List("persistentvolumes") {
		phase := w.phaseOf(volume)
		if k := keyOf("persistentvolumes", volume); textOf(volume, "status", "phase") != phase {
			w.change(storage, k, "status", func(o *apiserver.Object) { put(o, phase, "status", "phase") })
		}
		if phase == "Released" && textOf(volume, "spec", "persistentVolumeReclaimPolicy") == "Delete" {
			w.remove(storage, keyOf("persistentvolumes", volume), metav1.DeleteOptions{})
		}
	}
}

// phaseOf returns the phase of a volume (kubernetes pkg/controller/volume/persistentvolume, syncVolume).
func (w *World) phaseOf(volume *apiserver.Object) string {
	uid := textOf(volume, "spec", "claimRef", "uid")
	claim := w.server.Get(in("persistentvolumeclaims", textOf(volume, "spec", "claimRef", "name")))
	switch {
	case uid == "":
		return "Available"
	case claim == nil || string(claim.GetUID()) != uid:
		return "Released"
	}
	if names := textOf(claim, "spec", "volumeName"); names != "" && names != volume.GetName() {
		return "Released"
	}
	return "Bound"
}

// bind binds a claim to the volume that it names or that is reserved for it, or else to a new one.
func (w *World) bind(claim *apiserver.Object) {
	volume := w.reserved(claim)
	size := textOf(claim, "spec", "resources", "requests", "storage")
	if volume == nil && textOf(claim, "spec", "volumeName") == "" {
		name := "pv-" + string(claim.GetUID())
		volume = w.create(storage, "persistentvolumes", map[string]any{"metadata": map[string]any{"name": name,
			"annotations": map[string]any{"pv.kubernetes.io/provisioned-by": driver}},
			"spec": map[string]any{"capacity": map[string]any{"storage": size}, "accessModes": []any{"ReadWriteOnce"},
				"persistentVolumeReclaimPolicy": "Delete", "storageClassName": textOf(claim, "spec", "storageClassName"),
				"volumeMode": "Filesystem", "csi": map[string]any{"driver": driver, "volumeHandle": name, "fsType": "ext4"}}})
	}
	if volume == nil {
		return
	}
	k, name := keyOf("persistentvolumes", volume), volume.GetName()
	w.change(storage, k, "", func(o *apiserver.Object) {
		put(o, map[string]any{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim.GetName(),
			"uid": string(claim.GetUID())}, "spec", "claimRef")
	})
	w.change(storage, k, "status", func(o *apiserver.Object) { put(o, "Bound", "status", "phase") })
	k = keyOf("persistentvolumeclaims", claim)
	w.change(storage, k, "", func(o *apiserver.Object) { put(o, name, "spec", "volumeName") })
	w.change(storage, k, "status", func(o *apiserver.Object) {
		put(o, "Bound", "status", "phase")
		put(o, textOf(volume, "spec", "capacity", "storage"), "status", "capacity", "storage")
		put(o, []any{"ReadWriteOnce"}, "status", "accessModes")
	})
}

// reserved returns the volume that the claim names or that is reserved for it, or nil.
func (w *World) reserved(claim *apiserver.Object) *apiserver.Object {
	for _, volume := range w.server.List("persistentvolumes") {
		named, uid := textOf(volume, "spec", "claimRef", "name"), textOf(volume, "spec", "claimRef", "uid")
		fits := named == claim.GetName() && (uid == "" || uid == string(claim.GetUID()))
		if names := textOf(claim, "spec", "volumeName"); fits && (names == "" || names == volume.GetName()) {
			return volume
		}
	}
	return nil
}

// grow plays the resizer of a CSI driver (kubernetes-csi external-resizer). It continues with a size that it has begun, also if the claim
// requests less since then.
func (w *World) grow(claim *apiserver.Object, how growth) {
	const inProgress, infeasible = "ControllerResizeInProgress", "ControllerResizeInfeasible"
	wants, has := textOf(claim, "spec", "resources", "requests", "storage"), textOf(claim, "status", "capacity", "storage")
	state := textOf(claim, "status", "allocatedResourceStatuses", "storage")
	if state == inProgress {
		wants = textOf(claim, "status", "allocatedResources", "storage")
	}
	if !less(has, wants) {
		return
	}
	if w.full && state != inProgress {
		how = refuses
	}
	report := func(allocated, state, capacity any) {
		w.change(storage, keyOf("persistentvolumeclaims", claim), "status", func(o *apiserver.Object) {
			put(o, capacity, "status", "capacity", "storage")
			put(o, allocated, "status", "allocatedResources", "storage")
			put(o, state, "status", "allocatedResourceStatuses", "storage")
		})
	}
	switch how {
	case grows:
		w.change(storage, in2("persistentvolumes", textOf(claim, "spec", "volumeName")), "", func(o *apiserver.Object) {
			put(o, wants, "spec", "capacity", "storage")
		})
		report(wants, nil, wants)
	case begins:
		report(wants, inProgress, has)
	case refuses:
		report(wants, infeasible, has)
	}
}

func in2(resource, name string) apiserver.Key { return apiserver.Key{Resource: resource, Name: name} }

func less(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	size := resource.MustParse(a)
	return size.Cmp(resource.MustParse(b)) < 0
}

// isTarget reports whether the claim is a temporary one, for the copy of another.
func isTarget(claim *apiserver.Object) bool { return role(claim) == api.RoleTarget }

// isUsed reports whether a pod that was placed uses the claim (kubernetes pkg/controller/volume/pvcprotection).
func (w *World) isUsed(claim string) bool {
	return slices.ContainsFunc(w.server.List("pods"), func(pod *apiserver.Object) bool {
		return isPlaced(pod) && slices.Contains(claimsOf(pod), claim)
	})
}

func dropFinalizer(o *apiserver.Object, name string) {
	left := slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == name })
	o.SetFinalizers(left)
}

// data are the data of the member with the claim of this name. Each write of the member makes a new version.
type data struct {
	claim   string
	version int
}

// contents are the data on all volumes. Only movers copy them.
type contents struct {
	on     map[string]data // by the name of the volume; absent if it is empty
	newest map[string]int  // version of each member's data, by the name of its claim
	oldest map[string]int  // version that a user has asked to get back, by the name of the claim; absent if none
}

func newContents() contents {
	return contents{on: map[string]data{}, newest: map[string]int{}, oldest: map[string]int{}}
}

// volumeOf returns the name of the claim's volume, or "".
func (w *World) volumeOf(claim string) string {
	return textOf(w.server.Get(in("persistentvolumeclaims", claim)), "spec", "volumeName")
}

// write lets a member write to its volumes.
func (w *World) write(pod *apiserver.Object) {
	for _, claim := range claimsOf(pod) {
		w.contents.newest[claim]++
		w.contents.on[w.volumeOf(claim)] = data{claim, w.contents.newest[claim]}
	}
}

// erase lets a cleanup pod delete the data on its volumes.
func (w *World) erase(pod *apiserver.Object) {
	for _, claim := range claimsOf(pod) {
		delete(w.contents.on, w.volumeOf(claim))
	}
}

// copy lets a mover complete its copies.
func (w *World) copy(mover *apiserver.Object) {
	for _, pair := range movedClaims(mover) {
		w.contents.on[w.volumeOf(pair[1])] = w.contents.on[w.volumeOf(pair[0])]
	}
}

// holdsCopy reports whether a target of the mover has a complete copy.
func (w *World) holdsCopy(mover *apiserver.Object) bool {
	return slices.ContainsFunc(movedClaims(mover), func(pair [2]string) bool {
		_, full := w.contents.on[w.volumeOf(pair[1])]
		return full
	})
}
