package api

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/shared/bounded"
)

const requestFormat = `write "auto", or TEMPLATE=SIZE, several separated by commas. @STORAGECLASS, %VOLUMEATTRIBUTESCLASS and ` +
	`:ACCESSMODES may follow the size in this order, as "data=20Gi%gold,logs=5Gi@fast:RWO+ROX"; SIZE+ means at least that size`

func parseTarget(part string) (string, Target, error) {
	template, rest, ok := strings.Cut(part, "=")
	if !ok {
		return "", Target{}, fmt.Errorf("%q has no size", part)
	}
	if problems := validation.IsDNS1123Label(template); len(problems) > 0 {
		return "", Target{}, fmt.Errorf("template %q: %s", template, problems[0])
	}
	rest, short, moded := strings.Cut(rest, ":")
	rest, attributes, attributed := strings.Cut(rest, "%")
	size, class, named := strings.Cut(rest, "@")
	size, atLeast := strings.CutSuffix(size, AtLeast)
	quantity, err := bounded.Quantity(size)
	if err != nil {
		return "", Target{}, fmt.Errorf("size %w", err)
	}
	if quantity.Sign() <= 0 {
		return "", Target{}, fmt.Errorf("size %q is not positive", size)
	}
	if named {
		if problems := validation.IsDNS1123Subdomain(class); len(problems) > 0 {
			return "", Target{}, fmt.Errorf("storage class %q: %s", class, problems[0])
		}
	}
	target := Target{Size: quantity, Class: class, Exact: !atLeast}
	if attributed {
		if problems := validation.IsDNS1123Subdomain(attributes); len(problems) > 0 {
			return "", Target{}, fmt.Errorf("volume attributes class %q: %s", attributes, problems[0])
		}
		target.Attributes = &attributes
	}
	if moded {
		if target.Modes, err = parseModes(short); err != nil {
			return "", Target{}, err
		}
	}
	return template, target, nil
}

func parseModes(text string) ([]corev1.PersistentVolumeAccessMode, error) {
	var modes []corev1.PersistentVolumeAccessMode
	for _, short := range strings.Split(text, "+") {
		mode, known := accessModes[short]
		if !known {
			return nil, fmt.Errorf("%q is not an access mode; write RWO, ROX, RWX or RWOP", short)
		}
		modes = append(modes, mode)
	}
	if len(modes) > 1 && slices.Contains(modes, corev1.ReadWriteOncePod) { // kubernetes pkg/apis/core/validation
		return nil, fmt.Errorf("access mode RWOP cannot be combined with others")
	}
	return modes, nil
}
