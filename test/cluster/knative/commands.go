// Package knative says what an installation of Knative consists of: its programs, its objects, and in what they differ
// from Knative's own manifests. It renders and judges; it builds and applies nothing.
package knative

import (
	"fmt"
	"regexp"
	"strings"
)

// Eventing are Knative Eventing's programs that run here, by the import paths by which its manifests name them.
var Eventing = []string{
	"knative.dev/eventing/cmd/apiserver_receive_adapter",
	"knative.dev/eventing/cmd/broker/filter",
	"knative.dev/eventing/cmd/broker/ingress",
	"knative.dev/eventing/cmd/controller",
	"knative.dev/eventing/cmd/in_memory/channel_controller",
	"knative.dev/eventing/cmd/in_memory/channel_dispatcher",
	"knative.dev/eventing/cmd/mtchannel_broker",
	"knative.dev/eventing/cmd/mtping",
	"knative.dev/eventing/cmd/webhook",
}

// Serving are Knative Serving's programs that run here.
var Serving = []string{
	"knative.dev/serving/cmd/activator",
	"knative.dev/serving/cmd/autoscaler",
	"knative.dev/serving/cmd/controller",
	"knative.dev/serving/cmd/queue",
	"knative.dev/serving/cmd/webhook",
}

// Ingress is the program of test/knative/ingress.
const Ingress = "drydock.dev/test/knative/ingress"

// notBuilt are programs that a running one wants to know the image of, and never starts here: the sidecar of
// EventTransforms and IntegrationSinks.
var notBuilt = map[string]bool{"knative.dev/eventing/cmd/auth_proxy": true}

// ImageName is the image of a program. The kubelet never looks for a name under dev.local in a registry, nor does
// Knative Serving, whose config-deployment lists it in registries-skipping-tag-resolving. The tag is the stamp of the
// build, so another build is another image and pods change to it.
func ImageName(program, stamp string) string { return "dev.local/" + program + ":" + stamp }

// reference is how manifests made for ko name an image: by the import path of its program.
var reference = regexp.MustCompile(`ko://[A-Za-z0-9._/-]+`)

// useImages replaces every such reference by the image of that program.
func useImages(manifest string, images map[string]string) (string, error) {
	var missing []string
	text := reference.ReplaceAllStringFunc(manifest, func(found string) string {
		program := strings.TrimPrefix(found, "ko://")
		if notBuilt[program] {
			return ImageName(program, "not-built")
		}
		name, built := images[program]
		if !built {
			missing = append(missing, program)
		}
		return name
	})
	if len(missing) > 0 {
		return "", fmt.Errorf(
			"no image is built of %s: add the program to package knative and to test/knative/go.mod, or leave its manifest out",
			strings.Join(missing, ", "),
		)
	}
	return text, nil
}
