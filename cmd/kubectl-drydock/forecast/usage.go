package forecast

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// Usage is a kubelet's measurement of the file system of a claim, in bytes.
type Usage struct {
	Used, Capacity int64
}

// isOfClaim reports whether the usage is that of the claim alone. For a volume that is a directory, the kubelet measures the whole file
// system that contains it.
func (u Usage) isOfClaim(capacity int64) bool { return u.Used <= capacity && u.Capacity <= 2*capacity }

// compareUsage compares the usage of each claim that shrinks with its new size, as the mover does before it writes.
func (f *Forecast) compareUsage(d *Document) {
	for _, c := range d.Claims {
		if c.Used == nil || c.To.Value() >= c.Capacity {
			continue
		}
		used, least := text.Bytes(*c.Used), statefulset.LeastSize(*c.Used, f.in.Settings.ShrinkMargin)
		switch {
		case *c.Used > c.To.Value():
			d.Refused = append(d.Refused, resize.Problem{Reason: api.CopyFailed, Message: fmt.Sprintf(
				"claim %s uses %s, which does not fit into %s: the first pass would fail. Request more than %s, or remove data",
				c.Name, used, &c.To, least)})
		case least.Cmp(c.To) > 0:
			d.Warnings = append(d.Warnings, fmt.Sprintf("claim %s uses %s, and %d%% of %s must stay free: the first pass will probably fail "+
				"(NoSpace). No member is stopped then. Request more than %s", c.Name, used, f.in.Settings.ShrinkMargin, &c.To, least))
		}
	}
}

// capacity returns the size of the volume in bytes, and at least the given size.
func (f *Forecast) capacity(size resource.Quantity, name string) int64 {
	if volume := f.in.Volume(name); volume != nil {
		if capacity := volume.Spec.Capacity[corev1.ResourceStorage]; capacity.Cmp(size) > 0 {
			size = capacity
		}
	}
	return size.Value()
}

// total adds up the bytes to copy.
func total(claims []Claim) Copy {
	var sum Copy
	for _, c := range claims {
		if c.Method != api.MethodCopy {
			continue
		}
		sum.Claims++
		if c.Used != nil {
			sum.Measured += *c.Used
		} else {
			sum.Unmeasured += c.Capacity
		}
	}
	return sum
}
