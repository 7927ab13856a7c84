package main

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/test/demo/show"
)

// outcome is everything that the verdict is passed on.
type outcome struct {
	status   *api.Resize
	before   []measure
	after    []measure
	to       resource.Quantity
	template string // what the StatefulSet's template asks for in the end
	wanted   int32  // replicas that the StatefulSet asks for in the end
	notReady string // why the replicas are not all ready; empty when they are
	kept     []found
	wrong    []string // what is left behind
	// answered and failed count the client's calls during the resize.
	answered, failed int64
}

// smallestShare of the size asked for that df must offer: file systems keep some for themselves.
const smallestShare = 0.8

// problems are what is not as it should be; none means that everything is. Whatever became of the operation, the data
// has to be the same and the replicas have to be back.
func (o outcome) problems() []string {
	var list problems
	succeeded := o.status.Phase == api.Succeeded
	list.add(!succeeded, "the operation ended with %s: %s: %s", o.status.Phase, o.status.Reason, o.status.Message)
	list.add(o.wanted != replicas, "the StatefulSet asks for %d replicas, before it asked for %d", o.wanted, replicas)
	list.add(o.notReady != "", "%s", o.notReady)
	list.add(succeeded && !sameSize(o.template, o.to), "the StatefulSet's template asks for %s, not for %s", o.template, &o.to)
	for i, was := range o.before {
		if i >= len(o.after) {
			list.add(true, "the data of %s was not looked at after the resize", replica(i))
			continue
		}
		is := o.after[i]
		list.add(was.checksum != is.checksum, "the data of %s is not the same: %d entries with checksum %s before, %d with %s after",
			replica(i), was.entries, short(was.checksum), is.entries, short(is.checksum))
		grown := is.space.total > was.space.total && float64(is.space.total) >= smallestShare*float64(o.to.Value())
		list.add(succeeded && !grown, "the volume of %s has not grown to %s: df says %.1f MiB before, %.1f MiB after",
			replica(i), &o.to, show.MiB(was.space.total), show.MiB(is.space.total))
	}
	rolling := o.status.Strategy == api.StrategyRolling && len(o.status.Members) > 0
	list.add(rolling && o.answered == 0, "no call of the client was answered during the resize")
	list.add(rolling && o.failed > 0, "%d of %d calls of the client failed during the resize", o.failed, o.answered+o.failed)
	list.add(!keepsOldVolumes(o.status, o.kept), "the old volumes are not what is kept: %v", o.kept)
	for _, wrong := range o.wrong {
		list.add(true, "left behind: %s", wrong)
	}
	return list
}

// problems in the order in which they are found.
type problems []string

func (p *problems) add(wrong bool, format string, args ...any) {
	if wrong {
		*p = append(*p, fmt.Sprintf(format, args...))
	}
}

func sameSize(text string, size resource.Quantity) bool {
	is, err := resource.ParseQuantity(text)
	return err == nil && is.Cmp(size) == 0
}

// keepsOldVolumes reports whether exactly the old volumes of an operation by copy are kept.
func keepsOldVolumes(status *api.Resize, kept []found) bool {
	var want, got []string
	for _, move := range status.Moves() {
		if status.Phase == api.Succeeded {
			want = append(want, move.OldVolume)
		}
	}
	for _, volume := range kept {
		got = append(got, volume.Name)
	}
	slices.Sort(want)
	slices.Sort(got)
	return slices.Equal(want, got)
}

// rows are the table at the end.
func (o outcome) rows(d *downtime) [][]string {
	rows := [][]string{{"replica", "data before", "data after", "", "df before", "df after", "downtime"}}
	for i := range o.before {
		name, was := replica(i), o.before[i]
		after, mark, space := "?", "✗", "?"
		if i < len(o.after) {
			after, space = short(o.after[i].checksum), o.after[i].space.String()
			if o.after[i].checksum == was.checksum {
				mark = "✓"
			}
		}
		rows = append(rows, []string{name, short(was.checksum), after, mark, was.space.String(), space,
			fmt.Sprintf("%.1f s", d.of(name).Seconds())})
	}
	return rows
}

func short(checksum string) string { return checksum[:min(12, len(checksum))] }

// String renders what df says.
func (s space) String() string {
	if s.total <= 0 {
		return "?"
	}
	return fmt.Sprintf("%.0f of %.0f MiB (%d%%)", show.MiB(s.used), show.MiB(s.total), s.used*100/s.total)
}

// keptText says what is kept until when, and how to get rid of it.
func keptText(kept []found) string {
	until := ""
	for _, volume := range kept {
		until = max(until, volume.Annotations[api.RetainedUntilAnnotation])
	}
	if len(kept) == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%d old volumes (%s), kept until %s", len(kept), corev1.PersistentVolumeReclaimRetain, until)
}
