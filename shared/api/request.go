package api

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// AutoRequest is the resize annotation's value that makes claims follow the volumeClaimTemplates.
const AutoRequest = "auto"

// Target is what a claim is to become.
type Target struct {
	Size resource.Quantity
	// Class is a StorageClass; empty keeps the claim's.
	Class string
}

// Request is the parsed resize annotation.
type Request struct {
	// Auto: the StatefulSet's own templates say what is wanted.
	Auto bool
	// Targets by template name, when not Auto.
	Targets map[string]Target
}

const requestFormat = `write "auto", or TEMPLATE=SIZE or TEMPLATE=SIZE@STORAGECLASS, separated by commas, as "data=20Gi,logs=5Gi@fast"`

// ParseRequest reads the value of the resize annotation:
//
//	auto                           the claims follow the volumeClaimTemplates
//	data=20Gi                      one template
//	data=20Gi@fast-ssd,logs=5Gi    several; @ names a StorageClass
func ParseRequest(text string) (Request, error) {
	if strings.TrimSpace(text) == AutoRequest {
		return Request{Auto: true}, nil
	}
	request := Request{Targets: map[string]Target{}}
	for _, part := range strings.Split(text, ",") {
		template, target, err := parseTarget(strings.TrimSpace(part))
		if err != nil {
			return Request{}, fmt.Errorf("%s=%q: %w; %s", ResizeAnnotation, text, err, requestFormat)
		}
		if _, twice := request.Targets[template]; twice {
			return Request{}, fmt.Errorf("%s=%q: template %q is named twice; name each once", ResizeAnnotation, text, template)
		}
		request.Targets[template] = target
	}
	return request, nil
}

func parseTarget(part string) (string, Target, error) {
	template, rest, ok := strings.Cut(part, "=")
	if !ok {
		return "", Target{}, fmt.Errorf("%q has no size", part)
	}
	if problems := validation.IsDNS1123Label(template); len(problems) > 0 {
		return "", Target{}, fmt.Errorf("template %q: %s", template, problems[0])
	}
	size, class, named := strings.Cut(rest, "@")
	quantity, err := parseSize(size)
	if err != nil {
		return "", Target{}, err
	}
	if quantity.Sign() <= 0 {
		return "", Target{}, fmt.Errorf("size %q is not positive", size)
	}
	if named {
		if problems := validation.IsDNS1123Subdomain(class); len(problems) > 0 {
			return "", Target{}, fmt.Errorf("storage class %q: %s", class, problems[0])
		}
	}
	return template, Target{Size: quantity, Class: class}, nil
}
