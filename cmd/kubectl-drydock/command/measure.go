package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"drydock.dev/cmd/kubectl-drydock/forecast"
	"drydock.dev/shared/api"
	"drydock.dev/shared/grow"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/settings"
	"drydock.dev/shared/text"
)

// measure reads the usage of the claims of the namespace from the kubelets of the nodes. For each kubelet that cannot be read it returns an
// assumption for the plan.
func (s *session) measure(ctx context.Context, nodes []string) (measured map[string]grow.Usage, unread []string) {
	measured = map[string]grow.Usage{}
	for _, node := range nodes {
		body, found, err := s.raw.get(ctx, "/api/v1/nodes/"+url.PathEscape(node)+"/proxy/stats/summary")
		if err == nil && !found {
			err = fmt.Errorf("it does not exist")
		}
		if err == nil {
			err = grow.ReadSummary(bytes.NewReader(body), s.namespace, func(string) bool { return true }, measured)
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
func (s *session) budgets(ctx context.Context) (budgets []policyv1.PodDisruptionBudget, unread []string) {
	var list policyv1.PodDisruptionBudgetList
	body, found, err := s.raw.get(ctx, "/apis/policy/v1/namespaces/"+url.PathEscape(s.namespace)+"/poddisruptionbudgets")
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
func (s *session) readSettings(ctx context.Context, name string, into *api.Settings) (assumed []string, err error) {
	config, why := &corev1.ConfigMap{}, ""
	if name != "" {
		namespace, object, ok := strings.Cut(name, "/")
		if !ok || namespace == "" || object == "" {
			return nil, fmt.Errorf("--settings %q is not NAMESPACE/NAME. The ConfigMap of config/ is drydock/drydock-settings", name)
		}
		found, err := s.client.Get(ctx, plan.ConfigMaps, namespace, object, config)
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
func (s *session) observeSettings(ctx context.Context, name string, into *api.Settings) (assumed []string, err error) {
	if assumed, err = s.readSettings(ctx, name, into); err != nil {
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
