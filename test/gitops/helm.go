package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/cli"
)

// waitTimeout is how long Helm waits for the objects of a release with --atomic.
const waitTimeout = 2 * time.Minute

func helm(namespace string) (*action.Configuration, error) {
	settings := cli.New()
	settings.SetNamespace(namespace)
	config := &action.Configuration{}
	err := config.Init(settings.RESTClientGetter(), namespace, "secret", log.New(io.Discard, "", 0).Printf)
	return config, err
}

// options are the options of an installation or an upgrade.
type options struct {
	atomic bool
	values string // file with values; empty for none
}

// release installs a chart, or upgrades a release to the chart.
func release(ctx context.Context, how, namespace, name, folder string, o options) error {
	config, err := helm(namespace)
	if err != nil {
		return err
	}
	chart, err := loader.Load(folder)
	if err != nil {
		return err
	}
	var values map[string]any
	if o.values != "" {
		if values, err = chartutil.ReadValuesFile(o.values); err != nil {
			return err
		}
	}
	switch how {
	case "install":
		install := action.NewInstall(config)
		install.Namespace, install.ReleaseName = namespace, name
		_, err = install.RunWithContext(ctx, chart, values)
	case "upgrade":
		upgrade := action.NewUpgrade(config)
		upgrade.Namespace, upgrade.Atomic, upgrade.Wait, upgrade.Timeout = namespace, o.atomic, o.atomic, waitTimeout
		_, err = upgrade.RunWithContext(ctx, name, chart, values)
	default:
		return fmt.Errorf("unknown command helm %s. Use install, upgrade or rollback", how)
	}
	return err
}

// rollback returns to the previous revision.
func rollback(namespace, name string) error {
	config, err := helm(namespace)
	if err != nil {
		return err
	}
	return action.NewRollback(config).Run(name)
}

// uninstall removes the release and its objects.
func uninstall(namespace, name string) error {
	config, err := helm(namespace)
	if err != nil {
		return err
	}
	_, err = action.NewUninstall(config).Run(name)
	return err
}
