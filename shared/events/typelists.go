package events

import "slices"

// OwnTypes returns the types of Drydock's events.
func OwnTypes() []string {
	return []string{ObjectChanged, ResizeRequested, ResizeDetected, OwnerPaused, OwnerResumed, BackupCompleted, MemberChanged,
		RestoreCompleted, OperationFailed, Retry, Activity, Wake, Sleep, SleepDecided, WakeDecided, Scaled, CleanupCompleted, ScaleCompleted,
		ScaleHookRequested, ScaleHookCompleted, ScaleHookFailed}
}

// IsOwn reports whether the type belongs to Drydock.
func IsOwn(eventType string) bool { return slices.Contains(OwnTypes(), eventType) }

// SourceTypes returns the types of the event source's events about an object.
func SourceTypes() []string { return []string{SourceAdd, SourceUpdate, SourceDelete} }

// IsSource reports whether the type belongs to the event source.
func IsSource(eventType string) bool { return slices.Contains(SourceTypes(), eventType) }
