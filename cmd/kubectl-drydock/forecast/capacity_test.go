package forecast

import (
	"slices"
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// room returns a CSIStorageCapacity of the StorageClass for the nodes with the label zone, or for all nodes if zone is empty.
func room(name, class, zone, capacity, largest string) storagev1.CSIStorageCapacity {
	c := storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Name: name}, StorageClassName: class,
		NodeTopology: &metav1.LabelSelector{}}
	if zone != "" {
		c.NodeTopology.MatchLabels = map[string]string{"zone": zone}
	}
	if capacity != "" {
		c.Capacity = ptr.To(resource.MustParse(capacity))
	}
	if largest != "" {
		c.MaximumVolumeSize = ptr.To(resource.MustParse(largest))
	}
	return c
}

// TestPublishedCapacityIsCompared covers volumes that would be created, and volumes that would grow.
func TestPublishedCapacityIsCompared(t *testing.T) {
	const copies, grows = "data=128Mi@fast", "data=128Mi"
	in := func(request, class string, options ...build.Option) Input {
		web := build.Set("web", append([]build.Option{build.Replicas(2), build.Template("data", "64Mi", class)}, options...)...)
		in := given(request, objects{web}, claims(class), pods())
		waits := storagev1.VolumeBindingWaitForFirstConsumer
		for _, c := range in.Cluster.Classes {
			c.Provisioner, c.VolumeBindingMode = "one.example", &waits
		}
		for name := range in.Cluster.Classes {
			in.Cluster.Classes[name].Name = name
		}
		return in
	}
	immediate := func(in Input) Input {
		for _, c := range in.Cluster.Classes {
			c.VolumeBindingMode = ptr.To(storagev1.VolumeBindingImmediate)
		}
		return in
	}
	rooms := func(all ...storagev1.CSIStorageCapacity) []storagev1.CSIStorageCapacity { return all }
	west := map[string]map[string]string{"node-1": {"zone": "west"}}
	copied, grown, held := in(copies, "fixed"), in(grows, roomy), in(grows, roomy, build.Annotation(api.ResizeMethodAnnotation,
		"expand-offline"))
	file := golden.Open(t)
	for _, row := range []struct {
		situation string
		in        Input
		rooms     []storagev1.CSIStorageCapacity
		nodes     map[string]map[string]string
	}{
		{"there is room", copied, rooms(room("a", "fast", "", "1Gi", "")), nil},
		{"no capacity has the StorageClass", copied, rooms(room("a", "fixed", "", "1Gi", "")), nil},
		{"there is too little room", copied, rooms(room("a", "fast", "", "100Mi", "")), nil},
		{"a single volume may not have the size", copied, rooms(room("a", "fast", "", "1Gi", "100Mi")), nil},
		{"the capacity has no figure", copied, rooms(room("a", "fast", "", "", "")), nil},
		{"one of two capacities has room", copied, rooms(room("a", "fast", "", "1Mi", ""), room("b", "fast", "", "1Gi", "")), nil},
		{"there is room, but not for the member's node", copied, rooms(room("a", "fast", "east", "1Gi", "")), west},
		{"there is room for the member's node", copied, rooms(room("a", "fast", "west", "1Gi", "")), west},
		{"the labels of the member's node are unknown", copied, rooms(room("a", "fast", "west", "1Gi", "")), nil},
		{"there is room for each volume, but not for both", copied, rooms(room("a", "fast", "", "200Mi", "")), nil},
		{"volumes are bound immediately, without the scheduler", immediate(in(copies, "fixed")), rooms(room("a", "fast", "", "1Mi", "")), nil},
		{"claims grow, and there is room", grown, rooms(room("a", roomy, "", "128Mi", "")), nil},
		{"claims grow, and there is too little room", grown, rooms(room("a", roomy, "", "10Mi", "")), nil},
		{"claims grow beyond the largest volume", grown, rooms(room("a", roomy, "", "1Gi", "100Mi")), nil},
		{"claims of held members grow, and there is too little room", held, rooms(room("a", roomy, "", "10Mi", "")), nil},
	} {
		forecast := New(row.in)
		forecast.Storage = Storage{Publishes: map[string]bool{"one.example": true}, Capacities: row.rooms, Nodes: row.nodes}
		file.Entry(t, row.situation, aboutStorage(forecast.Document(nil, nil)))
	}
	forecast := New(copied)
	forecast.Storage = Storage{Publishes: map[string]bool{"one.example": false}}
	file.Entry(t, "the driver publishes no capacity", aboutStorage(forecast.Document(nil, nil)))
}

// TestNodesWithoutAttachSlotAreNamed: the members of a full node get no first pass, so the stop is as long as the whole copy.
func TestNodesWithoutAttachSlotAreNamed(t *testing.T) {
	const full = "node node-1 has 25 of at most 25 volumes of one.example attached"
	for name, row := range map[string]struct {
		slots map[string]map[string]Slots
		want  string
	}{
		"no slot is free":             {map[string]map[string]Slots{"node-1": {"one.example": {Limit: 25, Attached: 25}}}, full},
		"one slot is free":            {map[string]map[string]Slots{"node-1": {"one.example": {Limit: 25, Attached: 24}}}, ""},
		"the driver has no limit":     {map[string]map[string]Slots{"node-1": {"two.example": {Limit: 1, Attached: 1}}}, ""},
		"another node has no slot":    {map[string]map[string]Slots{"node-2": {"one.example": {Limit: 25, Attached: 25}}}, ""},
		"the limits are not readable": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := given("data=128Mi@fast", objects{build.Set("web", build.Replicas(1), build.Template("data", "64Mi", "fixed"))}, claims("fixed"),
				pods())
			for _, class := range in.Cluster.Classes {
				class.Provisioner = "one.example"
			}
			forecast := New(in)
			forecast.Storage.Slots = row.slots
			members := forecast.Document(nil, nil).Members
			if len(members) != 2 {
				t.Fatalf("the plan has the members %+v, want two", members)
			}
			for _, m := range members {
				if m.Node != "node-1" || m.NoFirstPass != row.want {
					t.Errorf("the plan has the member %+v, want one on node-1 with noFirstPass %q", m, row.want)
				}
			}
		})
	}
}

// aboutStorage renders the refusals, and the warnings about the room of the storage.
func aboutStorage(d *Document) string {
	d.Warnings = slices.DeleteFunc(d.Warnings, func(w string) bool { return !strings.Contains(w, "storage") })
	d.Suggestions = nil
	return d.rendered()
}
