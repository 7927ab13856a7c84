package model

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// Scenario describes the first state of a run: a running set, and a resize in phase Moving whose members are all Pending.
type Scenario struct {
	Name     string
	Members  int
	Strategy api.Strategy
	Parallel bool
	// Budget is minAvailable of a PodDisruptionBudget. 0 means that there is none.
	Budget int
	// Without is the number of members that have claims but no pod. The set has fewer replicas than Members by this number.
	Without int
	// Prompt lets a possible step of a controller's bookkeeping happen before any other step. This reduces the number of interleavings.
	Prompt bool
	// Faults is the maximum number of faults in a run.
	Faults int
}

// World returns the scenario's first state.
func (s Scenario) World() *World {
	w := newWorld()
	w.prompt = s.Prompt
	w.budget, w.faults, w.replicas, w.rolling = s.Budget, s.Faults, int32(s.Members-s.Without), s.Strategy == api.StrategyRolling
	_ = w.create(plan.StatefulSets, s.set())
	for ordinal := range s.Members {
		w.addMember(ordinal, ordinal < int(w.replicas))
	}
	edit(w, plan.StatefulSets, setName, func(set *appsv1.StatefulSet) { set.Status = statusOf(w, set) })
	record := s.record(w)
	edit(w, plan.StatefulSets, setName, func(set *appsv1.StatefulSet) {
		set.Annotations = map[string]string{api.StatusAnnotation: record.Encode()}
	})
	return w
}

func (s Scenario) set() *appsv1.StatefulSet {
	labels := map[string]string{"app": setName}
	set := &appsv1.StatefulSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}}
	set.Namespace, set.Name, set.Labels = namespace, setName, map[string]string{api.ManagedLabel: "true"}
	set.Spec = appsv1.StatefulSetSpec{
		Replicas: ptr.To(int32(s.Members - s.Without)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		PodManagementPolicy: appsv1.OrderedReadyPodManagement,
	}
	if s.Parallel {
		set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	}
	set.Spec.Template.Labels, set.Spec.Template.Annotations = labels, map[string]string{"version": "1"}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "registry.example/app"}}
	set.Spec.Template.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1000)}
	claim := corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: ptr.To("old"),
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")}},
	}}
	claim.Name = "data"
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claim}
	return set
}

// addMember creates the claim of a member and its volume. If the member runs, it also creates a running pod.
func (w *World) addMember(ordinal int, runs bool) {
	set := w.set()
	for _, step := range missingClaims(w, set, ordinal) {
		step.do(w)
	}
	name := statefulset.ClaimName(set, "data", ordinal)
	w.claims = append(w.claims, name)
	for range 5 {
		for _, step := range volumeBinder(w) {
			step.do(w)
		}
	}
	w.contents[w.claim(name).Spec.VolumeName] = content{claim: name, current: true}
	if !runs {
		return
	}
	pod := statefulset.PodName(set, ordinal)
	_ = w.create(plan.Pods, memberPod(set, ordinal))
	edit(w, plan.Pods, pod, func(p *corev1.Pod) { p.Spec.NodeName = node })
	w.start(w.pod(pod))
	w.report(w.pod(pod), w.processes[w.pod(pod).UID])
}

// record returns the record of a resize to half the size and another StorageClass, so the set has to be created again. Its members have
// not been changed yet.
func (s Scenario) record(w *World) *api.Resize {
	size, before := resource.MustParse("32Mi"), resource.MustParse("64Mi")
	r := &api.Resize{
		Header: api.Header{Version: api.RecordVersion, Kind: api.KindResize, Phase: api.Moving, Request: "data=32Mi,new", Attempt: 1,
			Set: api.SetRef{Name: setName, UID: w.set().UID}, Started: metav1.NewTime(w.now),
			Deadline: &metav1.Time{Time: w.now.Add(20 * time.Hour)}},
		Strategy: s.Strategy, ReplaceSet: true,
		Templates: []api.TemplateTarget{{Name: "data", Size: size, Class: "new"}},
		Before:    []api.TemplateTarget{{Name: "data", Size: before, Class: "old"}},
	}
	r.Operation = api.OperationID(w.set().UID, r.Request, 1)
	for ordinal := range s.Members {
		claim := w.claim(fmt.Sprintf("data-%s-%d", setName, ordinal))
		r.Members = append(r.Members, api.Member{Ordinal: ordinal, Phase: api.MemberPending,
			Claims: []api.Move{{Claim: claim.Name, UID: claim.UID,
				Template: "data", From: before, To: size, Class: "new", OldVolume: claim.Spec.VolumeName}}})
	}
	return r
}
