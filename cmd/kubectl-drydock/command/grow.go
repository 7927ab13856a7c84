package command

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// growing holds the state of kubectl drydock grow.
type growing struct {
	*tool
	off bool
}

func newGrow(t *tool) *cobra.Command {
	o := &growing{tool: t}
	c := &cobra.Command{
		Use:   "grow sts/NAME [TEMPLATE=RULE]...",
		Short: "Let the volumes of a StatefulSet grow when they are nearly full",
		Long: "Write the rules for the growth of nearly full volumes into the annotation " + api.GrowAnnotation + ".\n" +
			"A rule consists of below:SPACE, inodes:PERCENT, by:SPACE, max:SIZE and every:TIME, with commas between them. Only max is\n" +
			"required.\n\n" +
			"Without rules the command shows the present ones. With --off no volume of the set grows.",
		Example: "  kubectl drydock grow sts/web data=below:15%,by:20%,max:500Gi\n  kubectl drydock grow sts/web\n" +
			"  kubectl drydock grow sts/web --off",
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return o.run(c.Context(), args[0], strings.Join(args[1:], ";"))
		},
	}
	c.Flags().BoolVar(&o.off, "off", false, "let no volume of the set grow, even if the namespace has rules")
	return c
}

func (o *growing) run(ctx context.Context, argument, rules string) error {
	switch {
	case o.off && rules != "":
		return fmt.Errorf("--off and rules exclude each other")
	case o.off:
		rules = api.GrowOff
	}
	s, err := o.open(argument)
	if err != nil {
		return err
	}
	if rules == "" {
		return o.show(ctx, s)
	}
	parsed, err := api.ParseGrow(rules)
	if err != nil {
		return err
	}
	err = s.write(ctx, func(set *appsv1.StatefulSet) (*plan.Patch, error) {
		for _, template := range slices.Sorted(maps.Keys(parsed)) {
			if template != api.AnyTemplate && statefulset.Template(set, template) == nil {
				return nil, fmt.Errorf("StatefulSet %s/%s has no volumeClaimTemplate %s", set.Namespace, set.Name, template)
			}
		}
		patch := plan.PatchOf(plan.StatefulSets, set)
		if set.Annotations[api.GrowAnnotation] == rules {
			return patch, nil
		}
		return patch.Annotate(api.GrowAnnotation, rules), nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "statefulset.apps/%s: %s\n", s.name, growthWords(rules))
	return nil
}

// show prints the present rules of the set.
func (o *growing) show(ctx context.Context, s *session) error {
	set, err := s.live(ctx)
	if err != nil {
		return err
	}
	rules, found := set.Annotations[api.GrowAnnotation]
	if !found {
		fmt.Fprintf(o.Out, "statefulset.apps/%s: no rules of its own. Those of the namespace apply, if the ConfigMap drydock-grow exists\n",
			s.name)
		return nil
	}
	if _, err := api.ParseGrow(rules); err != nil {
		return fmt.Errorf("StatefulSet %s/%s: annotation %s: %w", s.namespace, s.name, api.GrowAnnotation, err)
	}
	fmt.Fprintf(o.Out, "statefulset.apps/%s: %s\n", s.name, growthWords(rules))
	return nil
}

func growthWords(rules string) string {
	if strings.TrimSpace(rules) == api.GrowOff {
		return "no volume grows by usage"
	}
	return "volumes grow by the rules " + text.Printable(rules)
}
