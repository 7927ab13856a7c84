package main

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/bounded"
	"drydock.dev/test/demo/show"
)

// outcome is the data for the verdict.
type outcome struct {
	status       *api.Resize
	before       []measurement
	after        []measurement
	to           resource.Quantity
	template     string        // final size in the StatefulSet's template
	specReplicas int32         // final spec.replicas of the StatefulSet
	notReady     string        // why some replicas are not ready; empty if all are
	retained     []foundObject // retained old volumes
	leftovers    []string      // a text for each leftover
	// answered and failed count the client's calls during the resize.
	answered, failed int64
}

// smallestShare is the share of the requested size that df must report. File systems reserve the rest.
const smallestShare = 0.8

// problems returns a text for each failed check. The data must be the same and the replicas must be ready even if the operation
// failed.
func (o outcome) problems() []string {
	var list problemList
	succeeded := o.status.Phase == api.Succeeded
	list.add(!succeeded, "the operation ended with %s: %s: %s", o.status.Phase, o.status.Reason, o.status.Message)
	list.add(o.specReplicas != replicas, "the StatefulSet has %d replicas in its spec, %d before", o.specReplicas, replicas)
	list.add(o.notReady != "", "%s", o.notReady)
	list.add(succeeded && !sameSize(o.template, o.to), "the StatefulSet's template requests %s, not %s", o.template, &o.to)
	for i, was := range o.before {
		if i >= len(o.after) {
			list.add(true, "the data of %s was not checked after the resize", replica(i))
			continue
		}
		is := o.after[i]
		list.add(was.checksum != is.checksum, "the data of %s differs: %d entries with checksum %s before, %d with %s after",
			replica(i), was.entries, short(was.checksum), is.entries, short(is.checksum))
		grown := is.space.total > was.space.total && float64(is.space.total) >= smallestShare*float64(o.to.Value())
		list.add(succeeded && !grown, "the volume of %s has not grown to %s: df reports %.1f MiB before, %.1f MiB after",
			replica(i), &o.to, show.MiB(was.space.total), show.MiB(is.space.total))
	}
	rolling := o.status.Strategy == api.StrategyRolling && len(o.status.Members) > 0
	list.add(rolling && o.answered == 0, "none of the client's calls were answered during the resize")
	list.add(rolling && o.failed > 0, "%d of the client's %d calls failed during the resize", o.failed, o.answered+o.failed)
	list.add(!retainsOldVolumes(o.status, o.retained), "the retained volumes are not the operation's old volumes: %v", o.retained)
	for _, wrong := range o.leftovers {
		list.add(true, "leftover: %s", wrong)
	}
	return list
}

// problemList is a list of failed checks, in their order.
type problemList []string

func (p *problemList) add(wrong bool, format string, args ...any) {
	if wrong {
		*p = append(*p, fmt.Sprintf(format, args...))
	}
}

func sameSize(text string, size resource.Quantity) bool {
	is, err := bounded.Quantity(text)
	return err == nil && is.Cmp(size) == 0
}

// retainsOldVolumes reports whether exactly the old volumes of the operation are retained.
func retainsOldVolumes(status *api.Resize, kept []foundObject) bool {
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

// rows returns the table of the result.
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
			fmt.Sprintf("%.1f s", d.ofReplica(name).Seconds())})
	}
	return rows
}

func short(checksum string) string { return checksum[:min(12, len(checksum))] }

// String returns the used and the total space.
func (s space) String() string {
	if s.total <= 0 {
		return "?"
	}
	return fmt.Sprintf("%.0f of %.0f MiB (%d%%)", show.MiB(s.used), show.MiB(s.total), s.used*100/s.total)
}

// retainedText returns the number of retained volumes and the end of their retention.
func retainedText(kept []foundObject) string {
	until := ""
	for _, volume := range kept {
		until = max(until, volume.Annotations[api.RetainedUntilAnnotation])
	}
	if len(kept) == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%d old volumes (%s), kept until %s", len(kept), corev1.PersistentVolumeReclaimRetain, until)
}

//go:embed checksum.sh
var checksumScript string

// measurement holds the checksum and the space of one replica's volume.
type measurement struct {
	checksum string
	entries  int64
	space    space
}

// space is the size of a file system as df reports it, in bytes.
type space struct{ total, used int64 }

// measureAll measures the volume of each replica.
func (c *cluster) measureAll(ctx context.Context, namespace string) ([]measurement, error) {
	measures := make([]measurement, replicas)
	for i := range measures {
		pod := replica(i)
		text, err := c.exec(ctx, namespace, pod, checksumScript, mountPath)
		if err != nil {
			return nil, err
		}
		if measures[i].checksum, measures[i].entries, err = readChecksum(text); err != nil {
			return nil, fmt.Errorf("reading the checksum of %s: %w", pod, err)
		}
		if text, err = c.exec(ctx, namespace, pod, "df -Pk "+mountPath); err != nil {
			return nil, err
		}
		if measures[i].space, err = readSpace(text); err != nil {
			return nil, fmt.Errorf("reading the free space of %s: %w", pod, err)
		}
	}
	return measures, nil
}

func replica(i int) string { return fmt.Sprintf("%s-%d", setName, i) }

// readChecksum parses the output of checksum.sh.
func readChecksum(text string) (checksum string, entries int64, err error) {
	fields := strings.Fields(text)
	if len(fields) != 2 || len(fields[0]) != 64 {
		return "", 0, fmt.Errorf("want a SHA-256 and a number, got %q", text)
	}
	entries, err = strconv.ParseInt(fields[1], 10, 64)
	return fields[0], entries, err
}

// readSpace parses the last line of df -Pk.
func readSpace(text string) (space, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	fields := strings.Fields(lines[len(lines)-1])
	if len(fields) < 6 {
		return space{}, fmt.Errorf("want a line of df, got %q", text)
	}
	var s space
	for i, into := range []*int64{&s.total, &s.used} {
		kib, err := strconv.ParseInt(fields[i+1], 10, 64)
		if err != nil {
			return space{}, fmt.Errorf("reading df: %w", err)
		}
		*into = kib << 10
	}
	return s, nil
}
