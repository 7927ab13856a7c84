package command

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/cmd/kubectl-drydock/fit"
	"drydock.dev/shared/api"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/text"
)

// fitting finds volumes that are larger than necessary.
type fitting struct {
	*tool
	headroom int64
	settings string
	output   string
}

func newFit(t *tool) *cobra.Command {
	o := &fitting{tool: t}
	c := &cobra.Command{
		Use:   "fit [sts/NAME]",
		Short: "Show which StatefulSets could have smaller volumes, and the command for it",
		Long: "Show how much is in use of the fullest volume of each template of the StatefulSets of a namespace, and a size that fits.\n\n" +
			"The kubelets measure the present usage, which is not the peak: check a longer time in your monitoring before you shrink a\n" +
			"volume. Only volumes that a pod uses are measured. If one of a template is not, its size is unknown. Nothing changes.\n\n" +
			"The size leaves room for --headroom and for the functions' DRYDOCK_SHRINK_MARGIN. All claims of a template get it, so a smaller\n" +
			"claim grows.",
		Example: "  kubectl drydock fit\n  kubectl drydock fit sts/web --headroom 100",
		Args:    cobra.MaximumNArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return o.run(c.Context(), args) },
	}
	c.Flags().Int64Var(&o.headroom, "headroom", 50, "free space to keep, in percent of the used space")
	c.Flags().StringVar(&o.settings, "settings", defaultSettings, settingsUsage)
	addOutput(c.Flags(), &o.output, "json or yaml: all of it", "json", "yaml")
	return c
}

// fitted is the result of the command.
type fitted struct {
	Rows []fit.Row `json:"templates"`
	// Requests are by set.
	Requests map[string]string `json:"requests,omitempty"`
	Unread   []string          `json:"unread,omitempty"`
}

func (o *fitting) run(ctx context.Context, args []string) error {
	if o.headroom < 10 || o.headroom > 1000 {
		return fmt.Errorf("--headroom %d: write a percentage from 10 to 1000", o.headroom)
	}
	s, err := o.connect()
	if err != nil {
		return err
	}
	only := ""
	if len(args) > 0 {
		if only, err = parseSet(args[0]); err != nil {
			return err
		}
	}
	found, err := o.find(ctx, s, only)
	if err != nil {
		return err
	}
	if o.output != "" {
		return printAs(o.Out, found, o.output)
	}
	return printFit(o.Out, found, s.namespace, o.headroom)
}

// find reads the sets, their claims, and the nodes of their pods, and asks the kubelets of these.
func (o *fitting) find(ctx context.Context, s *session, only string) (*fitted, error) {
	var sets []*appsv1.StatefulSet
	err := kube.Pages(ctx, s.client, plan.StatefulSets, s.namespace, "", &appsv1.StatefulSetList{}, func(l *appsv1.StatefulSetList) {
		for i := range l.Items {
			if set := &l.Items[i]; only == "" || set.Name == only {
				sets = append(sets, set)
			}
		}
	})
	if err == nil && only != "" && len(sets) == 0 {
		err = fmt.Errorf("there is no StatefulSet %s in namespace %s; name another with -n", only, s.namespace)
	}
	if err != nil {
		return nil, err
	}
	var claims []*corev1.PersistentVolumeClaim
	err = kube.Pages(
		ctx,
		s.client,
		plan.Claims,
		s.namespace,
		"",
		&corev1.PersistentVolumeClaimList{},
		func(l *corev1.PersistentVolumeClaimList) {
			for i := range l.Items {
				claims = append(claims, &l.Items[i])
			}
		},
	)
	if err != nil {
		return nil, err
	}
	nodes, err := s.nodes(ctx)
	if err != nil {
		return nil, err
	}
	var settings api.Settings
	assumed, err := s.measuring().readSettings(ctx, o.settings, &settings)
	if err != nil {
		return nil, err
	}
	found := &fitted{Requests: map[string]string{}}
	usage, unread := s.measuring().measure(ctx, nodes)
	found.Unread = slices.Concat(unread, assumed)
	for _, set := range sets {
		rows := fit.Rows(fit.Input{Set: set, Claims: claims, Usage: usage, Now: o.now(), Headroom: o.headroom,
			Margin: settings.ShrinkMargin})
		found.Rows = append(found.Rows, rows...)
		if request := fit.Request(rows); request != "" {
			found.Requests[set.Name] = request
		}
	}
	return found, nil
}

// nodes returns the names of the nodes whose pods use claims of the namespace, sorted.
func (s *session) nodes(ctx context.Context) ([]string, error) {
	var names []string
	err := kube.Pages(ctx, s.client, plan.Pods, s.namespace, "", &corev1.PodList{}, func(l *corev1.PodList) {
		for i := range l.Items {
			pod := &l.Items[i]
			claims := slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil })
			if claims && pod.Spec.NodeName != "" && !slices.Contains(names, pod.Spec.NodeName) {
				names = append(names, pod.Spec.NodeName)
			}
		}
	})
	slices.Sort(names)
	return names, err
}

func printFit(out io.Writer, found *fitted, namespace string, headroom int64) error {
	if len(found.Rows) == 0 {
		fmt.Fprintf(out, "no StatefulSet in namespace %s has volumes\n", namespace)
	} else if err := printRows(out, found.Rows); err != nil {
		return err
	}
	for _, line := range found.Unread {
		fmt.Fprintln(out, text.Printable(line))
	}
	if len(found.Requests) == 0 {
		return nil
	}
	fmt.Fprintf(
		out,
		"\nThe sizes fit the space used now, and %d %% more. That is not the peak: look at a longer time before you shrink a volume.\n"+
			"Plan the resize first, to see which members stop. The StatefulSet needs the label drydock.dev/managed=true:\n",
		headroom,
	)
	for _, row := range found.Rows {
		request, asks := found.Requests[row.Set]
		if !asks {
			continue
		}
		delete(found.Requests, row.Set)
		fmt.Fprintf(out, "  kubectl drydock plan -n %s sts/%s --resize %s\n"+
			"  kubectl annotate -n %s sts %s --overwrite %s=%s\n", namespace, row.Set, request, namespace, row.Set, api.ResizeAnnotation, request)
	}
	return nil
}

func printRows(out io.Writer, rows []fit.Row) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "SET\tTEMPLATE\tCLAIMS\tSIZE\tFULLEST\tIN USE\tFITS IN\tSAVES")
	for _, r := range rows {
		fits, saves := "as it is", "-"
		switch {
		case r.UnknownReason != "":
			fits = "not known: " + r.UnknownReason
		case r.Fits != nil:
			fits, saves = r.Fits.String(), text.Bytes(r.SavedBytes())
		}
		used := "-"
		if r.Fullest != "" {
			used = text.Bytes(r.Used)
		}
		cells := []string{r.Set, r.Template, fmt.Sprint(r.Claims), r.Size.String(), orDash(r.Fullest), used, text.Printable(fits), saves}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}
