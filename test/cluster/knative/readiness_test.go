package knative

import (
	"strings"
	"testing"
)

const twoDeployments = `{"items": [
	{"metadata": {"name": "done", "namespace": "knative-eventing", "generation": 2, "labels": {"app.kubernetes.io/version": "1.20.0"}},
	 "spec": {"replicas": 1}, "status": {"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}},
	{"metadata": {"name": "sleeping", "namespace": "knative-eventing", "generation": 1},
	 "spec": {"replicas": 0}, "status": {"observedGeneration": 1}}]}`

func TestDeploymentIsReadyWithPodsOfNewestGeneration(t *testing.T) {
	tests := map[string]struct {
		change func(*Deployment)
		want   bool
	}{
		"all pods are available":                    {func(*Deployment) {}, true},
		"the newest generation is not observed yet": {func(d *Deployment) { d.Metadata.Generation = 3 }, false},
		"an old pod still exists":                   {func(d *Deployment) { d.Status.Replicas = 2 }, false},
		"only the old pod exists":                   {func(d *Deployment) { d.Status.UpdatedReplicas = 0 }, false},
		"the pod is not ready":                      {func(d *Deployment) { d.Status.AvailableReplicas = 0 }, false},
		"replicas default to one":                   {func(d *Deployment) { d.Spec.Replicas = nil }, true},
	}
	for name, test := range tests {
		found, err := ParseDeployments(twoDeployments)
		if err != nil {
			t.Fatal(err)
		}
		test.change(&found[0])
		if got := found[0].Ready(); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestMissingDeploymentIsNotReady(t *testing.T) {
	found, err := ParseDeployments(twoDeployments)
	if err != nil {
		t.Fatal(err)
	}
	wanted := []string{"knative-eventing/done", "knative-eventing/sleeping", "knative-eventing/missing"}
	if got := strings.Join(NotReady(wanted, found), " "); got != "knative-eventing/missing" {
		t.Errorf("got %s", got)
	}
}

func TestEveryWebhookIsCalled(t *testing.T) {
	const broker = `{"kind": "Broker", "metadata": {"annotations": {"eventing.knative.dev/broker.class": "MTChannelBasedBroker"}}}`
	const channel = `{"kind": "InMemoryChannel", "metadata": {"annotations": {"messaging.knative.dev/subscribable": "v1"}}}`
	tests := map[string]struct{ answer, missing string }{
		"all": {
			broker + channel + `{"kind": "Service", "metadata": {"annotations": {"serving.knative.dev/creator": "admin"}}}`, ""},
		"one not called":      {broker + channel + `{"kind": "Service", "metadata": {}}`, "Service"},
		"one missing":         {broker, "defaults"},
		"an invalid response": {"error", "reading"},
	}
	for name, test := range tests {
		err := Defaulted(test.answer)
		if (err == nil) != (test.missing == "") || err != nil && !strings.Contains(err.Error(), test.missing) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for kind := range probed {
		if !strings.Contains(Probe, "kind: "+kind+"\n") {
			t.Errorf("Probe has no %s", kind)
		}
	}
}

func TestSurveyOfKindsAndDeployments(t *testing.T) {
	const eventing = `{"items": [
		{"metadata": {"name": "brokers.eventing.knative.dev"}, "spec": {"versions": [{"name": "v1", "served": true}]}},
		{"metadata": {"name": "triggers.eventing.knative.dev"}, "spec": {"versions": [{"name": "v1", "served": true}]}},
		{"metadata": {"name": "apiserversources.sources.knative.dev"}, "spec": {"versions": [{"name": "v1", "served": true}]}},
		{"metadata": {"name": "pingsources.sources.knative.dev"}, "spec":
			{"versions": [{"name": "v1beta2", "served": true}, {"name": "v1", "served": %SERVED%}]}}]}`
	tests := map[string]struct{ kinds, deployments, found, failure string }{
		"all present": {eventing, twoDeployments, "Knative Eventing 1.20.0: 2 Deployments are ready in knative-eventing", ""},
		"no kinds":    {`{"items": []}`, twoDeployments, "", "does not serve v1 of brokers.eventing.knative.dev, triggers"},
		"an old version": {strings.Replace(eventing, "%SERVED%", "false", 1), twoDeployments, "",
			"does not serve v1 of pingsources.sources.knative.dev. Install"},
		"kinds without pods": {eventing, `{"items": []}`, "", "no Deployments"},
		"a pod is not ready": {eventing, strings.Replace(twoDeployments, `"availableReplicas": 1`, `"availableReplicas": 0`, 1), "",
			"not ready: knative-eventing/done"},
		"only foreign pods": {eventing, strings.ReplaceAll(twoDeployments, "knative-eventing", "other"), "", "no Deployments"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			kinds, err := ParseKinds(strings.Replace(test.kinds, "%SERVED%", "true", 1))
			if err != nil {
				t.Fatal(err)
			}
			deployments, err := ParseDeployments(test.deployments)
			if err != nil {
				t.Fatal(err)
			}
			found, err := Parts[0].Survey(kinds, deployments)
			if found != test.found || (err == nil) != (test.failure == "") || err != nil && !strings.Contains(err.Error(), test.failure) {
				t.Errorf("got %q, %v", found, err)
			}
		})
	}
}
