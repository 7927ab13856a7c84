// Package fit finds the volumes of StatefulSets that are much larger than their usage. It is pure.
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

// Input is a set with its claims and their usage.
type Input struct {
	Set    *appsv1.StatefulSet
	Claims []*corev1.PersistentVolumeClaim
	Usage  map[string]grow.Usage
	Now    time.Time
	// Headroom is how much has to stay free, in percent of what is in use.
	Headroom int64
}

// Row is a template of a set.
type Row struct {
	Namespace string `json:"namespace"`
	Set       string `json:"set"`
	Template  string `json:"template"`
	// Size is that of the largest claim, Claims how many there are.
	Size   resource.Quantity `json:"size"`
	Claims int               `json:"claims"`
	// Fullest is the claim with the most in use, and Used how many bytes that are.
	Fullest string `json:"fullest,omitempty"`
	Used    int64  `json:"usedBytes,omitempty"`
	// Fits is a size that is large enough; nil if it saves too little, or if it is unknown. Unknown is the reason then.
	Fits    *resource.Quantity `json:"fits,omitempty"`
	Unknown string             `json:"unknown,omitempty"`
}

// Saves returns how many bytes smaller all claims of the template would be together.
func (r Row) Saves() int64 {
	if r.Fits == nil {
		return 0
	}
	return (r.Size.Value() - r.Fits.Value()) * int64(r.Claims)
}

// worth is the largest smaller size that is worth a resize, in percent of the present size.
const worth = 80

// Rows returns a row for each template of the set.
func Rows(in Input) []Row {
	var rows []Row
	for i := range in.Set.Spec.VolumeClaimTemplates {
		if row := in.row(in.Set.Spec.VolumeClaimTemplates[i].Name); row.Claims > 0 {
			rows = append(rows, row)
		}
	}
	return rows
}

// row judges a template by all of its claims: every one of them would shrink.
func (in Input) row(template string) Row {
	row := Row{Namespace: in.Set.Namespace, Set: in.Set.Name, Template: template}
	needs := int64(0)
	var unknown []string
	for _, c := range statefulset.ClaimsOf(in.Set, in.Claims) {
		if c.Template != template {
			continue
		}
		row.Claims++
		if size := statefulset.Requested(c.PersistentVolumeClaim); size.Cmp(row.Size) > 0 {
			row.Size = size
		}
		u, measured := in.Usage[c.Name]
		has := c.Status.Capacity[corev1.ResourceStorage]
		switch why := u.Problem(has, in.Now); {
		case statefulset.IsBlock(c.PersistentVolumeClaim):
			unknown = append(unknown, c.Name+" is a raw block volume")
		case !measured:
			unknown = append(unknown, c.Name+" is not in use, so nothing measures it")
		case why != "":
			unknown = append(unknown, c.Name+": "+why)
		default:
			needs = max(needs, in.needs(u, has.Value()))
			if inUse := u.Capacity - u.Free; row.Fullest == "" || inUse > row.Used {
				row.Fullest, row.Used = c.Name, inUse
			}
		}
	}
	if slices.Sort(unknown); len(unknown) > 0 {
		row.Unknown = strings.Join(unknown, "; ")
		return row
	}
	if fits := rounded(needs); fits.Value() <= row.Size.Value()/100*worth {
		row.Fits = &fits
	}
	return row
}

// needs returns how many bytes a volume needs for its usage with the headroom. A smaller file system has fewer inodes, so they count, too.
func (in Input) needs(u grow.Usage, has int64) int64 {
	overhead := float64(has) / float64(u.Capacity)
	most := max(float64(u.Capacity-u.Free), float64(u.Used)) * float64(100+in.Headroom) / 100
	if u.Inodes > 0 {
		share := float64(u.Inodes-u.InodesFree) / float64(u.Inodes)
		most = max(most, share*float64(u.Capacity)*float64(100+in.Headroom)/100)
	}
	return int64(most * overhead)
}

const mebi, gibi = 1 << 20, 1 << 30

// rounded rounds up to whole MiB, or to whole GiB from 10 GiB on.
func rounded(bytes int64) resource.Quantity {
	unit := int64(mebi)
	if bytes >= 10*gibi {
		unit = gibi
	}
	return *resource.NewQuantity(max(1, (bytes+unit-1)/unit)*unit, resource.BinarySI)
}

// Request returns the request that shrinks every template of the rows, which are of one set, to what fits; empty if none shrinks.
func Request(rows []Row) string {
	var parts []string
	for _, r := range rows {
		if r.Fits != nil {
			parts = append(parts, fmt.Sprintf("%s=%s", r.Template, r.Fits))
		}
	}
	return strings.Join(parts, ",")
}
