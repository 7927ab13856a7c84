package command

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"drydock.dev/cmd/kubectl-drydock/forecast"
	"drydock.dev/shared/text"
)

// storage reads the capacity that the provisioners publish, and the attach slots of the nodes. For what is unreadable, storage returns
// assumptions for the plan.
func (s *session) storage(ctx context.Context, provisioners, nodes []string) (forecast.Storage, []string) {
	storage, unknown := s.capacity(ctx, provisioners, nodes)
	slots, err := s.slots(ctx, nodes)
	if err != nil {
		unknown = append(unknown, "each node can attach the new volumes, because CSINodes and VolumeAttachments cannot be read: "+
			text.Printable(err.Error()))
	}
	storage.Slots = slots
	return storage, unknown
}

// slots reads the attach slots of the nodes. Nodes and drivers without a limit are left out.
func (s *session) slots(ctx context.Context, nodes []string) (map[string]map[string]forecast.Slots, error) {
	limited := map[string]map[string]forecast.Slots{}
	for _, name := range nodes {
		var node storagev1.CSINode
		if err := s.read(ctx, "/apis/storage.k8s.io/v1/csinodes/"+url.PathEscape(name), &node); err != nil {
			return nil, err
		}
		for _, driver := range node.Spec.Drivers {
			if driver.Allocatable == nil || driver.Allocatable.Count == nil {
				continue
			}
			if limited[name] == nil {
				limited[name] = map[string]forecast.Slots{}
			}
			limited[name][driver.Name] = forecast.Slots{Limit: int(*driver.Allocatable.Count)}
		}
	}
	if len(limited) == 0 {
		return nil, nil
	}
	var attachments storagev1.VolumeAttachmentList
	if err := s.read(ctx, "/apis/storage.k8s.io/v1/volumeattachments", &attachments); err != nil {
		return nil, err
	}
	for i := range attachments.Items {
		of := &attachments.Items[i].Spec
		if slots, ok := limited[of.NodeName][of.Attacher]; ok {
			slots.Attached++
			limited[of.NodeName][of.Attacher] = slots
		}
	}
	return limited, nil
}

// capacity reads the capacity that the provisioners publish. If it is unreadable, capacity returns an assumption for the plan.
func (s *session) capacity(ctx context.Context, provisioners, nodes []string) (forecast.Storage, []string) {
	storage := forecast.Storage{Publishes: map[string]bool{}, Nodes: map[string]map[string]string{}}
	var drivers storagev1.CSIDriverList
	if err := s.read(ctx, "/apis/storage.k8s.io/v1/csidrivers", &drivers); err != nil {
		return storage, unknownRoom(err)
	}
	for i := range drivers.Items {
		driver := &drivers.Items[i]
		if publishes := driver.Spec.StorageCapacity; publishes != nil && *publishes && slices.Contains(provisioners, driver.Name) {
			storage.Publishes[driver.Name] = true
		}
	}
	if len(storage.Publishes) == 0 {
		return storage, nil
	}
	var capacities storagev1.CSIStorageCapacityList
	if err := s.read(ctx, "/apis/storage.k8s.io/v1/csistoragecapacities", &capacities); err != nil {
		storage.Publishes = nil
		return storage, unknownRoom(err)
	}
	storage.Capacities = capacities.Items
	for _, name := range nodes {
		var node corev1.Node
		if err := s.read(ctx, "/api/v1/nodes/"+url.PathEscape(name), &node); err == nil && node.Name == name {
			storage.Nodes[name] = node.Labels // without them, the room of any node counts
		}
	}
	return storage, nil
}

// read decodes the object at the path. An object that does not exist leaves into unchanged.
func (s *session) read(ctx context.Context, path string, into any) error {
	body, found, err := s.raw.get(ctx, path)
	if err != nil || !found {
		return err
	}
	return json.Unmarshal(body, into)
}

func unknownRoom(err error) []string {
	return []string{"the room of the storage is unknown, because CSIDrivers and CSIStorageCapacities cannot be listed: " +
		text.Printable(err.Error())}
}
