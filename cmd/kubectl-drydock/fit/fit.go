// Package fit finds volumes of StatefulSets that are much larger than their usage. It is pure.
package fit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/grow"
	"drydock.dev/shared/statefulset"
)

// Input is a set with its claims and the usage of their volumes by claim.
type Input struct {
	Set    *appsv1.StatefulSet
	Claims []*corev1.PersistentVolumeClaim
	Usage  map[string]grow.Usage
	Now    time.Time
	// Headroom is the space that must stay free, in percent of the used space.
	Headroom int64
	// Margin is the space that the mover keeps free in a shrunk volume, in percent of the volume.
	Margin int
}

// Row is the result for one template of a set.
type Row struct {
	Namespace string `json:"namespace"`
	Set       string `json:"set"`
	Template  string `json:"template"`
	// Size is the size of the largest claim. Claims is the number of claims, and Total the sum of their sizes in bytes.
	Size   resource.Quantity `json:"size"`
	Claims int               `json:"claims"`
	Total  int64             `json:"totalBytes"`
	// Fullest is the claim with the most used space. Used is that space in bytes.
	Fullest string `json:"fullest,omitempty"`
	Used    int64  `json:"usedBytes,omitempty"`
	// Fits is a smaller size that is large enough. It is nil if it would save too little, or if the usage is unknown. Unknown is the reason
	// why the usage is unknown.
	Fits          *resource.Quantity `json:"fits,omitempty"`
	UnknownReason string             `json:"unknown,omitempty"`
}

// SavedBytes returns how many bytes all claims of the template together would shrink. The new size is that of all claims, so smaller claims
// grow to it.
func (r Row) SavedBytes() int64 {
	if r.Fits == nil {
		return 0
	}
	return r.Total - r.Fits.Value()*int64(r.Claims)
}

// maxWorthwhilePercent is the largest new size of all claims together that is worth a resize, in percent of their present size.
const maxWorthwhilePercent = 80

// Rows returns a row for each template of the set.
func Rows(in Input) []Row {
	var rows []Row
	for i := range in.Set.Spec.VolumeClaimTemplates {
		if row := in.rowOf(in.Set.Spec.VolumeClaimTemplates[i].Name); row.Claims > 0 {
			rows = append(rows, row)
		}
	}
	return rows
}

// rowOf returns the row of the template. It considers all claims of the template, because a resize shrinks all of them.
func (in Input) rowOf(template string) Row {
	row := Row{Namespace: in.Set.Namespace, Set: in.Set.Name, Template: template}
	needed := int64(0)
	var unknown []string
	for _, c := range statefulset.ClaimsOf(in.Set, in.Claims) {
		if c.Template != template {
			continue
		}
		row.Claims++
		size := statefulset.Requested(c.PersistentVolumeClaim)
		if row.Total += size.Value(); size.Cmp(row.Size) > 0 {
			row.Size = size
		}
		u, measured := in.Usage[c.Name]
		capacity := c.Status.Capacity[corev1.ResourceStorage]
		switch why := u.Problem(capacity, in.Now); {
		case statefulset.IsBlock(c.PersistentVolumeClaim):
			unknown = append(unknown, c.Name+" is a raw block volume")
		case !measured:
			unknown = append(unknown, c.Name+" is not in use, so its usage is not measured")
		case why != "":
			unknown = append(unknown, c.Name+": "+why)
		default:
			needed = max(needed, in.bytesNeeded(u, capacity.Value()))
			if inUse := u.Capacity - u.Free; row.Fullest == "" || inUse > row.Used {
				row.Fullest, row.Used = c.Name, inUse
			}
		}
	}
	if slices.Sort(unknown); len(unknown) > 0 {
		row.UnknownReason = strings.Join(unknown, "; ")
		return row
	}
	if fits := roundUp(needed); fits.Value()*int64(row.Claims) <= row.Total/100*maxWorthwhilePercent {
		row.Fits = &fits
	}
	return row
}

// bytesNeeded returns the bytes that a volume needs for its usage and the headroom. It is at least the size that the mover accepts. Used
// inodes count, too, because a smaller file system has fewer inodes.
func (in Input) bytesNeeded(u grow.Usage, capacity int64) int64 {
	overhead := float64(capacity) / float64(u.Capacity)
	used := max(u.Capacity-u.Free, u.Used)
	least := statefulset.LeastSize(used, in.Margin)
	needed := max(float64(used)*float64(100+in.Headroom)/100, float64(least.Value()))
	if u.Inodes > 0 {
		share := float64(u.Inodes-u.InodesFree) / float64(u.Inodes)
		needed = max(needed, share*float64(u.Capacity)*float64(100+in.Headroom)/100)
	}
	return int64(needed * overhead)
}

const mebi, gibi = 1 << 20, 1 << 30

// roundUp rounds a size up to whole MiB, or to whole GiB from 10 GiB on.
func roundUp(bytes int64) resource.Quantity {
	unit := int64(mebi)
	if bytes >= 10*gibi {
		unit = gibi
	}
	return *resource.NewQuantity(max(1, (bytes+unit-1)/unit)*unit, resource.BinarySI)
}

// Request returns the resize request that shrinks the templates of the rows to the sizes that fit. It is empty if no template shrinks. All
// rows must belong to one set.
func Request(rows []Row) string {
	var parts []string
	for _, r := range rows {
		if r.Fits != nil {
			parts = append(parts, fmt.Sprintf("%s=%s", r.Template, r.Fits))
		}
	}
	return strings.Join(parts, ",")
}
