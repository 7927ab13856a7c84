package api

import (
	"fmt"
	"regexp"
	"strings"
)

// byDigest matches an image that is named by its digest.
var byDigest = regexp.MustCompile(`^[^@\s]+@sha256:[0-9a-f]{64}$`)

// CheckImage returns why Image cannot be the data mover, or nil.
func (s Settings) CheckImage() error {
	fault, tagsWouldDo := ImageFault(s.Image, s.AllowTags)
	if fault == "" {
		return nil
	}
	advice := "Set DRYDOCK_IMAGE to REGISTRY/NAME@sha256:DIGEST of Drydock's image"
	if tagsWouldDo {
		advice += ", or allow tags with DRYDOCK_ALLOW_TAGS=true"
	}
	return fmt.Errorf("DRYDOCK_IMAGE %s. %s", fault, advice)
}

// ImageFault returns why the image cannot run in users' namespaces, as the rest of a sentence about it; "" if it can. It runs there with
// the users' pull secrets, perhaps as root, so it must not be possible to replace it: it must name its registry and its digest. With
// allowTags a tag is enough. tagsWouldDo reports that allowTags would remove the fault.
func ImageFault(image string, allowTags bool) (fault string, tagsWouldDo bool) {
	registry, rest, named := strings.Cut(image, "/")
	tagged := strings.Contains(rest, ":") && !strings.HasSuffix(rest, ":")
	switch {
	case image == "":
		return "is not set, so no mover can run", false
	case !named || rest == "" || !strings.ContainsAny(registry, ".:") && registry != "localhost":
		return fmt.Sprintf("%q names no registry, so nodes may pull different images", image), false
	case byDigest.MatchString(image):
		return "", false
	case strings.Contains(image, "@") || !allowTags:
		return fmt.Sprintf("%q has no digest, so the registry can serve another image under this name", image),
			tagged && !strings.Contains(image, "@")
	case !tagged:
		return fmt.Sprintf("%q has neither a tag nor a digest", image), false
	}
	return "", false
}
