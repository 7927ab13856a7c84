package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"drydock.dev/test/cluster/config"
	"drydock.dev/test/cluster/image"
)

var (
	//go:embed verify-knative.yaml
	verifyKnativeManifest string
	//go:embed verify-knative-ping.yaml
	verifyPingManifest string
)

// Names in verify-knative.yaml. The page receives no events, so that it is scaled to zero before its check.
const (
	clientPod       = "client"
	receiverService = "receiver"
	pageService     = "page"
)

// zeroDeadline is several times the duration of scaling to zero: a window of 6 s, Knative's grace period of 30 s, and the end of the pod.
const zeroDeadline = 3 * time.Minute

// knativeVerification is one run of the checks, in its own namespace.
type knativeVerification struct {
	kubectl kubectl
	values  map[string]any // for the manifests' templates
}

// verifyKnative checks that Knative on the local node supports Drydock's functions.
func (p places) verifyKnative(ctx context.Context) (err error) {
	c := p.cluster(config.Node)
	if _, err := os.Stat(c.Kubeconfig()); err != nil {
		return fmt.Errorf("the node is not running. Start it and install Knative with `knative`: %w", err)
	}
	namespace := fmt.Sprintf("verify-knative-%d", time.Now().UnixMilli())
	v := knativeVerification{
		kubectl: kubectl{p.kubectl(), c.Kubeconfig(), namespace},
		values: map[string]any{
			"Namespace": namespace, "Image": image.BusyboxName, "Services": []string{receiverService, pageService},
		},
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.kubectl.removeNamespace(context.WithoutCancel(ctx)))
		}
	}()
	return prove(ctx, []claim{
		{"a Broker, a Trigger, an ApiServerSource and Services become ready", v.start},
		{"idle Services scale to zero", v.scaleToZero},
		{"a Service that is scaled to zero answers a request", v.answerFromZero},
		{"an event at the Broker reaches a Service that is scaled to zero", v.eventArrives},
		{"a changed object arrives as an event", v.changeArrives},
		{"a PingSource becomes ready and its ticks arrive", v.ticksArrive},
		{"the namespace can be deleted completely", v.removed},
	})
}

func (v knativeVerification) start(ctx context.Context) error {
	if err := v.kubectl.create(ctx, verifyKnativeManifest, v.values); err != nil {
		return err
	}
	return v.ready(ctx, "broker/default", "trigger/all", "apiserversource/changes", "ksvc/"+receiverService, "ksvc/"+pageService,
		"pod/"+clientPod)
}

func (v knativeVerification) ready(ctx context.Context, objects ...string) error {
	args := append([]string{"wait", "--for=condition=Ready", "--timeout=" + podDeadline.String()}, objects...)
	_, err := v.kubectl.run(ctx, args...)
	return err
}

// scaleToZero waits until all pods are gone. A request during the end of a pod would not be a cold start.
func (v knativeVerification) scaleToZero(ctx context.Context) error {
	_, err := v.kubectl.run(ctx, "wait", "pods", "--selector=serving.knative.dev/service", "--for=delete", "--timeout="+zeroDeadline.String())
	return err
}

func (v knativeVerification) answerFromZero(ctx context.Context) error {
	start := time.Now()
	url := fmt.Sprintf("http://%s.%s.svc.%s/", pageService, v.kubectl.namespace, config.DNSDomain)
	answer, err := v.kubectl.inPod(ctx, clientPod, "wget -q -O - "+url)
	if err != nil {
		return err
	}
	if strings.TrimSpace(answer) != "hello" {
		return fmt.Errorf("the Service answered %q", answer)
	}
	say(fmt.Sprintf("cold start of a Service, with kubectl exec: %s", elapsed(start)))
	return nil
}

// eventArrives posts to the Broker. With the defaults of the in-memory channel the call returns after all subscribers have answered.
func (v knativeVerification) eventArrives(ctx context.Context) error {
	start := time.Now()
	broker, err := v.kubectl.field(ctx, "broker/default", ".status.address.url")
	if err != nil {
		return err
	}
	post := `wget -q -O - --header "Ce-Specversion: 1.0" ` +
		`--header "Ce-Type: verify.posted" --header "Ce-Source: /verify" --header "Ce-Id: 1" ` +
		`--header "Content-Type: application/json" --post-data "{}" ` + broker
	if _, err := v.kubectl.inPod(ctx, clientPod, post); err != nil {
		return err
	}
	say(fmt.Sprintf("cold start behind a Broker, with kubectl exec: %s", elapsed(start)))
	return v.arrives(ctx, "verify.posted 1")
}

func (v knativeVerification) changeArrives(ctx context.Context) error {
	const name = "watched"
	if _, err := v.kubectl.run(ctx, "create", "configmap", name); err != nil {
		return err
	}
	// For the source an object is new when it gets the selected label.
	if _, err := v.kubectl.run(ctx, "label", "configmap", name, "watched=true"); err != nil {
		return err
	}
	return v.arrives(ctx, "dev.knative.apiserver.resource.add ")
}

func (v knativeVerification) ticksArrive(ctx context.Context) error {
	if err := v.kubectl.create(ctx, verifyPingManifest, v.values); err != nil {
		return err
	}
	if err := v.ready(ctx, "pingsource/ticks"); err != nil {
		return err
	}
	return v.arrives(ctx, "dev.knative.sources.ping ")
}

// arrives waits until the receiver has logged a line with this beginning.
func (v knativeVerification) arrives(ctx context.Context, line string) error {
	return retry(ctx, time.Minute, func() error {
		log, err := v.kubectl.run(ctx, "logs", "--selector=serving.knative.dev/service="+receiverService,
			"--container=user-container", "--tail=-1")
		if err != nil {
			return err
		}
		if !strings.Contains("\n"+log, "\n"+line) {
			return fmt.Errorf("the receiver did not get event %q; its log is %q", line, log)
		}
		return nil
	})
}

func (v knativeVerification) removed(ctx context.Context) error {
	_, err := v.kubectl.run(ctx, "delete", "namespace", v.kubectl.namespace, "--timeout=60s")
	return err
}
