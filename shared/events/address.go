package events

import (
	"slices"
	"strings"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/api"
)

// addressed is the value of the extensions that address an event.
const addressed = "true"

// addressOf returns the extension that addresses an event to the function: forpauseowner for pause-owner.
func addressOf(function api.Function) string {
	return "for" + strings.ReplaceAll(string(function), "-", "")
}

// address adds an extension for each function that the event is for. The Triggers in deploy/ compare it in spec.filter, for Brokers that
// evaluate no expressions. The function reads only the type, the purpose and the concerns of the event.
func address(e *cloudevents.Event) {
	for _, function := range recipients(*e) {
		e.SetExtension(addressOf(function), addressed)
	}
}

// recipients returns the functions that the event is for. The expressions of the Triggers in deploy/ say the same, and a test of
// eventsource/engine compares both.
func recipients(e cloudevents.Event) []api.Function {
	switch e.Type() {
	case ObjectChanged:
		known := []api.Function{api.Backup, api.CleanupPod, api.DetectResize, api.GrowVolumes, api.IdleTimeout, api.PauseOwner,
			api.Restore, api.ScaleFunction}
		return slices.DeleteFunc(known, func(f api.Function) bool { return !slices.Contains(Concerns(e), f) })
	case OwnerPaused:
		switch Purpose(e) {
		case "":
			return []api.Function{api.Backup, api.ScaleFunction}
		case "resize", "rollback":
			return []api.Function{api.Backup}
		case "sleep":
			return []api.Function{api.ScaleFunction}
		}
		return nil
	case ResizeRequested:
		return []api.Function{api.DetectResize}
	case MemberChanged:
		return []api.Function{api.Backup}
	case BackupCompleted:
		return []api.Function{api.Restore}
	case WakeDecided:
		return []api.Function{api.PauseOwner, api.ScaleFunction}
	case ResizeDetected, SleepDecided, Scaled, RestoreCompleted, OperationFailed:
		return []api.Function{api.PauseOwner}
	case Activity:
		return []api.Function{api.IdleTimeout}
	case Wake, Sleep: // scale starts while idle-timeout decides
		return []api.Function{api.IdleTimeout, api.ScaleFunction}
	case Retry:
		return []api.Function{api.CleanupPod, api.DetectResize, api.IdleTimeout, api.ScaleFunction}
	case ScaleHookRequested, ScaleHookCompleted, ScaleHookFailed:
		return []api.Function{api.ScaleFunction} // the user's function copies the extensions of the request into its answer
	}
	return nil
}
