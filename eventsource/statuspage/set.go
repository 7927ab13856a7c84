package statuspage

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/overview"
	"drydock.dev/shared/progress"
	"drydock.dev/shared/world"
)

// setData is the input of the template of one set.
type setData struct {
	row
	Group     []row // the other sets of its group
	Problems  []string
	Operation *operationData
	Members   []memberData
	Growing   []claimData
	Others    []recordData
	Timeline  []entry
	Letters   []letterData
	Volumes   []volumeData
}

// recordData is an operation other than a resize or rollback.
type recordData struct {
	Words, Phase, Message string
	Mood                  mood
	Deadline              *when
}

// letterData is an event that no function accepted.
type letterData struct {
	Key, Type, Destination, Cause string
	At, Resent                    *when
}

// volumeData is an old volume during its retention.
type volumeData struct {
	Name, Claim, Size, Policy string
	Until                     *when
}

// setOf returns the data of the page of one set.
func setOf(f setFacts) setData {
	data, records := setData{}, operation.Of(f.Set)
	for _, s := range overview.New(f.group, f.Now).Sets {
		if s.Name == f.Set.Name {
			data.row = rowOf(s, f.Now)
		} else {
			data.Group = append(data.Group, rowOf(s, f.Now))
		}
	}
	for _, err := range []error{records.ResizeErr, records.SleepErr, records.CleanupErr, records.ScaleErr} {
		if err != nil {
			data.Problems = append(data.Problems, printable(err.Error()))
		}
	}
	document, err := progress.New(f.Observed)
	switch {
	case err == nil:
		data.addProgress(document, records.Resize, f.Now)
	case records.ResizeErr == nil: // else it is in the list
		data.Problems = append(data.Problems, printable(err.Error()))
	}
	data.Others = othersOf(records, f.Now)
	data.Timeline = timelineOf(f.Set.Name, records, f.events, f.Now)
	data.addLetters(f)
	data.Volumes = volumesOf(f.Observed)
	return data
}

// othersOf returns the operations other than a resize or rollback that are active or did not succeed.
func othersOf(records operation.Records, now time.Time) []recordData {
	var others []recordData
	for _, record := range records.Others() {
		h := record.Head()
		words := operationWords(h.Kind, h.Request)
		if h.Kind == api.KindSleep {
			words = printable("sleep, cause: " + h.Request)
		}
		others = append(others, recordData{words, string(h.Phase), printable(joined(string(h.Reason), h.Message)), moodOfPhase(h.Phase),
			future(h.Deadline, now)})
	}
	return others
}

func (d *setData) addLetters(f setFacts) {
	letters, err := api.LoadDeadLetters(f.Set)
	if err != nil {
		d.Problems = append(d.Problems, printable(err.Error()))
	}
	for _, l := range letters {
		cause := l.Message
		if l.Code != 0 {
			cause = joined(fmt.Sprint(l.Code), l.Message)
		}
		d.Letters = append(d.Letters, letterData{l.Key(), printable(l.Type), printable(l.Destination), printable(cause), past(&l.Time, f.Now),
			past(l.Resent, f.Now)})
	}
}

// volumesOf returns the retained volumes, those that go first at the top.
func volumesOf(o *world.Observed) []volumeData {
	var volumes []volumeData
	for _, v := range o.Retained() {
		d := volumeData{Name: v.Name, Policy: printable(v.Annotations[api.ReclaimPolicyAnnotation]), Size: v.Spec.Capacity.Storage().String()}
		if link, err := api.LoadLink(v); err == nil && link != nil {
			d.Claim = printable(link.Claim)
		}
		if until, err := time.Parse(time.RFC3339, v.Annotations[api.RetainedUntilAnnotation]); err == nil {
			at := metav1.NewTime(until)
			d.Until = future(&at, o.Now)
		}
		volumes = append(volumes, d)
	}
	slices.SortFunc(volumes, func(a, b volumeData) int {
		return cmp.Or(cmp.Compare(isoOrLast(a.Until), isoOrLast(b.Until)), cmp.Compare(a.Name, b.Name))
	})
	return volumes
}

func isoOrLast(w *when) string {
	if w == nil {
		return "~" // after every digit
	}
	return w.ISO
}
