package resize

import (
	"fmt"
	"slices"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/window"
	"drydock.dev/shared/world"
)

// CutoverObstacle describes the approval or the window that the set's members wait for before they may be stopped. It is empty if they may
// be stopped now. The user chooses with api.CutoverAnnotation.
func CutoverObstacle(o *world.Observed, record *api.Resize) string {
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
		return closedWindows(cutover, o.Now)
	}
}

// closedWindows describes the windows if none of them is open now. It is empty if one is.
func closedWindows(cutover string, now time.Time) string {
	windows, err := window.Parse(cutover)
	switch {
	case err != nil:
		return fmt.Sprintf("a readable annotation %s: %v", api.CutoverAnnotation, err)
	case slices.ContainsFunc(windows, func(window window.Window) bool { return window.Open(now) }):
		return ""
	}
	return "the window " + cutover
}
