package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"drydock.dev/cmd/kubectl-drydock/forecast"
	"drydock.dev/cmd/kubectl-drydock/terminal"
	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
	"drydock.dev/shared/world"
)

// resizing holds the state of kubectl drydock resize.
type resizing struct {
	planning
	rolling, wait, yes bool
	// updatesOwner is true if the user's rights are to write the new size into the custom resource that controls the set.
	updatesOwner bool
	timeout      time.Duration
	// former is the operation that the set had when the request was written, or "".
	former string
}

func newResize(t *tool) *cobra.Command {
	o := &resizing{planning: planning{tool: t}}
	c := &cobra.Command{
		Use:   "resize sts/NAME TEMPLATE=SIZE[@CLASS]...",
		Short: "Plan a resize, ask you, and request it",
		Long: "Show the plan of the resize, ask for your consent, and write the request into the annotation " + api.ResizeAnnotation + ".\n" +
			"A resize that would be refused is not requested. With --wait the command shows the progress until the resize has ended.\n" +
			"Unless the resize failed, it then prints what you have to change in the manifest of the StatefulSet.\n\n" +
			"After a resize of a StatefulSet with an operator, the operator stays paused until its resource says the new size.\n" +
			"--update-owner writes it there with your rights: after a resize with --wait, or, without a size, after the latest resize.\n\n" +
			"The exit code is 0 if the resize was requested, and with --wait if it succeeded. It is 1 after an error, without your consent or\n" +
			"if the resize did not succeed, and 3 if it still runs after --timeout.",
		Example: "  kubectl drydock resize sts/web data=20Gi\n  kubectl drydock resize sts/web data=20Gi@fast --rolling --wait\n" +
			"  kubectl drydock resize sts/web data=20Gi logs=5Gi --yes --wait --timeout 2h\n" +
			"  kubectl drydock resize sts/web --update-owner",
		Args: func(c *cobra.Command, args []string) error {
			if o.updatesOwner {
				return cobra.MinimumNArgs(1)(c, args)
			}
			return cobra.MinimumNArgs(2)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				return o.updateOwnerOf(c.Context(), args[0])
			}
			return o.run(c.Context(), args[0], strings.Join(args[1:], ","))
		},
	}
	c.Flags().BoolVar(&o.rolling, "rolling", false, "stop one member at a time, and the next one when all others are ready")
	c.Flags().StringVar(&o.overrides.Method, "method", "", "auto, expand, expand-offline or copy")
	c.Flags().StringVar(&o.settings, "settings", defaultSettings, settingsUsage)
	c.Flags().BoolVar(&o.updatesOwner, "update-owner", false, "write the new size into the custom resource that controls the StatefulSet")
	c.Flags().BoolVarP(&o.yes, "yes", "y", false, "request the resize without a question")
	c.Flags().BoolVar(&o.wait, "wait", false, "show the progress until the resize has ended")
	c.Flags().DurationVar(&o.timeout, "timeout", 0, "the longest time to wait, for example 2h; 0 has no limit")
	return c
}

func (o *resizing) run(ctx context.Context, argument, request string) error {
	if err := checkTimeout(o.timeout, o.wait); err != nil {
		return err
	}
	if o.updatesOwner && !o.wait {
		return errors.New("--update-owner changes the resource after the resize, so it needs --wait")
	}
	parsed, err := api.ParseRequest(request)
	if err != nil {
		return o.explainMistake(ctx, argument, request, err)
	}
	o.overrides.Request = request
	if o.rolling {
		o.overrides.Strategy = string(api.StrategyRolling)
	}
	received := o.receiveWarnings()
	s, err := o.open(argument)
	if err != nil {
		return err
	}
	set, err := s.managed(ctx)
	if err != nil {
		return err
	}
	document, err := o.forecast(ctx, s, set)
	if err != nil {
		return err
	}
	document.Warnings = append(document.Warnings, received.texts...)
	withoutOwnConditions(document)
	if err := refusal(document); err != nil {
		return errors.Join(printRefusal(o.Out, document), fmt.Errorf("%w. Nothing was requested. See the whole plan with: %s",
			err, o.planCommand(set)))
	}
	if err := printPlan(o.Out, document); err != nil {
		return err
	}
	if document.Verdict == forecast.Nothing {
		return nil // the plan says so
	}
	if err := o.consent(ctx, fmt.Sprintf("\nResize StatefulSet %s/%s as planned?", s.namespace, s.name), o.yes); err != nil {
		return err
	}
	diff, err := manifestDiff(set, parsed)
	if err != nil {
		return err
	}
	err = s.write(ctx, func(live *appsv1.StatefulSet) (*plan.Patch, error) {
		if err := unchanged(set, live); err != nil {
			return nil, err
		}
		return o.patch(live)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "\nstatefulset.apps/%s: resize %s is requested\n", s.name, request)
	if o.wait {
		outcome := resizeOutcome{request: request, former: o.former}
		follower := &statusView{tool: o.tool, wait: true, timeout: o.timeout, outcome: outcome.hasEnded}
		if err = follower.follow(ctx, s); err == nil && o.updatesOwner {
			o.yes = true // the plan says so
			if err = o.updateOwner(ctx, s); errors.Is(err, errAgreed) {
				err = nil // the resource has had the new size before, or Drydock has written it
			}
		}
	} else {
		fmt.Fprintf(o.Out, "Follow it with: kubectl drydock status -n %s sts/%s --watch\n", s.namespace, s.name)
	}
	if words := o.manifestWords(err); diff != "" && words != "" {
		fmt.Fprintf(o.Out, "\n%s the manifest of the set in the same way, so that the next apply agrees:\n%s", words, diff)
	}
	return err
}

// manifestWords says when the manifest must change. It is empty after a resize that did not succeed: the set is as its manifest says.
func (o *resizing) manifestWords(outcome error) string {
	switch {
	case outcome == nil && o.wait:
		return "Change"
	case outcome == nil, errors.Is(outcome, errTimeout), errors.Is(outcome, context.Canceled):
		return "When the resize has succeeded, change"
	}
	return ""
}

// printRefusal prints only the causes of the refusal. The plan of a resize that cannot happen would hide them.
func printRefusal(out io.Writer, d *forecast.Document) error {
	t := &planText{width: terminal.New(out).Width()}
	t.addProblems(fmt.Sprintf("statefulset.apps/%s: %s:", d.Set, verdict(d)), d.Refused)
	return t.print(out)
}

// withoutOwnConditions removes the conditions that the command meets itself: it requests the resize and retries a refused request.
func withoutOwnConditions(d *forecast.Document) {
	d.Conditions = slices.DeleteFunc(d.Conditions, func(p resize.Problem) bool {
		return p.Reason == api.NotRequested || p.Reason == api.AlreadyRefused
	})
	if d.Verdict == forecast.Waits && len(d.Conditions) == 0 {
		d.Verdict = forecast.Proceeds
	}
}

// planCommand returns the command that shows the whole plan of the request.
func (o *resizing) planCommand(set *appsv1.StatefulSet) string {
	words := fmt.Sprintf("kubectl drydock plan -n %s sts/%s --resize %s", set.Namespace, set.Name, shellWord(o.overrides.Request))
	for _, flag := range []struct{ name, value string }{{"method", o.overrides.Method}, {"strategy", o.overrides.Strategy}} {
		if flag.value != "" {
			words += " --" + flag.name + " " + shellWord(flag.value)
		}
	}
	return words
}

// patch requests the resize on the live set. A request that was refused or has failed has no effect again without a retry.
func (o *resizing) patch(set *appsv1.StatefulSet) (*plan.Patch, error) {
	record, err := statusOf(set)
	if err != nil {
		return nil, err
	}
	o.former = ""
	if record != nil && !record.Active() {
		o.former = record.Operation
	}
	patch := plan.PatchOf(plan.StatefulSets, set)
	if world.Answered(record, o.overrides.Request) && !record.Active() && !operation.Of(set).ResizeRetried(set) {
		if statefulset.Controller(set) == nil && operation.Of(set).CleanupAwaitingRetry(set) != nil {
			return nil, fmt.Errorf("StatefulSet %s/%s: the resize needs a retry, but the next retry repeats the cleanup that did not succeed. "+
				"Repeat that first: kubectl drydock retry -n %s sts/%s", set.Namespace, set.Name, set.Namespace, set.Name)
		}
		patch = patch.Annotate(api.RetryAnnotation, record.Operation)
	}
	for _, a := range []struct{ key, value string }{
		{api.ResizeMethodAnnotation, o.overrides.Method},
		{api.StrategyAnnotation, o.overrides.Strategy},
		{api.ResizeAnnotation, o.overrides.Request},
	} {
		if a.value != "" && set.Annotations[a.key] != a.value {
			patch = patch.Annotate(a.key, a.value)
		}
	}
	return patch, nil
}

// manifestDiff returns the change that the user has to make in the manifest of the set, as a unified diff of the fields that a request can
// change. It is empty if the set agrees with the request, and if the set has no manifest, because a controller makes it from its resource.
func manifestDiff(set *appsv1.StatefulSet, request api.Request) (string, error) {
	if metav1.GetControllerOf(set) != nil {
		return "", nil
	}
	var changed []api.TemplateTarget
	for _, template := range slices.Sorted(maps.Keys(request.Targets)) {
		if target := request.Targets[template]; statefulset.TemplateNeedsChange(set, template, target) {
			changed = append(changed, statefulset.TemplateFor(set, template, target))
		}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(set)
	if err != nil {
		return "", fmt.Errorf("reading the fields of StatefulSet %s/%s: %w", set.Namespace, set.Name, err)
	}
	before := &unstructured.Unstructured{Object: content}
	old, err := fieldsText(before)
	if err != nil {
		return "", err
	}
	replacement := resources.SetFields(resources.MakeSet(before, changed, &api.Resize{}), statefulset.Unmet(set, request.Fields))
	wanted, err := fieldsText(replacement)
	if err != nil {
		return "", err
	}
	return strings.Map(printableLines, udiff.Unified("the present manifest", "the new manifest", old, wanted)), nil
}

// printableLines returns the character, or a space if the character moves other text.
func printableLines(r rune) rune {
	if r == '\n' {
		return r
	}
	return printable(r)
}

// fieldsText returns the fields of the set that a request can change as YAML, without the fields that only the API server writes.
func fieldsText(set *unstructured.Unstructured) (string, error) {
	all, found, err := unstructured.NestedSlice(set.Object, "spec", "volumeClaimTemplates")
	if err != nil {
		return "", err
	}
	for _, item := range all {
		if template, ok := item.(map[string]any); ok {
			delete(template, "status")
			unstructured.RemoveNestedField(template, "metadata", "creationTimestamp")
		}
	}
	fields := map[string]any{}
	if found {
		fields["volumeClaimTemplates"] = all
	}
	for _, name := range []api.FieldName{api.FieldServiceName, api.FieldPodManagementPolicy} {
		value, _, err := unstructured.NestedString(set.Object, "spec", string(name))
		if err != nil {
			return "", err
		}
		if value != "" {
			fields[string(name)] = value
		}
	}
	content, err := json.Marshal(fields)
	if err != nil {
		return "", err
	}
	manifest, err := yaml.JSONToYAML(text.EscapeJSON(content))
	return string(manifest), err
}
