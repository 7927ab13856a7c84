package command

import (
	"context"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"drydock.dev/cmd/kubectl-drydock/doctor"
	"drydock.dev/shared/api"
)

// standaloneName is the name of the Deployment and of the Lease of drydock-standalone.
const standaloneName = "drydock-standalone"

// knativeObject is the part of a Knative object that doctor reads.
type knativeObject struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Status struct {
		Conditions []knativeCondition `json:"conditions"`
	} `json:"status"`
}

type knativeCondition struct {
	Type               string      `json:"type"`
	Status             string      `json:"status"`
	Reason             string      `json:"reason"`
	Message            string      `json:"message"`
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
}

// condition returns the condition of the type. It returns one without a status if the object does not have it.
func (o *knativeObject) condition(name string) knativeCondition {
	for _, c := range o.Status.Conditions {
		if c.Type == name {
			return c
		}
	}
	return knativeCondition{Message: "its controller has not set the condition " + name}
}

func (e examination) installed(ctx context.Context) doctor.Installed {
	deployment := one[appsv1.Deployment](ctx, e.session, kindOf("apps", "v1", "deployments"), api.HomeNamespace, standaloneName)
	return doctor.Installed{
		Deployment: doctor.Convert(deployment, func(d *appsv1.Deployment) *doctor.Deployment {
			if d == nil {
				return nil
			}
			replicas := int32(1)
			if d.Spec.Replicas != nil {
				replicas = *d.Spec.Replicas
			}
			return &doctor.Deployment{Replicas: replicas, Ready: d.Status.ReadyReplicas}
		}),
		Leases:      e.leases(ctx),
		Services:    e.parts(ctx, kindOf("serving.knative.dev", "v1", "services")),
		Triggers:    e.parts(ctx, kindOf("eventing.knative.dev", "v1", "triggers")),
		Brokers:     e.parts(ctx, kindOf("eventing.knative.dev", "v1", "brokers")),
		APISources:  e.parts(ctx, kindOf("sources.knative.dev", "v1", "apiserversources")),
		PingSources: e.parts(ctx, kindOf("sources.knative.dev", "v1", "pingsources")),
	}
}

// leases reads the Leases of all namespaces. A user without that right may still read that of namespace drydock.
func (e examination) leases(ctx context.Context) doctor.Answer[[]doctor.Lease] {
	kind := kindOf("coordination.k8s.io", "v1", "leases")
	found := listed[coordinationv1.Lease](ctx, e.session, kind, "", metav1.ListOptions{FieldSelector: "metadata.name=" + standaloneName})
	if found.Denied != nil {
		own := one[coordinationv1.Lease](ctx, e.session, kind, api.HomeNamespace, standaloneName)
		found = doctor.Convert(own, func(l *coordinationv1.Lease) []coordinationv1.Lease {
			if l == nil {
				return nil
			}
			return []coordinationv1.Lease{*l}
		})
	}
	return doctor.Convert(found, func(all []coordinationv1.Lease) []doctor.Lease {
		var leases []doctor.Lease
		for i := range all {
			leases = append(leases, leaseOf(&all[i]))
		}
		return leases
	})
}

func leaseOf(l *coordinationv1.Lease) doctor.Lease {
	lease := doctor.Lease{Namespace: l.Namespace}
	if l.Spec.HolderIdentity != nil {
		lease.Holder = *l.Spec.HolderIdentity
	}
	if l.Spec.AcquireTime != nil {
		lease.Acquired = l.Spec.AcquireTime.Time
	}
	if l.Spec.RenewTime != nil {
		lease.Renewed = l.Spec.RenewTime.Time
	}
	return lease
}

// parts reads the Knative objects of a kind in namespace drydock.
func (e examination) parts(ctx context.Context, kind schema.GroupVersionResource) doctor.Answer[[]doctor.Part] {
	found := listed[knativeObject](ctx, e.session, kind, api.HomeNamespace, metav1.ListOptions{})
	return doctor.Convert(found, func(all []knativeObject) []doctor.Part {
		var parts []doctor.Part
		for i := range all {
			ready := all[i].condition("Ready")
			parts = append(parts, doctor.Part{Name: all[i].Metadata.Name, Ready: ready.Status == string(metav1.ConditionTrue),
				Message: strings.TrimSpace(ready.Reason + " " + ready.Message)})
		}
		return parts
	})
}

// ticks reads the logs of the pods that hear the ticks: those of sift on Knative, and the pod with the Lease standalone.
func (e examination) ticks(ctx context.Context, i doctor.Installed) doctor.Tick {
	var t doctor.Tick
	switch {
	case i.Deployment.Value != nil && !i.Leases.Known():
		t.Logs = doctor.Convert(i.Leases, func([]doctor.Lease) []doctor.Log { return nil })
	case i.Deployment.Value != nil:
		t.Logs = e.logs(ctx, "app.kubernetes.io/component=standalone", "drydock", func(pod *corev1.Pod) (time.Time, bool) {
			for _, l := range i.Leases.Value {
				if l.Namespace == api.HomeNamespace && strings.HasPrefix(l.Holder, pod.Name+"_") {
					return l.Acquired, true
				}
			}
			return time.Time{}, false
		})
	}
	if len(i.Services.Value) == 0 || len(t.Logs.Value) > 0 || !t.Logs.Known() {
		return t
	}
	t.Logs = e.logs(ctx, "serving.knative.dev/service=sift", "function", func(pod *corev1.Pod) (time.Time, bool) {
		return pod.CreationTimestamp.Time, pod.Status.Phase != corev1.PodPending
	})
	revisions := listed[knativeObject](ctx, e.session, kindOf("serving.knative.dev", "v1", "revisions"), api.HomeNamespace,
		metav1.ListOptions{LabelSelector: "serving.knative.dev/service=sift"})
	t.SiftChanged = doctor.Convert(revisions, latestChange)
	return t
}

// latestChange returns when Knative last started or stopped the pods of a revision.
func latestChange(revisions []knativeObject) time.Time {
	var latest time.Time
	for i := range revisions {
		if changed := revisions[i].condition("Active").LastTransitionTime.Time; changed.After(latest) {
			latest = changed
		}
	}
	return latest
}

// logs reads the logs of the selected pods in namespace drydock for which since returns true.
func (e examination) logs(ctx context.Context, selector, container string, since func(*corev1.Pod) (time.Time, bool),
) doctor.Answer[[]doctor.Log] {
	pods := listed[corev1.Pod](ctx, e.session, kindOf("", "v1", "pods"), api.HomeNamespace, metav1.ListOptions{LabelSelector: selector})
	answer := doctor.Convert(pods, func([]corev1.Pod) []doctor.Log { return nil })
	for i := range pods.Value {
		begun, matters := since(&pods.Value[i])
		if !matters {
			continue
		}
		name := pods.Value[i].Name
		lines := e.log(ctx, api.HomeNamespace, name, container, doctor.TickWindow)
		if !lines.Known() {
			return doctor.Convert(lines, func(*string) []doctor.Log { return nil })
		}
		if lines.Value != nil {
			answer.Value = append(answer.Value, doctor.LogOf(name, begun, *lines.Value))
		}
	}
	return answer
}
