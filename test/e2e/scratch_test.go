package e2e

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/kelseyhightower/envconfig"
	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit"
)

func TestScratch(t *testing.T) {
	config, err := kube.Config()
	if err != nil {
		t.Fatal(err)
	}
	var settings api.Settings
	envconfig.MustProcess("", &settings)
	settings.Image = "dev.local/drydock:dev"
	client := kube.NewClient(config)
	d := kit.NewDrive(client, settings, slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelInfo})))
	start := time.Now()
	for time.Since(start) < 3*time.Minute {
		if err := d.Tick(context.Background()); err != nil {
			t.Log(err)
		}
		set := &appsv1.StatefulSet{}
		if ok, _ := client.Get(context.Background(), plan.StatefulSets, "try", "web", set); ok {
			if s, err := api.LoadStatus(set); err == nil && s != nil && s.Phase.Terminal() {
				t.Log(s.Encode())
				return
			}
		}
		time.Sleep(500 * time.Millisecond)
	}
}
