package forecast

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
)

// Input has the facts for a forecast.
type Input struct {
	// Input has the facts that detect-resize would judge. Its Cluster must be set.
	resize.Input
	Overrides Overrides
	// Controller is the custom resource that controls the set. It is nil if there is none, or if it cannot be read.
	Controller *unstructured.Unstructured
	// Budgets are the PodDisruptionBudgets of the namespace.
	Budgets []policyv1.PodDisruptionBudget
}

// Overrides replaces annotations of the set. For an empty field the annotation counts.
type Overrides struct {
	Request, Method, Strategy string
}

// Forecast predicts the consequences of one resize.
type Forecast struct {
	live    *appsv1.StatefulSet
	in      Input // with a copy of the set that has opted in and has the overrides
	request *resize.Changes
	record  *api.Resize // the first record of the resize; nil if none would begin
	before  []resize.Problem
	refused []resize.Problem

	// Storage is the capacity that drivers publish. The forecast does not judge it if it is empty.
	Storage Storage
}

// New judges the set as if it had opted in and had the annotations of the overrides.
func New(in Input) *Forecast {
	f := &Forecast{live: in.Set, in: in}
	f.applyOverrides()
	if !f.addConditions() {
		return f
	}
	request := resize.Compare(f.in.Input)
	if request.Empty() {
		f.before = nil // there is nothing to wait for
		return f
	}
	f.request, f.record = request, request.Record(f.in.Input)
	f.refused = request.Problems
	for _, p := range resize.StartObstacles(f.in.Input, request) {
		if p.PassesByItself() {
			f.before = append(f.before, p)
		} else {
			f.refused = append(f.refused, p)
		}
	}
	f.refused = append(f.refused, resize.Preflight(f.in.Input, request)...)
	return f
}

// NamesAttributes reports whether the request names a VolumeAttributesClass. The forecast then needs the cluster's VolumeAttributesClasses.
func NamesAttributes(in Input) bool {
	f := &Forecast{in: in}
	f.applyOverrides()
	return f.addConditions() && resize.Compare(f.in.Input).NamesAttributes()
}

// applyOverrides opts a copy of the set in and adds the overrides. Each change becomes a condition in Before.
func (f *Forecast) applyOverrides() {
	set, observed := f.in.Set.DeepCopy(), *f.in.Observed
	observed.Set, f.in.Observed = set, &observed
	set.Labels, set.Annotations = nonNil(set.Labels), nonNil(set.Annotations)
	if !statefulset.Managed(set) {
		f.addCondition(api.NotManaged, "the set opts in: %s", f.in.Registry.OptInCommand(set))
		set.Labels[api.ManagedLabel] = "true"
	}
	for _, a := range []struct{ key, value string }{
		{api.ResizeMethodAnnotation, f.in.Overrides.Method},
		{api.StrategyAnnotation, f.in.Overrides.Strategy},
		{api.ResizeAnnotation, f.in.Overrides.Request},
	} {
		if a.value == "" || set.Annotations[a.key] == a.value {
			continue
		}
		f.addCondition(api.NotRequested, "you request it: kubectl -n %s annotate --overwrite sts %s '%s=%s'", set.Namespace, set.Name, a.key,
			a.value)
		set.Annotations[a.key] = a.value
	}
}

// nonNil returns a copy of the map that can be written.
func nonNil(all map[string]string) map[string]string {
	if all == nil {
		return map[string]string{}
	}
	return maps.Clone(all)
}

// addCondition adds a condition to Before. The message completes the sentence "Nothing would happen until ...".
func (f *Forecast) addCondition(reason api.Reason, format string, args ...any) {
	f.before = append(f.before, resize.Problem{Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// addConditions adds the conditions that must hold before the resize can begin. It reports whether the consequences can be predicted now:
// they can if the conditions do not change the work of the resize.
func (f *Forecast) addConditions() bool {
	set := f.in.Set
	reason, err := resize.ReasonNotToStart(f.in.Input)
	record, _ := f.in.Record() // the error is the same as above
	switch {
	case reason == "":
		return true
	case reason == api.NotRequested:
		f.before = nil
		return false
	case reason == api.RequestInvalid:
		f.addCondition(reason, "you shorten the request: %v", err)
		return false
	case err != nil:
		f.addCondition(reason, "you repair or remove the annotation %s: %v", api.StatusAnnotation, err)
		return false
	case reason == api.SetGone:
		f.addCondition(reason, "the set, which is being deleted, is created again")
		return false
	case record.Active():
		f.addCondition(reason, "operation %s (%s), which is %s, ends", record.Operation, record.Purpose(), record.Phase)
		return false
	case reason == api.AlreadyRefused:
		f.addCondition(reason, "you retry the request, which is %s (%s): kubectl drydock -n %s retry sts/%s", record.Phase, record.Reason,
			set.Namespace, set.Name)
		f.in.Retry = &resize.Retry{}
		return true
	}
	f.addCondition(reason, "the sleep or cleanup of the set ends. The rest of this plan assumes the set as it is now")
	return true
}

// moves returns the claims of the members that stop.
func (f *Forecast) moves() []*api.Move {
	if f.record == nil {
		return nil
	}
	return f.record.Moves()
}

// Nodes returns the nodes whose kubelets measure the claims to be copied, sorted.
func (f *Forecast) Nodes() []string {
	var nodes []string
	for _, move := range f.moves() {
		for _, pod := range f.in.Users(move.Claim) {
			if pod.Spec.NodeName != "" {
				nodes = append(nodes, pod.Spec.NodeName)
			}
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// Provisioners returns the provisioners of the volumes that would be created or would grow.
func (f *Forecast) Provisioners() []string {
	var all []string
	for _, class := range f.classes() {
		if !slices.Contains(all, class.Provisioner) {
			all = append(all, class.Provisioner)
		}
	}
	return all
}

func (f *Forecast) classes() []*storagev1.StorageClass {
	var all []*storagev1.StorageClass
	if f.record == nil {
		return nil
	}
	for _, c := range f.claims(nil) {
		if class := f.in.Cluster.Classes[cmp.Or(c.NewClass, c.Class)]; class != nil {
			all = append(all, class)
		}
	}
	return all
}
