package command

import (
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
	"drydock.dev/shared/kube"
	"drydock.dev/shared/settings"
)

// measure reads how much is in use of the claims of the session's namespace, as the nodes' kubelets say, and tells which of them
// could not be asked.
func (s *session) measure(ctx context.Context, nodes []string) (measured map[string]grow.Usage, unread []string) {
	measured = map[string]grow.Usage{}
	for _, node := range nodes {
		body, found, err := s.raw.get(ctx, "/api/v1/nodes/"+url.PathEscape(node)+"/proxy/stats/summary")
		if err == nil && !found {
			err = fmt.Errorf("there is none")
		}
		if err == nil {
			err = grow.ReadSummary(body, s.namespace, measured)
		}
		if err != nil {
			unread = append(unread, fmt.Sprintf("how full the volumes on node %s are is not known, since its kubelet's summary cannot be read: %s",
				node, printable(err.Error())))
		}
	}
	return measured, unread
}

// used returns how much the kubelets have measured on each claim.
func used(measured map[string]grow.Usage) map[string]forecast.Usage {
	all := map[string]forecast.Usage{}
	for claim, u := range measured {
		if u.Used > 0 {
			all[claim] = forecast.Usage{Used: u.Used, Capacity: u.Capacity}
		}
	}
	return all
}

// budgets lists the PodDisruptionBudgets of the session's namespace, and tells if they cannot be read.
func (s *session) budgets(ctx context.Context) (budgets []policyv1.PodDisruptionBudget, unread []string) {
	var list policyv1.PodDisruptionBudgetList
	body, found, err := s.raw.get(ctx, "/apis/policy/v1/namespaces/"+url.PathEscape(s.namespace)+"/poddisruptionbudgets")
	if err == nil && found {
		err = json.Unmarshal(body, &list)
	}
	if err != nil {
		return nil, []string{"which PodDisruptionBudgets count the set's pods is not known, since they cannot be listed: " +
			printable(err.Error())}
	}
	return list.Items, nil
}

// observeSettings reads the functions' settings. Where they cannot be read they are taken to be the defaults, and that is said.
func (s *session) observeSettings(ctx context.Context, name string, into *api.Settings) (assumed []string, err error) {
	config, why := &corev1.ConfigMap{}, ""
	if name != "" {
		namespace, object, ok := strings.Cut(name, "/")
		if !ok || namespace == "" || object == "" {
			return nil, fmt.Errorf("--settings %q is not NAMESPACE/NAME; the ConfigMap of config/ is drydock/drydock-settings", name)
		}
		found, err := s.client.Get(ctx, kube.ConfigMaps, namespace, object, config)
		switch {
		case err != nil:
			why = printable(err.Error())
		case !found:
			why = "it does not exist"
		}
	}
	if why != "" {
		assumed = append(assumed, fmt.Sprintf("the functions' settings are the defaults, since ConfigMap %s cannot be read: %s; name another "+
			"with --settings", name, why))
	}
	if err := settings.Fill(into, config.Data); err != nil {
		return assumed, err
	}
	if into.Image == "" {
		into.Image = unknownImage
		assumed = append(assumed, fmt.Sprintf("the movers' image is not known, since ConfigMap %s does not set DRYDOCK_IMAGE; their pod is "+
			"tried with image %s", name, unknownImage))
	}
	return assumed, nil
}

// unknownImage stands for an image that is not known, so that the rest of a mover's pod can be tried.
const unknownImage = "drydock.invalid/drydock"
