package swarm

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/swarm/apiserver"
)

// The one machine, and its storage, which binds at once and can grow.
const (
	node   = "node-1"
	class  = "fast"
	driver = "disk.example.com"
)

func now() string { return time.Now().UTC().Format(time.RFC3339) }

func keyOf(resource string, o *apiserver.Object) apiserver.Key {
	return apiserver.Key{Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// hasEnded reports whether the containers of a pod have ended for good.
func hasEnded(pod *apiserver.Object) bool {
	phase := textOf(pod, "status", "phase")
	return phase == "Succeeded" || phase == "Failed"
}

// isMember reports whether a StatefulSet controls the pod.
func isMember(pod *apiserver.Object) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "StatefulSet"
}

func isCleanup(pod *apiserver.Object) bool {
	return pod.GetLabels()[api.OperationLabel] != "" && metav1.GetControllerOf(pod) == nil
}

// claimsOf returns the names of the claims that a pod mounts.
func claimsOf(pod *apiserver.Object) []string {
	var names []string
	spec, _ := pod.Object["spec"].(map[string]any)
	volumes, _ := spec["volumes"].([]any)
	for _, v := range volumes {
		volume, _ := v.(map[string]any)
		if claim, mounts := volume["persistentVolumeClaim"].(map[string]any); mounts {
			names = append(names, claim["claimName"].(string))
		}
	}
	return names
}

// runPods plays the scheduler and the kubelet: pods with bound claims start, and pods that are being deleted end.
func (w *World) runPods() {
	for _, pod := range w.server.List("pods") {
		k := keyOf("pods", pod)
		switch {
		case pod.GetDeletionTimestamp() != nil:
			w.change(kubelet, k, "status", func(o *apiserver.Object) {
				if !hasEnded(o) {
					endPod(o, "Succeeded", 0)
				}
			})
			w.server.EndGrace(kubelet, k)
			w.observe()
		case textOf(pod, "status", "phase") == "Pending" && !w.sick && w.areBound(claimsOf(pod)):
			w.change(kubelet, k, "", func(o *apiserver.Object) { put(o, node, "spec", "nodeName") })
			w.change(kubelet, k, "status", func(o *apiserver.Object) {
				put(o, "Running", "status", "phase")
				put(o, now(), "status", "startTime")
				put(o, []any{condition("Ready", "True"), condition("PodScheduled", "True")}, "status", "conditions")
				put(o, []any{map[string]any{"name": containerOf(o), "ready": true, "started": true, "restartCount": int64(0), "image": "",
					"imageID": "", "state": map[string]any{"running": map[string]any{"startedAt": now()}}}}, "status", "containerStatuses")
			})
		}
	}
}

func condition(kind, status string) map[string]any {
	return map[string]any{"type": kind, "status": status, "lastTransitionTime": now()}
}

func containerOf(pod *apiserver.Object) string {
	spec, _ := pod.Object["spec"].(map[string]any)
	containers, _ := spec["containers"].([]any)
	first, _ := containers[0].(map[string]any)
	name, _ := first["name"].(string)
	return name
}

func (w *World) areBound(claims []string) bool {
	for _, name := range claims {
		claim := w.server.Get(in("persistentvolumeclaims", name))
		if claim == nil || claim.GetDeletionTimestamp() != nil || textOf(claim, "status", "phase") != "Bound" {
			return false
		}
	}
	return true
}

func endPod(pod *apiserver.Object, phase string, code int64) {
	put(pod, phase, "status", "phase")
	put(pod, []any{condition("Ready", "False")}, "status", "conditions")
	put(pod, []any{map[string]any{"name": containerOf(pod), "ready": false, "restartCount": int64(0), "image": "", "imageID": "",
		"state": map[string]any{"terminated": map[string]any{"exitCode": code, "reason": "Completed", "finishedAt": now()}}}},
		"status", "containerStatuses")
}

// endCleanupPods ends the cleanup pods that run.
func (w *World) endCleanupPods(succeed bool) {
	for _, pod := range w.server.List("pods") {
		if isCleanup(pod) && textOf(pod, "status", "phase") == "Running" && pod.GetDeletionTimestamp() == nil {
			w.endPod(pod, succeed)
		}
	}
}

func (w *World) endPod(pod *apiserver.Object, succeed bool) {
	w.change(kubelet, keyOf("pods", pod), "status", func(o *apiserver.Object) {
		if succeed {
			endPod(o, "Succeeded", 0)
		} else {
			endPod(o, "Failed", 1)
		}
	})
}

// provision plays the storage: it binds claims, grows volumes if it works, and removes what is released.
func (w *World) provision(grows bool) {
	for _, claim := range w.server.List("persistentvolumeclaims") {
		k := keyOf("persistentvolumeclaims", claim)
		wants := textOf(claim, "spec", "resources", "requests", "storage")
		switch {
		case claim.GetDeletionTimestamp() != nil:
			if !w.isMounted(claim.GetName()) {
				w.change(storage, k, "", func(o *apiserver.Object) { dropFinalizer(o, "kubernetes.io/pvc-protection") })
			}
		case textOf(claim, "status", "phase") == "Pending":
			w.bind(claim, wants)
		case grows && less(textOf(claim, "status", "capacity", "storage"), wants):
			w.change(storage, in2("persistentvolumes", textOf(claim, "spec", "volumeName")), "", func(o *apiserver.Object) {
				put(o, wants, "spec", "capacity", "storage")
			})
			w.change(storage, k, "status", func(o *apiserver.Object) { put(o, wants, "status", "capacity", "storage") })
		}
	}
	for _, volume := range w.server.List("persistentvolumes") {
		claim := w.server.Get(in("persistentvolumeclaims", textOf(volume, "spec", "claimRef", "name")))
		k := keyOf("persistentvolumes", volume)
		switch {
		case claim != nil && string(claim.GetUID()) == textOf(volume, "spec", "claimRef", "uid"):
		case textOf(volume, "spec", "persistentVolumeReclaimPolicy") == "Delete":
			if volume.GetDeletionTimestamp() == nil {
				w.remove(storage, k, metav1.DeleteOptions{})
			}
		case textOf(volume, "status", "phase") != "Released":
			w.change(storage, k, "status", func(o *apiserver.Object) { put(o, "Released", "status", "phase") })
		}
	}
}

func in2(resource, name string) apiserver.Key { return apiserver.Key{Resource: resource, Name: name} }

func (w *World) bind(claim *apiserver.Object, size string) {
	name := "pv-" + string(claim.GetUID())
	w.create(storage, "persistentvolumes", map[string]any{"metadata": map[string]any{"name": name,
		"annotations": map[string]any{"pv.kubernetes.io/provisioned-by": driver}},
		"spec": map[string]any{"capacity": map[string]any{"storage": size}, "accessModes": []any{"ReadWriteOnce"},
			"persistentVolumeReclaimPolicy": "Delete", "storageClassName": class, "volumeMode": "Filesystem",
			"claimRef": map[string]any{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim.GetName(),
				"uid": string(claim.GetUID())},
			"csi": map[string]any{"driver": driver, "volumeHandle": name, "fsType": "ext4"}}})
	w.change(storage, in2("persistentvolumes", name), "status", func(o *apiserver.Object) { put(o, "Bound", "status", "phase") })
	k := keyOf("persistentvolumeclaims", claim)
	w.change(storage, k, "", func(o *apiserver.Object) { put(o, name, "spec", "volumeName") })
	w.change(storage, k, "status", func(o *apiserver.Object) {
		put(o, "Bound", "status", "phase")
		put(o, size, "status", "capacity", "storage")
		put(o, []any{"ReadWriteOnce"}, "status", "accessModes")
	})
}

func less(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	size := resource.MustParse(a)
	return size.Cmp(resource.MustParse(b)) < 0
}

// isMounted reports whether a pod that runs uses the claim.
func (w *World) isMounted(claim string) bool {
	return slices.ContainsFunc(w.server.List("pods"), func(pod *apiserver.Object) bool {
		return textOf(pod, "spec", "nodeName") != "" && !hasEnded(pod) && slices.Contains(claimsOf(pod), claim)
	})
}

func dropFinalizer(o *apiserver.Object, name string) {
	left := slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == name })
	o.SetFinalizers(left)
}

func podName(set string, ordinal int) string { return fmt.Sprintf("%s-%d", set, ordinal) }

func claimName(set string, ordinal int) string { return fmt.Sprintf("data-%s-%d", set, ordinal) }
