package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/cmd/kubectl-drydock/terminal"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/scaling"
	"drydock.dev/shared/text"
	"drydock.dev/shared/world"
)

var scalerResource = schema.GroupVersionResource{Group: "drydock.dev", Version: "v1alpha1", Resource: "scalers"}

// scaleRequest holds the state of kubectl drydock scale.
type scaleRequest struct {
	*tool
	wait    bool
	timeout time.Duration
}

func newScale(t *tool) *cobra.Command {
	o := &scaleRequest{tool: t}
	c := &cobra.Command{
		Use:   "scale sts/NAME REPLICAS",
		Short: "Scale a StatefulSet with its hooks",
		Long: "Scale the Scaler of the StatefulSet. Its hooks run before the set gets the count. For a set without a Scaler, use\n" +
			"kubectl scale.\n\nThe exit code with --wait is 0 if the set has the count, 1 if the scaling failed, and 3 if\n" +
			"it still runs after --timeout.",
		Example: "  kubectl drydock scale sts/web 1 --wait",
		Args:    cobra.ExactArgs(2),
		RunE:    func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0], args[1]) },
	}
	c.Flags().BoolVar(&o.wait, "wait", false, "wait until the set has the count")
	c.Flags().DurationVar(&o.timeout, "timeout", 0, "the longest time to wait, for example 10m; 0 has no limit")
	return c
}

func (o *scaleRequest) run(ctx context.Context, argument, count string) error {
	replicas, err := strconv.ParseInt(count, 10, 32)
	if err != nil || replicas < 0 {
		return fmt.Errorf("%q is no count of replicas. Write a number from 0", count)
	}
	if err := checkTimeout(o.timeout, o.wait); err != nil {
		return err
	}
	s, err := o.open(argument)
	if err != nil {
		return err
	}
	set, err := s.live(ctx)
	if err != nil {
		return err
	}
	scaler, err := s.scalerOf(ctx, set)
	if err != nil {
		return err
	}
	scalers := s.objects.Resource(scalerResource).Namespace(s.namespace)
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	_, err = scalers.Patch(ctx, scaler.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "scale")
	if err != nil {
		return fmt.Errorf("scaling Scaler %s/%s: %w", s.namespace, scaler.Name, err)
	}
	fmt.Fprintf(o.Out, "scaler.drydock.dev/%s: %s %s requested for sts/%s\n", scaler.Name,
		counted(int(replicas), "replica"), are(int(replicas)), s.name)
	if !o.wait {
		return nil
	}
	return o.follow(ctx, s, int32(replicas))
}

// follow shows the Scaler until the set has the count.
func (o *scaleRequest) follow(ctx context.Context, s *session, replicas int32) error {
	screen := terminal.New(o.Out)
	return s.follow(ctx, o.timeout, func(observed *world.Observed) (bool, error) {
		live, err := s.scalerOf(ctx, observed.Set)
		if errors.Is(err, errUnanswered) {
			return false, nil // s.follow ends if the API server stays away
		}
		if err != nil {
			return false, err
		}
		if err := screen.Show([]string{scalerLine(live)}); err != nil {
			return false, err
		}
		return hasScaled(live, replicas)
	})
}

// errUnanswered marks errors of reads that may succeed later.
var errUnanswered = errors.New("the API server does not answer")

// scalerOf returns the Scaler that scales the set. Another Scaler with the same target scales nothing.
func (s *session) scalerOf(ctx context.Context, set *appsv1.StatefulSet) (*v1alpha1.Scaler, error) {
	list, err := s.objects.Resource(scalerResource).Namespace(s.namespace).List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("this cluster does not know the kind Scaler. Install Drydock first: kubectl drydock install")
	case err != nil && passesByItself(err):
		return nil, fmt.Errorf("listing the Scalers of namespace %s: %w: %w", s.namespace, errUnanswered, err)
	case err != nil:
		return nil, fmt.Errorf("listing the Scalers of namespace %s: %w", s.namespace, err)
	}
	var targeting []*v1alpha1.Scaler
	for _, item := range list.Items {
		if target, _, _ := unstructured.NestedString(item.Object, "spec", "target"); target != s.name {
			continue
		}
		scaler := &v1alpha1.Scaler{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, scaler); err != nil {
			return nil, fmt.Errorf("reading Scaler %s/%s: %w", s.namespace, item.GetName(), err)
		}
		targeting = append(targeting, scaler)
	}
	scaler := scaling.Owner(targeting, operation.Of(set).Scale)
	if scaler == nil {
		return nil, fmt.Errorf("StatefulSet %s/%s has no Scaler. Scale it with: kubectl scale -n %s sts %s --replicas=N", s.namespace, s.name,
			s.namespace, s.name)
	}
	return scaler, nil
}

// scalerLine returns the state of the Scaler on one line.
func scalerLine(s *v1alpha1.Scaler) string {
	line := counted(int(s.Status.Replicas), "replica")
	for _, name := range []string{"Progressing", "Failed"} {
		if c := meta.FindStatusCondition(s.Status.Conditions, name); c != nil && c.Status == metav1.ConditionTrue {
			line += text.Printable(fmt.Sprintf(", %s: %s: %s", name, c.Reason, c.Message))
		}
	}
	return line
}

// hasScaled reports whether the scaling of the latest spec has ended with the count. It returns an error if it failed, or if the Scaler
// cannot scale at present.
func hasScaled(s *v1alpha1.Scaler, replicas int32) (bool, error) {
	if s.Status.ObservedGeneration < s.Generation {
		return false, nil
	}
	if failed := meta.FindStatusCondition(s.Status.Conditions, "Failed"); failed != nil && failed.Status == metav1.ConditionTrue {
		return true, fmt.Errorf("scaling by Scaler %s/%s failed: %s. Retry it with: kubectl -n %s annotate scaler %s drydock.dev/retry=",
			s.Namespace, s.Name, text.Printable(failed.Reason+": "+failed.Message), s.Namespace, s.Name)
	}
	progressing := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionProgressing)
	if progressing != nil && progressing.Status == metav1.ConditionTrue {
		return false, nil
	}
	if wanted := s.Spec.Replicas; wanted != nil && *wanted != replicas {
		return true, fmt.Errorf("the Scaler %s/%s requests %d members now, and not %d: its mode or another client has changed spec.replicas",
			s.Namespace, s.Name, *wanted, replicas)
	}
	unhealthy := meta.IsStatusConditionFalse(s.Status.Conditions, v1alpha1.ConditionHealthy)
	if s.Status.Replicas != replicas && progressing != nil && (unhealthy || s.Spec.Paused) {
		return true, fmt.Errorf("no scaling by Scaler %s/%s can begin: %s", s.Namespace, s.Name,
			text.Printable(progressing.Reason+": "+progressing.Message))
	}
	return s.Status.Replicas == replicas, nil
}
