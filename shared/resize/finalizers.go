package resize

import (
	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// checkFinalizers finds what could be deleted but would not go: a claim that is to be replaced, or the set that is to be created again,
// with a finalizer of another controller.
func checkFinalizers(in Input, w *Wish) []Problem {
	var found []Problem
	if held := statefulset.HeldByOthers("StatefulSet", in.Set); w.Recreate && held != "" {
		found = append(found, problem(api.ForeignFinalizer, "%s", held))
	}
	for _, c := range w.Claims {
		if held := statefulset.HeldByOthers("claim", c.PersistentVolumeClaim); c.Copied() && held != "" {
			found = append(found, problem(api.ForeignFinalizer, "%s", held))
		}
	}
	return found
}
