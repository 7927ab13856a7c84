// Package knative defines an installation of Knative: its programs, its objects, and the differences from Knative's own manifests. It
// renders and checks objects; it builds and applies nothing.
package knative

import (
	"fmt"
	"regexp"
	"strings"
)

// Eventing lists the programs of Knative Eventing that run here. Knative's manifests refer to them by these import paths.
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

// Serving lists the programs of Knative Serving that run here.
var Serving = []string{
	"knative.dev/serving/cmd/activator",
	"knative.dev/serving/cmd/autoscaler",
	"knative.dev/serving/cmd/controller",
	"knative.dev/serving/cmd/queue",
	"knative.dev/serving/cmd/webhook",
}

// Ingress is the program of test/knative/ingress.
const Ingress = "drydock.dev/test/knative/ingress"

// notBuilt lists programs whose image a running program needs to know but never starts here: the sidecar of EventTransforms and
// IntegrationSinks.
var notBuilt = map[string]bool{"knative.dev/eventing/cmd/auth_proxy": true}

// ImageName returns the image of a program. The kubelet never pulls names under dev.local from a registry. Knative Serving does not resolve
// their tags either, because config-deployment lists dev.local in registries-skipping-tag-resolving. The tag is the stamp of the build, so
// that pods change to a new build.
func ImageName(program, stamp string) string { return "dev.local/" + program + ":" + stamp }

// reference matches an image in manifests for ko: the import path of its program.
var reference = regexp.MustCompile(`ko://[A-Za-z0-9._/-]+`)

// useImages replaces every ko reference by the image of its program.
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
		return "", fmt.Errorf("no image is built for %s. Add the program to package knative and to test/knative/go.mod, or omit its manifest",
			strings.Join(missing, ", "))
	}
	return text, nil
}
