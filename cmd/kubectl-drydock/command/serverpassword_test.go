package command

import (
	"strings"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestPasswordOfTheServerIsNotRepeated: an address may have one, which client-go sends.
func TestPasswordOfTheServerIsNotRepeated(t *testing.T) {
	c := newCluster(t, build.Set("web", build.Status(build.Operation(api.Failed)), build.Resize("data=128Mi")))
	out, err := c.run(t, "status", "sts/web", "--server", strings.Replace(c.URL, "https://", "https://me:hunter2@", 1))
	if err != nil {
		out += ErrorText(err)
	}
	if strings.Contains(out, "hunter2") || !strings.Contains(out, "--server=") {
		t.Errorf("%s", out)
	}
}
