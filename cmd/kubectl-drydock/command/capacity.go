package command

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"drydock.dev/cmd/kubectl-drydock/forecast"
)

// storage reads the capacity that the provisioners publish. Without the rights to read it, the plan says that it is not known.
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
			storage.Nodes[name] = node.Labels // else any node's room counts
		}
	}
	return storage, nil
}

func (s *session) read(ctx context.Context, path string, into any) error {
	body, found, err := s.raw.get(ctx, path)
	if err != nil || !found {
		return err
	}
	return json.Unmarshal(body, into)
}

func unknownRoom(err error) []string {
	return []string{"whether the storage has room is not known, since CSIDrivers and CSIStorageCapacities cannot be listed: " + printable(err.Error())}
}
