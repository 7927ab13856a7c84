package api

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"drydock.dev/test/golden"
)

func TestMoverImageIsCheckedOrRefused(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0a", 32)
	file := golden.Open(t)
	cases := map[string]Settings{
		"not set":           Settings{},
		"by digest":         Settings{Image: "example.com/drydock" + digest},
		"by tag and digest": Settings{Image: "example.com:5000/team/drydock:v1" + digest},
		"a tag":             Settings{Image: "example.com/drydock:v1"},
		"an allowed tag":    Settings{Image: "dev.local/drydock:dev", AllowTags: true},
		"no tag and no digest, with tags allowed": Settings{Image: "example.com:5000/drydock", AllowTags: true},
		"no registry":                       Settings{Image: "drydock" + digest},
		"a user name instead of a registry": Settings{Image: "team/drydock" + digest},
		"a digest that is too short":        Settings{Image: "example.com/drydock@sha256:0a", AllowTags: true},
		"a registry on the node":            Settings{Image: "localhost/drydock" + digest},
		"a blank":                           Settings{Image: "example.com/dry dock" + digest},
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			err := cases[name].CheckImage()
			switch {
			case err == nil:
				file.Entry(t, name, "accepted")
				return
			case !strings.Contains(err.Error(), "Set DRYDOCK_IMAGE"):
				t.Errorf("%v does not say what to do", err)
			}
			file.Entry(t, name, err.Error())
		})
	}
}
