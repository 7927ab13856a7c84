package forecast

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// Storage is the capacity that drivers publish. What could not be read is empty.
type Storage struct {
	// Publishes are the drivers that publish their capacity: their CSIDriver has storageCapacity.
	Publishes  map[string]bool
	Capacities []storagev1.CSIStorageCapacity
	// Nodes are the labels of nodes, by name.
	Nodes map[string]map[string]string
	// Slots are the attach slots of nodes, by node and driver. A driver without a limit has none.
	Slots map[string]map[string]Slots
}

// Slots are how many volumes of a driver a node may have attached (CSINode, allocatable.count), and how many it has (VolumeAttachments).
type Slots struct{ Limit, Attached int }

// noAttachSlot says why the member's node cannot attach the new volumes beside the present ones; empty if it can, or if that is unknown.
func (f *Forecast) noAttachSlot(m *api.Member) string {
	pod := f.in.MemberPod(m.Ordinal)
	if pod == nil {
		return ""
	}
	added := map[string]int{} // volumes by driver
	for _, c := range f.claims(nil) {
		class := f.in.Cluster.Classes[cmp.Or(c.NewClass, c.Class)]
		if _, ordinal, _ := statefulset.ParseClaimName(f.in.Set, c.Name); class != nil && c.Method == api.MethodCopy && ordinal == m.Ordinal {
			added[class.Provisioner]++
		}
	}
	for _, driver := range slices.Sorted(maps.Keys(added)) {
		slots, limited := f.Storage.Slots[pod.Spec.NodeName][driver]
		if limited && slots.Attached+added[driver] > slots.Limit {
			return fmt.Sprintf("node %s has %d of at most %d volumes of %s attached", pod.Spec.NodeName, slots.Attached, slots.Limit, driver)
		}
	}
	return ""
}

// compareCapacity compares each volume that would be created or would grow with the capacity that its driver publishes for the member's
// node. The scheduler places no mover on a node without capacity (kubernetes pkg/scheduler/framework/plugins/volumebinding). For growth
// the capacity is only a hint: some storage is thinly provisioned, and some counts existing volumes.
func (f *Forecast) compareCapacity(d *Document) {
	storage := f.Storage
	needed := map[string]*resource.Quantity{} // by the name of the CSIStorageCapacity
	for _, c := range d.Claims {
		class := f.in.Cluster.Classes[cmp.Or(c.NewClass, c.Class)]
		if class == nil || !storage.Publishes[class.Provisioner] {
			continue
		}
		node := ""
		if len(c.Users) > 0 {
			node = c.Users[0].Node
		}
		most := storage.most(class.Name, node)
		needs := c.needs(most)
		if most != nil && needs.Cmp(limitOf(most)) <= 0 {
			sum := needed[most.Name]
			if sum == nil {
				sum = &resource.Quantity{}
				needed[most.Name] = sum
			}
			sum.Add(needs)
			continue
		}
		d.addMissingCapacity(c, class, node, most)
	}
	for _, most := range storage.Capacities {
		if sum := needed[most.Name]; sum != nil && most.Capacity != nil && sum.Cmp(*most.Capacity) > 0 {
			d.Warnings = append(d.Warnings, fmt.Sprintf("the volumes of StorageClass %s need %s together, and the storage reports %s "+
				"(CSIStorageCapacity %s)", most.StorageClassName, sum, most.Capacity, most.Name))
		}
	}
}

// needs returns the capacity that the claim would take: the size of a new volume, or the growth of the present one.
func (c *Claim) needs(most *storagev1.CSIStorageCapacity) resource.Quantity {
	size := c.To.DeepCopy()
	whole := most != nil && most.MaximumVolumeSize != nil && size.Cmp(*most.MaximumVolumeSize) > 0
	if c.Method != api.MethodCopy && !whole {
		size.Sub(c.From)
	}
	return size
}

// addMissingCapacity adds a refusal or a warning, because no CSIStorageCapacity has room for the claim.
func (d *Document) addMissingCapacity(c Claim, class *storagev1.StorageClass, node string, most *storagev1.CSIStorageCapacity) {
	cause := "no CSIStorageCapacity covers it"
	if most != nil {
		limit := limitOf(most)
		cause = fmt.Sprintf("it reports at most %s (CSIStorageCapacity %s)", &limit, most.Name)
	}
	if node != "" {
		node = " on node " + node
	}
	waits := class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	switch {
	case c.Method == api.MethodCopy && waits:
		d.Refused = append(d.Refused, resize.Problem{Reason: api.NoCapacity, Message: fmt.Sprintf("the storage of StorageClass %s has no "+
			"room%s for "+
			"the new volume of claim %s (%s): %s. No node could run its mover: make room, or request a smaller size", class.Name, node, c.Name,
			&c.To, cause)})
	case c.Method == api.MethodCopy:
		d.Warnings = append(d.Warnings, fmt.Sprintf("the storage of StorageClass %s may have no room for the new volume of claim %s (%s): %s",
			class.Name, c.Name, &c.To, cause))
	case c.To.Cmp(c.From) > 0:
		d.Warnings = append(d.Warnings, fmt.Sprintf("the storage of StorageClass %s may have no room%s for claim %s to grow to %s: %s",
			class.Name, node, c.Name, &c.To, cause))
	}
}

// most returns the CSIStorageCapacity of the class with the most room that the node can reach. If the labels of the node are unknown, it
// returns the one with the most room for any node. It returns nil if there is none.
func (s Storage) most(class, node string) *storagev1.CSIStorageCapacity {
	set, known := s.Nodes[node]
	var most *storagev1.CSIStorageCapacity
	for i := range s.Capacities {
		c := &s.Capacities[i]
		if c.StorageClassName != class || known && !reaches(c, set) {
			continue
		}
		if limit := limitOf(c); most == nil || limit.Cmp(limitOf(most)) > 0 {
			most = c
		}
	}
	return most
}

// reaches reports whether the node with the labels can use the capacity. No node can use a capacity without a topology.
func reaches(c *storagev1.CSIStorageCapacity, node labels.Set) bool {
	if c.NodeTopology == nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(c.NodeTopology)
	return err == nil && selector.Matches(node)
}

// limitOf returns the size of the largest volume that the scheduler has room for; zero if the driver publishes no figure
// (kubernetes pkg/scheduler/framework/plugins/volumebinding, capacitySufficient).
func limitOf(c *storagev1.CSIStorageCapacity) resource.Quantity {
	switch {
	case c.MaximumVolumeSize != nil:
		return *c.MaximumVolumeSize
	case c.Capacity != nil:
		return *c.Capacity
	}
	return resource.Quantity{}
}

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
