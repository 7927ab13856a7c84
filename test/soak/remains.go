package soak

import (
	"fmt"
	"slices"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// overdue is how long after its retention an old volume may still have it.
const overdue = 30 * time.Second

// Remains returns what operations have left behind that they should have removed. sleeps are the operations of the sleeping sets, whose
// records stay until the sets wake.
func Remains(objects kit.Objects, sleeps []string, now time.Time) []string {
	left := slices.DeleteFunc(objects.Leftovers(), func(object string) bool {
		return slices.ContainsFunc(sleeps, func(operation string) bool { return object == "journal "+api.StopRecordName(operation) })
	})
	for _, volume := range objects.Volumes {
		text, retained := volume.Annotations[api.RetainedUntilAnnotation]
		if !retained {
			continue
		}
		if until, err := time.Parse(time.RFC3339, text); err != nil || now.After(until.Add(overdue)) {
			left = append(left, fmt.Sprintf("volume %s, retained until %s", volume.Name, text))
		}
	}
	return left
}
