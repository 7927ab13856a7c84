package forecast

import (
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// room is a CSIStorageCapacity of a class for the nodes with the label zone; of all nodes if that is empty.
func room(name, class, zone, capacity, largest string) storagev1.CSIStorageCapacity {
	c := storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Name: name}, StorageClassName: class, NodeTopology: &metav1.LabelSelector{}}
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

// TestCapacities: what the plan says of the room that storage publishes.
func TestCapacities(t *testing.T) {
	const copies, grows = "data=128Mi@fast", "data=128Mi"
	in := func(request, class string, options ...build.Option) Input {
		in := given(request, objects{build.Set("web", append([]build.Option{build.Replicas(2), build.Template("data", "64Mi", class)}, options...)...)},
			claims(class), pods())
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
	for name, row := range map[string]struct {
		in       Input
		rooms    []storagev1.CSIStorageCapacity
		silent   bool // the driver publishes nothing
		nodes    map[string]map[string]string
		refused  string // a part of the only refusal
		warnings string // a part of the only warning about room
	}{
		"there is room":                         {in: in(copies, "fixed"), rooms: []storagev1.CSIStorageCapacity{room("a", "fast", "", "1Gi", "")}},
		"the driver publishes nothing":          {in: in(copies, "fixed"), silent: true},
		"no capacity is of the class":           {in: in(copies, "fixed"), rooms: []storagev1.CSIStorageCapacity{room("a", "fixed", "", "1Gi", "")}, refused: "no CSIStorageCapacity reports any there"},
		"there is too little":                   {in: in(copies, "fixed"), rooms: []storagev1.CSIStorageCapacity{room("a", "fast", "", "100Mi", "")}, refused: "it reports at most 100Mi (CSIStorageCapacity a)"},
		"a volume may not be that large":        {in: in(copies, "fixed"), rooms: []storagev1.CSIStorageCapacity{room("a", "fast", "", "1Gi", "100Mi")}, refused: "at most 100Mi"},
		"the storage does not say how much":     {in: in(copies, "fixed"), rooms: []storagev1.CSIStorageCapacity{room("a", "fast", "", "", "")}, refused: "at most 0"},
		"one of two has room":                   {in: in(copies, "fixed"), rooms: []storagev1.CSIStorageCapacity{room("a", "fast", "", "1Mi", ""), room("b", "fast", "", "1Gi", "")}},
		"there is room, but not on that node":   {in: in(copies, "fixed"), rooms: []storagev1.CSIStorageCapacity{room("a", "fast", "east", "1Gi", "")}, nodes: map[string]map[string]string{"node-1": {"zone": "west"}}, refused: "no room on node node-1"},
		"there is room on that node":            {in: in(copies, "fixed"), rooms: []storagev1.CSIStorageCapacity{room("a", "fast", "west", "1Gi", "")}, nodes: map[string]map[string]string{"node-1": {"zone": "west"}}},
		"the node is not known":                 {in: in(copies, "fixed"), rooms: []storagev1.CSIStorageCapacity{room("a", "fast", "west", "1Gi", "")}},
		"room for each, and not for both":       {in: in(copies, "fixed"), rooms: []storagev1.CSIStorageCapacity{room("a", "fast", "", "200Mi", "")}, warnings: "need 256Mi together"},
		"the scheduler does not ask":            {in: immediate(in(copies, "fixed")), rooms: []storagev1.CSIStorageCapacity{room("a", "fast", "", "1Mi", "")}, warnings: "may have no room for the new volume"},
		"claims grow, and there is room":        {in: in(grows, roomy), rooms: []storagev1.CSIStorageCapacity{room("a", roomy, "", "128Mi", "")}},
		"claims grow, and there may be none":    {in: in(grows, roomy), rooms: []storagev1.CSIStorageCapacity{room("a", roomy, "", "10Mi", "")}, warnings: "to grow to 128Mi: it reports at most 10Mi"},
		"claims grow beyond the largest volume": {in: in(grows, roomy), rooms: []storagev1.CSIStorageCapacity{room("a", roomy, "", "1Gi", "100Mi")}, warnings: "to grow to 128Mi: it reports at most 100Mi"},
		"held members grow":                     {in: in(grows, roomy, build.Annotation(api.ResizeMethodAnnotation, "expand-offline")), rooms: []storagev1.CSIStorageCapacity{room("a", roomy, "", "10Mi", "")}, warnings: "to grow to 128Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			look := Look(row.in)
			look.Storage = Storage{Publishes: map[string]bool{"one.example": !row.silent}, Capacities: row.rooms, Nodes: row.nodes}
			d := look.Document(nil, nil)
			var refused, warnings []string
			for _, p := range d.Refused {
				refused = append(refused, string(p.Reason)+": "+p.Message)
			}
			for _, w := range d.Warnings {
				if strings.Contains(w, "storage") {
					warnings = append(warnings, w)
				}
			}
			for _, is := range []struct {
				what, want string
				got        []string
			}{{"refused", row.refused, refused}, {"warned", row.warnings, warnings}} {
				text := strings.Join(is.got, "\n")
				if (is.want == "") != (text == "") || !strings.Contains(text, is.want) {
					t.Errorf("%s: %q, want %q", is.what, text, is.want)
				}
			}
		})
	}
}
