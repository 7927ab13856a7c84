// Package growvolumes raises the floors of a StatefulSet's volumes when they are nearly full. The set or its namespace must have rules for
// growth.
//
//	in    object.changed, which the sweep of sift sends for sets with rules for growth
//	get   the StatefulSet, its claims, the ConfigMap drydock-grow; the usage of the volumes from Prometheus or from the kubelets of
//	      the members' nodes; StorageClasses if a volume is nearly full, and the namespace if Drydock is to change a custom resource
//	do    patch StatefulSet: the annotations drydock.dev/grow-to and drydock.dev/growth; create a token of the account volume-stats
//	out   nothing: detect-resize observes the floors
//	never writes the user's request, never lets volumes grow that would stop a member, and never uses figures that are missing,
//	old or contradictory
package growvolumes

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/events"
	"drydock.dev/shared/grow"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// Function is the function grow-volumes.
type Function struct {
	client   *kube.Client
	settings api.Settings
	apply    *apply.Executor
	log      *slog.Logger
	kubelets chan struct{} // has a value for each kubelet that is asked at the moment
}

// New returns the function.
func New(client *kube.Client, settings api.Settings, log *slog.Logger) *Function {
	return &Function{client: client, settings: settings, apply: apply.New(client, api.GrowVolumes, log), log: log,
		kubelets: make(chan struct{}, parallelKubelets)}
}

// Handle is safe to repeat, to reorder and to run twice at once: it reads the live set for each event. It measures the volumes once for
// each event, also if a conflict repeats the decision.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	var measured *measurement
	return f.apply.Handle(ctx, e, func(ctx context.Context, ref events.Ref) (plan.Plan, error) {
		in, err := f.observe(ctx, ref, &measured)
		if err != nil {
			return plan.Plan{}, err
		}
		decided, warnings := decideWithWarnings(in)
		f.apply.SetGrowthMetric(ctx, ref, countStuck(warnings))
		return decided, nil
	})
}

// measurement is the usage of a set's volumes, by claim, from one source.
type measurement struct{ usage map[string]grow.Usage }

// maxClaims bounds the number of claims that are read for a set.
const maxClaims = 10_000

// observe reads the input of Decide. It measures the volumes once for each event, and only if the set may grow.
func (f *Function) observe(ctx context.Context, ref events.Ref, measured **measurement) (Input, error) {
	in := Input{Observed: &world.Observed{Now: time.Now(), Name: ref.Name}}
	set := &appsv1.StatefulSet{}
	found, err := f.client.Get(ctx, plan.StatefulSets, ref.Namespace, ref.Name, set)
	if err != nil || !found {
		return in, err
	}
	in.Set = set
	if err := f.observeRules(ctx, &in); err != nil || in.inactiveReason() != "" || in.RulesError != "" {
		return in, err
	}
	if err := f.observeClaims(ctx, &in); err != nil {
		return in, err
	}
	if *measured == nil {
		*measured = &measurement{f.measure(ctx, in)}
	}
	in.Usage = (*measured).usage
	if needs, _ := in.findNeeds(); len(needs) == 0 {
		return in, nil
	}
	if updatesOwner(set) {
		if in.Consent, err = f.client.OwnerConsent(ctx, set.Namespace); err != nil {
			return in, err
		}
	}
	return in, f.observeClasses(ctx, &in)
}

// observeRules reads the rules of the set. A set without its own rules has the default rules of its namespace.
func (f *Function) observeRules(ctx context.Context, in *Input) error {
	var config *corev1.ConfigMap
	if _, own := in.Set.Annotations[api.GrowAnnotation]; !own && statefulset.Managed(in.Set) {
		read := &corev1.ConfigMap{}
		found, err := f.client.Get(ctx, plan.ConfigMaps, in.Set.Namespace, api.GrowConfigMap, read)
		if err != nil {
			return err
		}
		if found {
			config = read
		}
	}
	if in.Enabled = grow.IsEnabled(in.Set, config != nil); !in.Enabled {
		return nil
	}
	rules, err := grow.RulesOf(in.Set, config)
	if err != nil {
		in.RulesError = err.Error()
	}
	in.Rules = rules
	return nil
}

func (f *Function) observeClaims(ctx context.Context, in *Input) error {
	err := kube.Pages(ctx, f.client, plan.Claims, in.Set.Namespace, "", &corev1.PersistentVolumeClaimList{},
		func(l *corev1.PersistentVolumeClaimList) {
			for i := range l.Items {
				if _, _, ok := statefulset.ParseClaimName(in.Set, l.Items[i].Name); ok && len(in.Claims) < maxClaims {
					in.Claims = append(in.Claims, l.Items[i].DeepCopy()) // a pointer would keep the whole page
				}
			}
		})
	if err == nil && len(in.Claims) == maxClaims {
		return fmt.Errorf("StatefulSet %s/%s has %d claims or more, which are too many. Delete the claims of removed members",
			in.Set.Namespace,
			in.Set.Name, maxClaims)
	}
	return err
}

func (f *Function) observeClasses(ctx context.Context, in *Input) error {
	in.Classes = map[string]*storagev1.StorageClass{}
	for _, c := range in.Claims {
		name := statefulset.ClassOf(c)
		// a tenant can write any class name on an unbound claim
		if _, read := in.Classes[name]; read || name == "" || c.Status.Phase != corev1.ClaimBound {
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

// measure returns the usage of the volumes from the source in the settings. It omits a volume without figures, and logs why.
func (f *Function) measure(ctx context.Context, in Input) map[string]grow.Usage {
	ctx, cancel := context.WithTimeout(ctx, f.settings.GrowTimeout)
	defer cancel()
	var usage map[string]grow.Usage
	var err error
	switch f.settings.GrowUsage {
	case api.GrowByKubelet, "":
		usage, err = f.usageFromKubelets(ctx, in)
	case api.GrowByPrometheus:
		usage, err = f.usageFromPrometheus(ctx, in)
	default:
		err = fmt.Errorf("DRYDOCK_GROW_USAGE=%s is no source of usage. Set it to %s or %s", f.settings.GrowUsage, api.GrowByKubelet,
			api.GrowByPrometheus)
	}
	if err != nil {
		f.log.WarnContext(ctx, "cannot measure the volumes of a StatefulSet", "set", in.Set.Namespace+"/"+in.Set.Name, "error", err.Error())
	}
	return usage
}
