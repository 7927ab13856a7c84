package events

import "slices"

// OwnTypes returns the types of Drydock's events.
func OwnTypes() []string {
	return append([]string{ObjectChanged, ResizeRequested, ResizeDetected, OwnerPaused, OwnerResumed, BackupCompleted, MemberChanged,
		RestoreCompleted, OperationFailed, Retry, Activity, Wake, Sleep, SleepDecided, WakeDecided, Scaled, CleanupCompleted, ScaleCompleted},
		HookTypes()...)
}

// IsOwn reports whether the type belongs to Drydock.
func IsOwn(eventType string) bool { return slices.Contains(OwnTypes(), eventType) }

// HookTypes returns the types of the requests for hooks and of their answers. Their data has a key.
func HookTypes() []string { return []string{ScaleHookRequested, ScaleHookCompleted, ScaleHookFailed} }

// IsHook reports whether the event is a request for a hook, or an answer. A client that reads its data can answer the request.
func IsHook(eventType string) bool { return slices.Contains(HookTypes(), eventType) }

// SourceTypes returns the types of the event source's events about an object.
func SourceTypes() []string { return []string{SourceAdd, SourceUpdate, SourceDelete} }

// IsSource reports whether the type belongs to the event source.
func IsSource(eventType string) bool { return slices.Contains(SourceTypes(), eventType) }
