package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/rest"

	"drydock.dev/cmd/kubectl-drydock/forecast"
	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/resize"
)

// planning tells the consequences of a resize.
type planning struct {
	*tool
	ask      forecast.Ask
	settings string
	output   string
}

func newPlan(t *tool) *cobra.Command {
	o := &planning{tool: t}
	c := &cobra.Command{
		Use:   "plan sts/NAME",
		Short: "Show the consequences of a resize: which members stop for how long, and why it would be refused",
		Long: "Show the consequences of the resize that the StatefulSet asks for, or of the one in --resize: the method for each claim, the " +
			"bytes\nto copy, the members that stop, their order and for how long, the quota, and every reason why it would be refused.\n\n" +
			"Nothing is changed. The API server is asked to try what Drydock would write (dry run), with your rights: it tells what quotas,\n" +
			"policies and webhooks would refuse. What you may not do yourself is not tried, and is not a reason to refuse.\n\n" +
			"The exit code is 0 where the resize would go through, or there is nothing to do, and 1 where it would be refused.",
		Example: "  kubectl drydock plan sts/web\n  kubectl drydock plan sts/web --resize data=20Gi@fast --strategy rolling\n" +
			"  kubectl drydock plan sts/web --resize data=5Gi --method copy -o yaml",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
	}
	c.Flags().StringVar(&o.ask.Request, "resize", "", "the request, instead of the annotation "+api.ResizeAnnotation)
	c.Flags().StringVar(&o.ask.Method, "method", "", "auto, expand or copy, instead of the annotation "+api.ResizeMethodAnnotation)
	c.Flags().StringVar(&o.ask.Strategy, "strategy", "", "whole or rolling, instead of the annotation "+api.StrategyAnnotation)
	c.Flags().StringVar(&o.settings, "settings", "drydock/drydock-settings", "NAMESPACE/NAME of the ConfigMap with the functions' settings; "+
		"empty for the defaults")
	c.Flags().StringVarP(&o.output, "output", "o", "", "json or yaml: the whole plan")
	return c
}

func (o *planning) run(ctx context.Context, argument string) error {
	if !slices.Contains([]string{"", "json", "yaml"}, o.output) {
		return fmt.Errorf("-o %s is not a format; write -o json or -o yaml", o.output)
	}
	said := &warnings{}
	o.config.WrapConfigFn = func(config *rest.Config) *rest.Config {
		config.WarningHandler = said
		return config
	}
	s, err := o.open(argument)
	if err != nil {
		return err
	}
	set, err := s.live(ctx)
	if err != nil {
		return err
	}
	document, err := o.forecast(ctx, s, set)
	if err != nil {
		return err
	}
	document.Warnings = append(document.Warnings, said.texts...)
	if o.output == "" {
		err = printPlan(o.Out, document)
	} else {
		err = printAs(o.Out, document, o.output)
	}
	return errors.Join(err, refusal(document))
}

// forecast reads what there is, has the API server try what would be written, and puts both together.
func (o *planning) forecast(ctx context.Context, s *session, set *appsv1.StatefulSet) (*forecast.Document, error) {
	in := forecast.Input{Ask: o.ask}
	assumed, err := s.observeSettings(ctx, o.settings, &in.Settings)
	if err != nil {
		return nil, err
	}
	if in.Registry, err = owners.FromSettings(in.Settings.Owners); err != nil {
		return nil, fmt.Errorf("reading the rows of owners in ConfigMap %s: %w", o.settings, err)
	}
	if in.Observed, err = s.client.Observe(ctx, events.Ref{Namespace: set.Namespace, Name: set.Name}); err != nil {
		return nil, err
	}
	if in.Set == nil {
		return nil, fmt.Errorf("StatefulSet %s/%s is gone", s.namespace, s.name)
	}
	if in.Cluster, err = s.client.Cluster(ctx, set.Namespace); err != nil {
		return nil, err
	}
	if forecast.NamesAttributes(in) {
		if in.Cluster.Attributes, err = s.client.AttributesClasses(ctx); err != nil {
			return nil, err
		}
	}
	var unlisted []string
	in.Budgets, unlisted = s.budgets(ctx)
	look := forecast.Look(in)
	measured, unread := s.measure(ctx, look.Nodes())
	writes, checks := look.Writes()
	for _, write := range writes {
		checks = append(checks, s.try(ctx, write))
	}
	var unasked []string
	look.Storage, unasked = s.storage(ctx, look.Provisioners(), look.Nodes())
	document := look.Document(used(measured), checks)
	document.Assumed = slices.Concat(assumed, unlisted, unread, unasked)
	return document, nil
}

// refusal returns the error of the command if the resize would be refused.
func refusal(d *forecast.Document) error {
	if d.Verdict != forecast.Refused {
		return nil
	}
	return fmt.Errorf("StatefulSet %s/%s: the resize would be refused: %s", d.Namespace, d.Set, strings.Join(reasons(d.Refused), ", "))
}

// reasons names each reason once.
func reasons(problems []resize.Problem) []string {
	var names []string
	for _, p := range problems {
		if !slices.Contains(names, string(p.Reason)) {
			names = append(names, string(p.Reason))
		}
	}
	return names
}
