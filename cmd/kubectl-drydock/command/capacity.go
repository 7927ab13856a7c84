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

// storage reads the capacity that the provisioners publish. If it is unreadable, storage returns an assumption for the plan.
func (s *session) storage(ctx context.Context, provisioners, nodes []string) (forecast.Storage, []string) {
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
