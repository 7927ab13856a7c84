package resize

import (
	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// checkFinalizers finds objects that Drydock would delete but that would stay because of another controller's finalizer: claims that are
// replaced, or a set that is created again.
func checkFinalizers(in Input, w *Changes) []Problem {
	var found []Problem
	if held := statefulset.HeldByOthers("StatefulSet", in.Set); w.Recreate && held != "" {
		found = append(found, problem(api.ForeignFinalizer, "%s", held))
	}
	for _, c := range w.Claims {
		if held := statefulset.HeldByOthers("claim", c.PersistentVolumeClaim); c.ChangesVolume() && held != "" {
			found = append(found, problem(api.ForeignFinalizer, "%s", held))
		}
	}
	return found
}
