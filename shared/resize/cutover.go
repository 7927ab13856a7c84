package resize

import (
	"fmt"
	"slices"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/world"
)

// ShutCutover says which approval or window the set's members wait for before they may be stopped, as the user has chosen with
// api.CutoverAnnotation; empty if they may be stopped now.
func ShutCutover(o *world.Observed, record *api.Resize) string {
	switch cutover := o.Set.Annotations[api.CutoverAnnotation]; cutover {
	case "", api.CutoverAuto:
		return ""
	case api.CutoverApprove:
		if o.Set.Annotations[api.ApproveAnnotation] == record.Operation {
			return ""
		}
		return fmt.Sprintf("an approval: kubectl drydock approve -n %s sts/%s, or the annotation %s=%s", o.Set.Namespace, o.Name,
			api.ApproveAnnotation, record.Operation)
	default:
		return shutWindows(cutover, o.Now)
	}
}

func shutWindows(cutover string, now time.Time) string {
	windows, err := idle.ParseWindows(cutover)
	switch {
	case err != nil:
		return fmt.Sprintf("an annotation %s that can be read: %v", api.CutoverAnnotation, err)
	case slices.ContainsFunc(windows, func(window idle.Window) bool { return window.Open(now) }):
		return ""
	}
	return "the window " + cutover
}
