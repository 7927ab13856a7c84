package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"drydock.dev/cmd/kubectl-drydock/forecast"
	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/text"
)

// planning holds the state of kubectl drydock plan.
type planning struct {
	*tool
	overrides forecast.Overrides
	settings  string
	output    string
}

const (
	defaultSettings = "drydock/drydock-settings"
	settingsUsage   = "NAMESPACE/NAME of the ConfigMap with the functions' settings; empty for the defaults"
)

func newPlan(t *tool) *cobra.Command {
	o := &planning{tool: t}
	c := &cobra.Command{
		Use:   "plan sts/NAME",
		Short: "Show the consequences of a resize: which members stop for how long, and why it would be refused",
		Long: "Show the consequences of the resize that the StatefulSet requests, or of --resize: the method for each claim, the bytes\n" +
			"to copy, the members that stop, their order and how long they stop, the quota, and every reason to refuse it.\n\n" +
			"Nothing is changed. The API server tries the writes of Drydock in dry runs, with your rights. They show what quotas, policies and\n" +
			"webhooks would refuse. A write that you have no right to is not tried, and is no reason to refuse.\n\n" +
			"The exit code is 1 if the resize would be refused, else 0.",
		Example: "  kubectl drydock plan sts/web\n  kubectl drydock plan sts/web --resize data=20Gi@fast --strategy rolling\n" +
			"  kubectl drydock plan sts/web --resize data=5Gi --method copy -o yaml",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
	}
	c.Flags().StringVar(&o.overrides.Request, "resize", "", "the request, instead of the annotation "+api.ResizeAnnotation)
	c.Flags().StringVar(&o.overrides.Method, "method", "", "auto, expand, expand-offline or copy, instead of the annotation "+
		api.ResizeMethodAnnotation)
	c.Flags().StringVar(&o.overrides.Strategy, "strategy", "", "whole or rolling, instead of the annotation "+api.StrategyAnnotation)
	c.Flags().StringVar(&o.settings, "settings", defaultSettings, settingsUsage)
	addOutput(c.Flags(), &o.output, "json or yaml: the whole plan", "json", "yaml")
	return c
}

func (o *planning) run(ctx context.Context, argument string) error {
	received := o.receiveWarnings()
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
	document.Warnings = append(document.Warnings, received.texts...)
	if o.output == "" {
		err = printPlan(o.Out, document)
	} else {
		err = printAs(o.Out, document, o.output)
	}
	return errors.Join(err, refusal(document))
}

// receiveWarnings collects the warnings of the API server, which the client would print otherwise.
func (o *planning) receiveWarnings() *warnings {
	received := &warnings{}
	o.config.WrapConfigFn = func(config *rest.Config) *rest.Config {
		config.WarningHandler = received
		return config
	}
	return received
}

// forecast reads the live objects, has the API server try the writes, and returns the forecast from both.
func (o *planning) forecast(ctx context.Context, s *session, set *appsv1.StatefulSet) (*forecast.Document, error) {
	in := forecast.Input{Overrides: o.overrides}
	assumed, err := s.measuring().observeSettings(ctx, o.settings, &in.Settings)
	if err != nil {
		return nil, err
	}
	if in.Registry, err = owners.LoadRegistry(in.Settings.Owners); err != nil {
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
	in.Controller = s.controllerOf(ctx, in.Registry, in.Set)
	var unlisted []string
	in.Budgets, unlisted = s.measuring().budgets(ctx)
	prediction := forecast.New(in)
	measured, unmeasured := s.measuring().measure(ctx, prediction.Nodes())
	writes, checks := prediction.Writes()
	for _, write := range writes {
		checks = append(checks, s.dryRun(ctx, write))
	}
	var unread []string
	prediction.Storage, unread = s.measuring().storage(ctx, prediction.Provisioners(), prediction.Nodes())
	document := prediction.Document(used(measured), checks)
	document.Assumed = slices.Concat(assumed, unlisted, unmeasured, unread)
	return document, nil
}

// refusal returns an error with the reasons if the resize would be refused.
func refusal(d *forecast.Document) error {
	if d.Verdict != forecast.Refused {
		return nil
	}
	return fmt.Errorf("StatefulSet %s/%s: the resize would be refused: %s", d.Namespace, d.Set, strings.Join(reasons(d.Refused), ", "))
}

// reasons returns each reason once.
func reasons(problems []resize.Problem) []string {
	var names []string
	for _, p := range problems {
		if !slices.Contains(names, string(p.Reason)) {
			names = append(names, string(p.Reason))
		}
	}
	return names
}

// dryRun has the API server try a write in a dry run. It first checks the user's right to the write, because a refusal by a policy and a
// missing right have the same code.
func (s *session) dryRun(ctx context.Context, write plan.Action) forecast.Check {
	check := forecast.Check{Verb: write.Verb, Resource: write.Resource, Name: write.Name}
	allowed, err := s.isAllowed(ctx, write)
	switch {
	case err != nil:
		check.Outcome, check.Message = forecast.Unchecked, "your right to it is unknown: "+text.Printable(err.Error())
		return check
	case !allowed:
		check.Outcome, check.Message = forecast.Unchecked, fmt.Sprintf("you may not %s %s in namespace %s", write.Verb, write.Resource,
			write.Namespace)
		return check
	}
	err = s.client.DryRun(ctx, write)
	check.Outcome, check.Message = outcome(err)
	return check
}

// outcome classifies the API server's answer, and returns its message if it does not accept the write.
func outcome(err error) (forecast.Outcome, string) {
	trial := kube.DryRunResultOf(err)
	if trial == kube.Accepted {
		return forecast.Accepted, ""
	}
	return forecast.Outcome(trial), text.Printable(err.Error())
}

// warnings collects the API server's warnings, each text once. One of them says that the pods of a Job would be refused.
type warnings struct{ texts []string }

// HandleWarningHeader adds a warning of the API server, which has code 299. Code and header are those of RFC 9111.
func (w *warnings) HandleWarningHeader(code int, _, warning string) {
	if warning = "the API server says: " + text.Printable(warning); code == 299 && !slices.Contains(w.texts, warning) {
		w.texts = append(w.texts, warning)
	}
}

// isAllowed reports whether the user has the right to the write.
func (s *session) isAllowed(ctx context.Context, write plan.Action) (bool, error) {
	group := kube.GroupOf(write.Resource)
	attributes := &authorizationv1.ResourceAttributes{Namespace: write.Namespace, Verb: string(write.Verb),
		Group: group.Group, Version: group.Version, Resource: string(write.Resource)}
	if write.Verb != plan.VerbCreate {
		attributes.Name = write.Name
	}
	key := fmt.Sprint(*attributes)
	if allowed, known := s.rights[key]; known {
		return allowed, nil
	}
	review := &authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
		Spec:     authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes}}
	if err := s.raw.post(ctx, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review, review); err != nil {
		return false, err
	}
	s.rights[key] = review.Status.Allowed
	return review.Status.Allowed, nil
}
