package statuspage

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/overview"
	"drydock.dev/shared/progress"
	"drydock.dev/shared/text"
	"drydock.dev/shared/world"
)

// setData is the input of the template of one set.
type setData struct {
	row
	Group     []row // the other sets of its group
	Problems  []string
	Notes     []string
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

// operationData is a resize or rollback.
type operationData struct {
	Words, ID, Phase, Strategy string
	Mood                       mood
	Steps                      []step
	Started, Finished          *when
	Deadline                   *when
	Result                     string // the reason and message
	By                         string
	Waits                      []string
	Next                       string // a command
	Moved, Total               int    // members
}

// memberData is a member whose claims get other volumes.
type memberData struct {
	Name, Phase  string
	Mood         mood
	Claims       []claimData
	Percent      int    // of the bytes that are copied; -1 if unknown
	Copied       string // in words
	Stop         string
	Waits        string
	ProgressName string // of the bar, for a screen reader
}

// claimData is a change of a claim.
type claimData struct {
	Name, From, To string
	State          string
	Warnings       []string
}

// addProgress adds the latest resize or rollback.
func (d *setData) addProgress(document *progress.Document, record *api.Resize, now time.Time) {
	d.addGrowthByUsage(document.GrowthByUsage, now)
	if record == nil {
		for _, wait := range document.Waits {
			d.Problems = append(d.Problems, printable("waits for: "+wait))
		}
		return
	}
	o := &operationData{
		Words: operationWords(document.Kind, document.Request), ID: document.Operation, Phase: string(document.Phase),
		Strategy: string(document.Strategy), Mood: moodOfPhase(document.Phase), Steps: stepsOf(record), Started: past(document.Started, now),
		Finished: past(document.Finished, now), Result: printable(joined(string(document.Reason), document.Message)),
		By: string(document.Function), Next: document.NextStep(), Total: len(document.Members),
	}
	if document.Withdrawn {
		o.Words += " (withdrawn)"
	}
	if record.Active() {
		o.Deadline = future(document.Deadline, now)
	}
	for _, wait := range document.Waits {
		o.Waits = append(o.Waits, printable(wait))
	}
	for i := range document.Members {
		m := memberOf(document.Set, &document.Members[i])
		if document.Members[i].Phase == api.MemberMoved {
			o.Moved++
		}
		d.Members = append(d.Members, m)
	}
	for _, g := range document.Growing {
		d.Growing = append(d.Growing, claimData{Name: printable(g.Claim), From: g.From.String(), To: printable(g.Target()),
			State: g.Words()})
	}
	d.Operation = o
}

func memberOf(set string, m *progress.Member) memberData {
	name := fmt.Sprintf("%s-%d", set, m.Ordinal)
	data := memberData{
		Name: name, Phase: string(m.Phase), Mood: moodOfMember(m.Phase), Percent: -1, Stop: m.StopWords(), Waits: printable(m.Waits),
		ProgressName: "copied for " + name,
	}
	if m.Bytes > 0 {
		data.Percent = int(max(0, min(float64(m.Copied)/float64(m.Bytes), 1)) * 100)
		data.Copied = m.CopiedWords() + m.FinalPassWords()
	}
	for _, c := range m.Claims {
		claim := claimData{Name: printable(c.Template), From: c.From.String(), To: printable(c.Target())}
		for _, warning := range c.Warnings {
			claim.Warnings = append(claim.Warnings, printable(warning))
		}
		data.Claims = append(data.Claims, claim)
	}
	return data
}

// said returns the sentence that a screen reader says after a change of the set.
func (d *setData) said() string {
	if d.Operation == nil {
		return fmt.Sprintf("%s is %s", d.Name, d.State)
	}
	words := []string{d.Operation.Words + " is " + d.Operation.Phase}
	for _, m := range d.Members {
		words = append(words, m.Name+" "+m.Phase)
	}
	const most = 6 // a longer sentence delays the next one
	return strings.Join(words[:min(len(words), most)], ", ")
}

// addGrowthByUsage adds the latest growth of each template as a note, and what does not grow as a problem.
func (d *setData) addGrowthByUsage(growth *api.Growth, now time.Time) {
	if growth == nil {
		return
	}
	for _, template := range slices.Sorted(maps.Keys(growth.Latest)) {
		asked := growth.Latest[template]
		d.Notes = append(d.Notes, printable(fmt.Sprintf("template %s grew by usage to %s %s ago: %s", template, asked.Size,
			progress.Age(now.Sub(asked.At.Time)), asked.Cause)))
	}
	for _, w := range growth.Warnings {
		d.Problems = append(d.Problems, printable(fmt.Sprintf("does not grow by usage: %s (%s)", text.Clip(w.Message, maxText), w.Reason)))
	}
}
