package soak

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
)

// Sample is a measurement of a process.
type Sample struct {
	Age        time.Duration
	Goroutines float64
	Heap       float64 // bytes that Go's runtime uses
	Resident   float64 // bytes that the kernel counts
}

const (
	// youngest is the age of the first sample that counts. Before, caches and pools of connections fill.
	youngest = time.Minute
	// fewestSamples is the number of samples that a comparison needs.
	fewestSamples = 9
	// growth is how many times the first third the last third may be.
	growth = 1.5
)

// measure is a property of a sample with the growth that is always allowed. Each event in flight has some ten goroutines, and the load
// of a third may have twenty events more.
type measure struct {
	name  string
	of    func(Sample) float64
	slack float64
}

var measures = []measure{
	{"goroutines", func(s Sample) float64 { return s.Goroutines }, 200},
	{"bytes of Go's memory", func(s Sample) float64 { return s.Heap }, 24 << 20},
	{"bytes of resident memory", func(s Sample) float64 { return s.Resident }, 32 << 20},
}

// Growth compares the first third of a process's life with the last third. It returns a problem for each measure that has grown, or a
// problem if there are too few samples.
func Growth(samples []Sample) []string {
	samples = slices.DeleteFunc(slices.Clone(samples), func(s Sample) bool { return s.Age < youngest })
	if len(samples) < fewestSamples {
		return []string{fmt.Sprintf("only %d samples of the process are older than %s, want %d", len(samples), youngest, fewestSamples)}
	}
	third := len(samples) / 3
	var problems []string
	for _, m := range measures {
		first, last := median(samples[:third], m.of), median(samples[len(samples)-third:], m.of)
		if last > first*growth+m.slack {
			problems = append(problems, fmt.Sprintf("drydock-standalone had %.0f %s in the first third of its life and %.0f in the last third",
				first, m.name, last))
		}
	}
	return problems
}

func median(samples []Sample, of func(Sample) float64) float64 {
	var values []float64
	for _, s := range samples {
		values = append(values, of(s))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// Describe returns the medians of the first third and the last third in one line.
func Describe(samples []Sample) string {
	if len(samples) < 3 {
		return fmt.Sprintf("%d samples", len(samples))
	}
	third, text := len(samples)/3, fmt.Sprintf("%d samples over %s", len(samples), samples[len(samples)-1].Age.Round(time.Second))
	for _, m := range measures {
		text += fmt.Sprintf(", %s %.0f then %.0f", m.name, median(samples[:third], m.of), median(samples[len(samples)-third:], m.of))
	}
	return text
}

// Table returns a line for each sample: its age, the goroutines, and both kinds of memory in MiB.
func Table(samples []Sample) string {
	var b strings.Builder
	for _, s := range samples {
		fmt.Fprintf(&b, "%6.0f s %6.0f goroutines %6.1f MiB in Go %6.1f MiB resident\n",
			s.Age.Seconds(), s.Goroutines, s.Heap/(1<<20), s.Resident/(1<<20))
	}
	return b.String()
}

// A kubelet that is restarted after it has unmounted a volume from its last pod, and before it has unstaged the volume, forgets it: a new
// kubelet looks for volumes only in the folders of pods (kubernetes issues 85476 and 121937). Such a volume stays mounted on the node,
// and the provisioner's attempts to delete it fail. An administrator unmounts it.

// Mount is a mounted device of the node.
type Mount struct{ Device, Folder string }

// StagedWithoutPods returns the staged volumes that no pod uses. mounts is the content of /proc/self/mountinfo.
func StagedWithoutPods(mounts string) []Mount {
	var all []Mount
	for line := range strings.Lines(mounts) {
		// The fields are: id, parent, major:minor, root, mount point, options and tags, "-", type, source, options.
		fields := strings.Fields(line)
		if end := slices.Index(fields, "-"); end > 4 && len(fields) > end+2 {
			all = append(all, Mount{Device: fields[end+2], Folder: fields[4]})
		}
	}
	uses := map[string]int{}
	for _, m := range all {
		uses[m.Device]++
	}
	return slices.DeleteFunc(all, func(m Mount) bool { return uses[m.Device] > 1 || !isStaged(m.Folder) })
}

// isStaged reports whether the kubelet stages a CSI volume in the folder (kubernetes pkg/volume/csi/csi_attacher.go).
func isStaged(folder string) bool {
	return path.Base(folder) == "globalmount" && strings.Contains(folder, "/plugins/kubernetes.io/csi/")
}

// WaitsForDeletion reports whether only the provisioner has still to delete the volume: Drydock has no use for it any more.
func WaitsForDeletion(v *corev1.PersistentVolume) bool {
	for key := range v.Annotations {
		if strings.HasPrefix(key, api.Prefix) {
			return false
		}
	}
	return v.Status.Phase == corev1.VolumeReleased && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete &&
		v.Labels[api.OperationLabel] == ""
}
