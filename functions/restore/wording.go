package restore

import (
	"drydock.dev/shared/api"
	"drydock.dev/shared/text"
)

// stopReadiness returns why members may stop, for the message.
func stopReadiness(record *api.Resize) string {
	if record.GrowsWhileStopped() {
		return "the claims can grow when their pods are stopped"
	}
	uncopied := 0
	for _, m := range record.Members {
		if record.Copies() && m.Phase == api.MemberWaiting && m.Pod == "" { // no mover has run beside its pod
			uncopied++
		}
	}
	if uncopied > 0 {
		return text.Number(uncopied, "member is copied only while it is stopped", "members are copied only while they are stopped")
	}
	return "the copies have converged"
}

// prepared returns what happens to a member before it stops, for the message.
func prepared(record *api.Resize) string {
	if record.GrowsWhileStopped() {
		return "prepared"
	}
	return "copied"
}

// formerVolumes returns how a message names the volumes of a member whose stop is cancelled.
func formerVolumes(record *api.Resize) string {
	switch {
	case record.GrowsWhileStopped():
		return "own"
	case record.IsRollback():
		return "present"
	}
	return "old"
}

// movedMessage returns the message after the last member.
func movedMessage(record *api.Resize) string {
	switch {
	case record.GrowsWhileStopped():
		return "the volumes of every member have grown"
	case len(record.Members) == 0:
		return "the set is created again, and its pods keep running"
	}
	return "every member runs on its new volumes"
}
