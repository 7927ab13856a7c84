package api

import (
	"strings"
	"testing"
)

func TestImageOfTheMover(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0a", 32)
	for name, row := range map[string]struct {
		settings Settings
		want     string // part of the error; empty for none
	}{
		"not set":                          {Settings{}, "is not set"},
		"by digest":                        {Settings{Image: "example.com/drydock" + digest}, ""},
		"by tag and digest":                {Settings{Image: "example.com:5000/team/drydock:v1" + digest}, ""},
		"a tag":                            {Settings{Image: "example.com/drydock:v1"}, "not named by its digest"},
		"a tag that is allowed":            {Settings{Image: "dev.local/drydock:dev", AllowTags: true}, ""},
		"neither, where tags are allowed":  {Settings{Image: "example.com:5000/drydock", AllowTags: true}, "neither a tag nor a digest"},
		"no registry":                      {Settings{Image: "drydock" + digest}, "names no registry"},
		"a user's name is no registry":     {Settings{Image: "team/drydock" + digest}, "names no registry"},
		"a digest that is too short":       {Settings{Image: "example.com/drydock@sha256:0a", AllowTags: true}, "not named by its digest"},
		"a registry on the node":           {Settings{Image: "localhost/drydock" + digest}, ""},
		"a blank that would hide the rest": {Settings{Image: "example.com/dry dock" + digest}, "not named by its digest"},
	} {
		t.Run(name, func(t *testing.T) {
			err := row.settings.CheckImage()
			switch {
			case row.want == "" && err != nil:
				t.Error(err)
			case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)):
				t.Errorf("got %v, want %q", err, row.want)
			case err != nil && !strings.Contains(err.Error(), "Set DRYDOCK_IMAGE"):
				t.Errorf("%v does not say what to do", err)
			}
		})
	}
}
