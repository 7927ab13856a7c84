package swarm

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/test/kit/apiserver"
)

// node is the one machine.
const node = "node-1"

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
	link, err := api.LoadLink(pod)
	return err == nil && link != nil && link.Role == api.RoleCleaner
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

// runPods plays the scheduler and the kubelet: pods with bound claims start, and pods that are being deleted end. Members that run write
// data.
func (w *World) runPods() {
	for _, pod := range w.server.List("pods") {
		k := keyOf("pods", pod)
		switch {
		case pod.GetDeletionTimestamp() != nil:
			if isMover(pod) && !hasEnded(pod) {
				w.failMover(pod, moverreport.CodeTerminated)
			}
			w.change(kubelet, k, "status", func(o *apiserver.Object) {
				if !hasEnded(o) {
					endPod(o, "Succeeded", 0)
				}
			})
			w.server.EndGrace(kubelet, k)
			w.observe()
		case isMember(pod) && textOf(pod, "status", "phase") == "Running":
			w.write(pod)
		case isPlaced(pod) || w.sick || isGated(pod) || !w.areBound(claimsOf(pod)):
		case isMover(pod):
			w.startMover(k)
		default:
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

func isPlaced(pod *apiserver.Object) bool { return textOf(pod, "spec", "nodeName") != "" }

// isGated reports whether the scheduler must not place the pod, which is the lock of a member's name.
func isGated(pod *apiserver.Object) bool {
	spec, _ := pod.Object["spec"].(map[string]any)
	return spec["schedulingGates"] != nil
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
			if succeed {
				w.erase(pod)
			}
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

func podName(set string, ordinal int) string { return fmt.Sprintf("%s-%d", set, ordinal) }

func claimName(set string, ordinal int) string { return fmt.Sprintf("data-%s-%d", set, ordinal) }
