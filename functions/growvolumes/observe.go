package growvolumes

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/grow"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// Input is what Decide decides on.
type Input struct {
	// Observed has the set and its claims, and nothing else.
	*world.Observed
	// Asks reports whether the set asks to grow, by itself or by the default of its namespace.
	Asks  bool
	Rules grow.Rules
	// Invalid is why the rules cannot be read; empty if they can.
	Invalid string
	// Usage is the measured usage, by claim.
	Usage map[string]grow.Usage
	// Classes are the StorageClasses of claims, by name. They are read only where a volume is nearly full.
	Classes map[string]*storagev1.StorageClass
}

// measurement is the usage of a set's volumes, as one source reports it.
type measurement struct{ usage map[string]grow.Usage }

// mostClaims bounds the claims of a set that are read.
const mostClaims = 10_000

// observe reads what Decide needs. The volumes are measured once an event, and only where something could follow.
func (f *Function) observe(ctx context.Context, ref events.Ref, measured **measurement) (Input, error) {
	in := Input{Observed: &world.Observed{Now: time.Now(), Name: ref.Name}}
	set := &appsv1.StatefulSet{}
	found, err := f.client.Get(ctx, plan.StatefulSets, ref.Namespace, ref.Name, set)
	if err != nil || !found {
		return in, err
	}
	in.Set = set
	if err := f.observeRules(ctx, &in); err != nil || in.rests() != "" || in.Invalid != "" {
		return in, err
	}
	if err := f.observeClaims(ctx, &in); err != nil {
		return in, err
	}
	if *measured == nil {
		*measured = &measurement{f.measure(ctx, in)}
	}
	in.Usage = (*measured).usage
	if needs, _ := in.needs(); len(needs) > 0 {
		return in, f.observeClasses(ctx, &in)
	}
	return in, nil
}

// observeRules reads the rules of the set, or else those of its namespace.
func (f *Function) observeRules(ctx context.Context, in *Input) error {
	var config *corev1.ConfigMap
	if _, own := in.Set.Annotations[api.GrowAnnotation]; !own && statefulset.Managed(in.Set) {
		read := &corev1.ConfigMap{}
		found, err := f.client.Get(ctx, kube.ConfigMaps, in.Set.Namespace, api.GrowConfigMap, read)
		if err != nil {
			return err
		}
		if found {
			config = read
		}
	}
	if in.Asks = grow.Asks(in.Set, config != nil); !in.Asks {
		return nil
	}
	rules, err := grow.RulesOf(in.Set, config)
	if err != nil {
		in.Invalid = err.Error()
	}
	in.Rules = rules
	return nil
}

func (f *Function) observeClaims(ctx context.Context, in *Input) error {
	err := kube.Pages(ctx, f.client, plan.Claims, in.Set.Namespace, "", &corev1.PersistentVolumeClaimList{}, func(l *corev1.PersistentVolumeClaimList) {
		for i := range l.Items {
			if _, _, ok := statefulset.ParseClaimName(in.Set, l.Items[i].Name); ok && len(in.Claims) < mostClaims {
				in.Claims = append(in.Claims, l.Items[i].DeepCopy()) // a pointer would keep the whole page
			}
		}
	})
	if err == nil && len(in.Claims) == mostClaims {
		return fmt.Errorf("StatefulSet %s/%s has %d claims or more, which are too many; delete those of removed replicas", in.Set.Namespace,
			in.Set.Name, mostClaims)
	}
	return err
}

func (f *Function) observeClasses(ctx context.Context, in *Input) error {
	in.Classes = map[string]*storagev1.StorageClass{}
	for _, c := range in.Claims {
		name := statefulset.ClassOf(c)
		if _, read := in.Classes[name]; read || name == "" || c.Status.Phase != corev1.ClaimBound { // tenants write any name on a claim
			continue
		}
		class := &storagev1.StorageClass{}
		found, err := f.client.Get(ctx, kube.StorageClasses, "", name, class)
		if err != nil {
			return err
		}
		in.Classes[name] = nil
		if found {
			in.Classes[name] = class
		}
	}
	return nil
}

// measure asks the source that the settings name. It leaves out a volume without figures, and logs why.
func (f *Function) measure(ctx context.Context, in Input) map[string]grow.Usage {
	ctx, cancel := context.WithTimeout(ctx, f.settings.GrowTimeout)
	defer cancel()
	var usage map[string]grow.Usage
	var err error
	switch f.settings.GrowUsage {
	case api.GrowByKubelet, "":
		usage, err = f.byKubelets(ctx, in)
	case api.GrowByPrometheus:
		usage, err = f.byPrometheus(ctx, in)
	default:
		err = fmt.Errorf("DRYDOCK_GROW_USAGE=%s is not a source of usage; write %s or %s", f.settings.GrowUsage, api.GrowByKubelet, api.GrowByPrometheus)
	}
	if err != nil {
		f.log.WarnContext(ctx, "measuring volumes", "set", in.Set.Namespace+"/"+in.Set.Name, "error", err.Error())
	}
	return usage
}

// asked returns the names of the members' claims that have a rule, sorted.
func (in Input) asked() []string {
	var names []string
	for i := range in.Set.Spec.VolumeClaimTemplates {
		template := in.Set.Spec.VolumeClaimTemplates[i].Name
		if _, ruled := in.Rules.For(template); ruled {
			for _, c := range in.members(template) {
				names = append(names, c.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}
