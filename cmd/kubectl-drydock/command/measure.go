package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"

	"drydock.dev/cmd/kubectl-drydock/forecast"
	"drydock.dev/shared/api"
	"drydock.dev/shared/grow"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/settings"
	"drydock.dev/shared/text"
)

// measuring reads what a plan depends on besides the set.
type measuring struct{ *session }

func (s *session) measuring() measuring { return measuring{s} }

// measure reads the usage of the claims of the namespace from the kubelets of the nodes. For each kubelet that cannot be read it returns an
// assumption for the plan.
func (m measuring) measure(ctx context.Context, nodes []string) (measured map[string]grow.Usage, unread []string) {
	measured = map[string]grow.Usage{}
	for _, node := range nodes {
		body, found, err := m.raw.get(ctx, "/api/v1/nodes/"+url.PathEscape(node)+"/proxy/stats/summary")
		if err == nil && !found {
			err = fmt.Errorf("it does not exist")
		}
		if err == nil {
			err = grow.ReadSummary(bytes.NewReader(body), m.namespace, func(string) bool { return true }, measured)
		}
		if err != nil {
			unread = append(unread, fmt.Sprintf("the usage of the volumes on node %s is unknown, because its kubelet's summary cannot be read: %s",
				node, text.Printable(err.Error())))
		}
	}
	return measured, unread
}

// used returns the measured usage of each claim.
func used(measured map[string]grow.Usage) map[string]forecast.Usage {
	all := map[string]forecast.Usage{}
	for claim, u := range measured {
		if u.Used > 0 {
			all[claim] = forecast.Usage{Used: u.Used, Capacity: u.Capacity}
		}
	}
	return all
}

// budgets lists the PodDisruptionBudgets of the namespace. If they cannot be read, it returns an assumption for the plan.
func (m measuring) budgets(ctx context.Context) (budgets []policyv1.PodDisruptionBudget, unread []string) {
	var list policyv1.PodDisruptionBudgetList
	body, found, err := m.raw.get(ctx, "/apis/policy/v1/namespaces/"+url.PathEscape(m.namespace)+"/poddisruptionbudgets")
	if err == nil && found {
		err = json.Unmarshal(body, &list)
	}
	if err != nil {
		return nil, []string{"the PodDisruptionBudgets of the set's pods are unknown, because they cannot be listed: " +
			text.Printable(err.Error())}
	}
	return list.Items, nil
}

// readSettings reads the functions' settings. If it cannot read them, it assumes the defaults and returns this assumption.
func (m measuring) readSettings(ctx context.Context, name string, into *api.Settings) (assumed []string, err error) {
	config, why := &corev1.ConfigMap{}, ""
	if name != "" {
		namespace, object, ok := strings.Cut(name, "/")
		if !ok || namespace == "" || object == "" {
			return nil, fmt.Errorf("--settings %q is not NAMESPACE/NAME. The ConfigMap of config/ is drydock/drydock-settings", name)
		}
		found, err := m.client.Get(ctx, plan.ConfigMaps, namespace, object, config)
		switch {
		case err != nil:
			why = text.Printable(err.Error())
		case !found:
			why = "it does not exist"
		}
	}
	if why != "" {
		assumed = append(assumed, fmt.Sprintf("the functions are assumed to have the default settings, because ConfigMap %s cannot be read: %s. "+
			"Name another with --settings", name, why))
	}
	return assumed, settings.Fill(into, config.Data)
}

// observeSettings is readSettings, and also assumes an image if the settings have none.
func (m measuring) observeSettings(ctx context.Context, name string, into *api.Settings) (assumed []string, err error) {
	if assumed, err = m.readSettings(ctx, name, into); err != nil {
		return assumed, err
	}
	if into.Image == "" {
		into.Image = unknownImage
		assumed = append(assumed, fmt.Sprintf("the movers' image is unknown, because ConfigMap %s does not set DRYDOCK_IMAGE. The dry run of "+
			"their pods uses image %s", name, unknownImage))
	}
	return assumed, nil
}

// unknownImage replaces an unknown image, so that the API server can try the rest of a mover's pod.
const unknownImage = "drydock.invalid/drydock"

// storage reads the capacity that the provisioners publish, and the attach slots of the nodes. For what is unreadable, storage returns
// assumptions for the plan.
func (m measuring) storage(ctx context.Context, provisioners, nodes []string) (forecast.Storage, []string) {
	storage, unknown := m.capacity(ctx, provisioners, nodes)
	slots, err := m.slots(ctx, nodes)
	if err != nil {
		unknown = append(unknown, "each node can attach the new volumes, because CSINodes and VolumeAttachments cannot be read: "+
			text.Printable(err.Error()))
	}
	storage.Slots = slots
	return storage, unknown
}

// slots reads the attach slots of the nodes. Nodes and drivers without a limit are left out.
func (m measuring) slots(ctx context.Context, nodes []string) (map[string]map[string]forecast.Slots, error) {
	limited := map[string]map[string]forecast.Slots{}
	for _, name := range nodes {
		var node storagev1.CSINode
		if err := m.read(ctx, "/apis/storage.k8s.io/v1/csinodes/"+url.PathEscape(name), &node); err != nil {
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
	if err := m.read(ctx, "/apis/storage.k8s.io/v1/volumeattachments", &attachments); err != nil {
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
func (m measuring) capacity(ctx context.Context, provisioners, nodes []string) (forecast.Storage, []string) {
	storage := forecast.Storage{Publishes: map[string]bool{}, Nodes: map[string]map[string]string{}}
	var drivers storagev1.CSIDriverList
	if err := m.read(ctx, "/apis/storage.k8s.io/v1/csidrivers", &drivers); err != nil {
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
	if err := m.read(ctx, "/apis/storage.k8s.io/v1/csistoragecapacities", &capacities); err != nil {
		storage.Publishes = nil
		return storage, unknownRoom(err)
	}
	storage.Capacities = capacities.Items
	for _, name := range nodes {
		var node corev1.Node
		if err := m.read(ctx, "/api/v1/nodes/"+url.PathEscape(name), &node); err == nil && node.Name == name {
			storage.Nodes[name] = node.Labels // without them, the room of any node counts
		}
	}
	return storage, nil
}

// read decodes the object at the path. An object that does not exist leaves into unchanged.
func (m measuring) read(ctx context.Context, path string, into any) error {
	body, found, err := m.raw.get(ctx, path)
	if err != nil || !found {
		return err
	}
	return json.Unmarshal(body, into)
}

func unknownRoom(err error) []string {
	return []string{"the room of the storage is unknown, because CSIDrivers and CSIStorageCapacities cannot be listed: " +
		text.Printable(err.Error())}
}
