package command

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/shared/api"
	"drydock.dev/shared/bounded"
	"drydock.dev/shared/events"
)

// setKinds are the names of the kind StatefulSet that kubectl knows.
var setKinds = []string{"sts", "statefulset", "statefulsets", "statefulset.apps", "statefulsets.apps", "statefulset.v1.apps",
	"statefulsets.v1.apps"}

// parseSet returns the name in an argument such as sts/web, statefulset/web, statefulsets.apps/web or web.
func parseSet(argument string) (string, error) {
	name := argument
	if kind, rest, typed := strings.Cut(argument, "/"); typed {
		switch {
		case kind == "" || rest == "":
			return "", fmt.Errorf("%q does not name a StatefulSet. Write sts/NAME", argument)
		case slices.Contains(setKinds, strings.ToLower(kind)):
			name = rest
		default:
			return "", fmt.Errorf("%q is a %s, and Drydock works on StatefulSets. Write sts/NAME", argument, kind)
		}
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return "", fmt.Errorf("%q does not name a StatefulSet: %s", argument, problems[0])
	}
	return name, nil
}

// joinKind turns the arguments "sts web", which kubectl accepts too, into "sts/web".
func joinKind(args []string) []string {
	if len(args) < 2 || !slices.Contains(setKinds, strings.ToLower(args[0])) || len(validation.IsDNS1123Subdomain(args[1])) > 0 {
		return args
	}
	return append([]string{args[0] + "/" + args[1]}, args[2:]...)
}

// acceptAsKubectl makes the command accept a kind and a name as two arguments, and its errors about arguments say what to write.
// After the command, it reminds the user of the flags that suggested commands need.
func acceptAsKubectl(c *cobra.Command, t *tool) {
	check, run := c.Args, c.RunE
	c.Args = func(c *cobra.Command, args []string) error {
		if err := check(c, joinKind(args)); err != nil {
			return fmt.Errorf("%w. Write: kubectl drydock %s. See: %s --help", err, c.Use, c.CommandPath())
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		err := run(c, joinKind(args))
		if output := c.Flags().Lookup("output"); output == nil || output.Value.String() == "" { // no program reads it
			t.remindOfFlags(err)
		}
		return err
	}
}

// checkTimeout returns an error for a --timeout without --wait: a script would believe that the operation has ended.
func checkTimeout(timeout time.Duration, wait bool) error {
	switch {
	case timeout != 0 && !wait:
		return fmt.Errorf("--timeout limits --wait. Add --wait")
	case timeout < 0:
		return fmt.Errorf("--timeout %s is negative. Write a positive duration, for example 30m", timeout)
	}
	return nil
}

const (
	ownPrefix    = "dev.drydock."
	sourcePrefix = "dev.knative.apiserver."
)

// typeNames returns all event types without their prefixes.
func typeNames() []string {
	var names []string
	for _, t := range append(events.OwnTypes(), events.SourceTypes()...) {
		names = append(names, strings.TrimPrefix(strings.TrimPrefix(t, ownPrefix), sourcePrefix))
	}
	return names
}

// resolveType returns the full event type for a name with or without its prefix.
func resolveType(name string) (string, error) {
	all := append(events.OwnTypes(), events.SourceTypes()...)
	for _, prefix := range []string{"", ownPrefix, sourcePrefix} {
		if slices.Contains(all, prefix+name) {
			return prefix + name, nil
		}
	}
	return "", fmt.Errorf("there is no event type %q. The types are %s", name, strings.Join(typeNames(), ", "))
}

// wakeable are the functions that object.changed can wake.
var wakeable = []api.Function{api.DetectResize, api.PauseOwner, api.Backup, api.Restore, api.IdleTimeout, api.CleanupPod, api.ScaleFunction,
	api.GrowVolumes}

// parseConcerns returns the functions that an event of type object.changed wakes. Other types must not name functions.
func parseConcerns(eventType, text string) ([]api.Function, error) {
	names := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' })
	switch {
	case eventType != events.ObjectChanged && len(names) > 0:
		return nil, fmt.Errorf("--concerns is only for object.changed. Events of type %s go to the functions with a Trigger for them", eventType)
	case eventType == events.ObjectChanged && len(names) == 0:
		return nil, fmt.Errorf("object.changed wakes only the functions that it names. Name them, for example with --concerns %q",
			"backup restore")
	}
	var concerns []api.Function
	for _, name := range names {
		if !slices.Contains(wakeable, api.Function(name)) {
			return nil, fmt.Errorf("object.changed cannot wake a function %q. It can wake %v", name, wakeable)
		}
		concerns = append(concerns, api.Function(name))
	}
	return concerns, nil
}

// lacksClass matches a part of a request with an @ that no StorageClass follows.
var lacksClass = regexp.MustCompile(`^([^@]+)@($|[%:].*$)`)

// explainMistake returns an error with the text to write instead, if the request has a usual mistake. Otherwise it returns the given error.
func (t *tool) explainMistake(ctx context.Context, set, request string, err error) error {
	for part := range strings.SplitSeq(request, ",") {
		if found := lacksClass.FindStringSubmatch(part); found != nil {
			return fmt.Errorf("%q names no StorageClass after the @. Write %s%s, or name the class: %s@CLASS%s", part, found[1], found[2], found[1],
				found[2])
		}
		size, _, _ := strings.Cut(strings.TrimSuffix(part, "+"), "@")
		if _, notASize := bounded.Quantity(size); notASize != nil {
			continue
		}
		templates := t.templatesOf(ctx, set)
		switch len(templates) {
		case 0:
			return fmt.Errorf("%q names no volumeClaimTemplate. Write TEMPLATE=%s", part, part)
		case 1:
			return fmt.Errorf("%q names no volumeClaimTemplate. Write %s=%s", part, templates[0], part)
		}
		return fmt.Errorf("%q names no volumeClaimTemplate. Write one of %s before it, for example %s=%s", part, strings.Join(templates, ", "),
			templates[0], part)
	}
	return err
}

// templatesOf returns the names of the set's volumeClaimTemplates. It returns none if the set cannot be read: they only improve an error.
func (t *tool) templatesOf(ctx context.Context, argument string) []string {
	s, err := t.open(argument)
	if err != nil {
		return nil
	}
	set, err := s.live(ctx)
	if err != nil {
		return nil
	}
	var names []string
	for i := range set.Spec.VolumeClaimTemplates {
		if name := set.Spec.VolumeClaimTemplates[i].Name; len(validation.IsDNS1123Label(name)) == 0 { // a name becomes a word of a command
			names = append(names, name)
		}
	}
	return names
}
