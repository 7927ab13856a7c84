package api

import (
	"fmt"
	"regexp"
	"strings"
)

// byDigest matches an image that is named by its digest.
var byDigest = regexp.MustCompile(`^[^@\s]+@sha256:[0-9a-f]{64}$`)

// CheckImage returns why Image cannot be the data mover, or nil. The mover runs in users' namespaces with their pull secrets, perhaps as
// root, so it must not be possible to replace the image. Image must name its registry and its digest. With AllowTags a tag is enough.
func (s Settings) CheckImage() error {
	const advice = "Set DRYDOCK_IMAGE to REGISTRY/NAME@sha256:DIGEST of Drydock's image"
	registry, rest, named := strings.Cut(s.Image, "/")
	switch {
	case s.Image == "":
		return fmt.Errorf("DRYDOCK_IMAGE is not set, so no mover can run. %s", advice)
	case !named || rest == "" || !strings.ContainsAny(registry, ".:") && registry != "localhost":
		return fmt.Errorf("DRYDOCK_IMAGE %q names no registry, so nodes may pull different images. %s", s.Image, advice)
	case byDigest.MatchString(s.Image):
		return nil
	case strings.Contains(s.Image, "@") || !s.AllowTags:
		return fmt.Errorf("DRYDOCK_IMAGE %q has no digest, so the registry can serve another image under this name. %s, or allow tags with "+
			"DRYDOCK_ALLOW_TAGS=true", s.Image, advice)
	case !strings.Contains(rest, ":") || strings.HasSuffix(rest, ":"):
		return fmt.Errorf("DRYDOCK_IMAGE %q has neither a tag nor a digest. %s", s.Image, advice)
	}
	return nil
}
