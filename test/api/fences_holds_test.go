//go:build cluster

package api

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
)

var holdThefts = []theft{
	{"hold a member of a StatefulSet", func(s *thief) error { return s.patchPod("web-0", holdPatch(s.loot, api.RoleHeld)) }, "restore"},
	{"hold a member without naming an operation, or a pod that belongs to no StatefulSet", func(s *thief) error {
		for _, body := range []string{`{"metadata":{"finalizers":["drydock.dev/hold"]}}`, holdPatch(s.loot, api.RoleMover),
			fmt.Sprintf(`{"metadata":{"finalizers":[%q],"annotations":{%q:%q}}}`, api.HoldFinalizer, api.OperationAnnotation,
				linkTo(s.loot, api.RoleHeld))} {
			if err := s.patchPod("web-0", body); err == nil {
				return nil
			}
		}
		for name := range strange {
			if err := s.patchPod(name, holdPatch(s.loot, api.RoleHeld)); err == nil {
				return nil
			}
		}
		return s.patchPod("loose", holdPatch(s.loot, api.RoleHeld))
	}, ""},
	{"take the hold off a member", func(s *thief) error { return s.patchPod("part-0", `{"metadata":{"finalizers":null}}`) }, "restore"},
	{"change any other label, annotation, finalizer or owner of a pod", func(s *thief) error {
		for _, pod := range []string{"web-0", "part-0", s.mover, "loose"} {
			for _, body := range []string{`"labels":{"app":"x"}`, `"labels":{"new":"x"}`, `"annotations":{"note":"x"}`,
				`"annotations":{"drydock.dev/claim":"x"}`, `"finalizers":["example.com/x"]`,
				`"finalizers":["drydock.dev/freeze"]`, `"ownerReferences":null`,
				`"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"x"}]`} {
				if pod == "loose" && strings.Contains(body, "null") {
					continue // it has none
				}
				if err := s.patchPod(pod, `{"metadata":{`+body+`}}`); err == nil {
					s.w.T.Logf("pod %s takes %s", pod, body)
					return nil
				}
			}
		}
		for _, body := range []string{`"annotations":{"karpenter.sh/do-not-disrupt":"false"}`,
			`"annotations":{"karpenter.sh/do-not-disrupt":null}`, `"labels":{"job-name":null}`} {
			if err := s.patchPod(s.mover, `{"metadata":{`+body+`}}`); err == nil { // it has them
				return nil
			}
		}
		if err := s.patchPod("part-0", `{"metadata":{"labels":{"app":null}}}`); err == nil {
			return nil
		}
		return s.patchPod("web-0", `{"spec":{"activeDeadlineSeconds":1}}`)
	}, ""},
	{"delete a member that is held", func(s *thief) error { return s.deletePod("part-0") }, "cleanup-pod restore"},
	{"kill a member without its time to end", func(s *thief) error {
		return s.kube.CoreV1().Pods(s.w.Namespace).Delete(s.ctx, "part-0",
			metav1.DeleteOptions{DryRun: dry, GracePeriodSeconds: ptr.To[int64](0)})
	}, ""},
	{"evict a pod that is named like a replica's, as its PodDisruptionBudgets allow",
		func(s *thief) error { return s.evict("web-0", nil) }, "detect-resize restore"},
	{"evict any other pod, or one without its time to end", func(s *thief) error {
		for _, change := range []func(*metav1.DeleteOptions){
			func(o *metav1.DeleteOptions) { o.GracePeriodSeconds = ptr.To[int64](0) },
			func(o *metav1.DeleteOptions) { o.Preconditions = nil },
		} {
			if err := s.evict("web-0", change); err == nil {
				return nil
			}
		}
		return s.evict("loose", nil)
	}, ""},
	{"take the name of a replica that does not exist by a pod that never runs, and give it back", func(s *thief) error {
		if err := s.createLock(func(*corev1.Pod) {}); err != nil {
			return err
		}
		if err := s.deletePod("web-8"); err != nil {
			return err
		}
		return s.patchPod("web-8", `{"metadata":{"finalizers":null}}`)
	}, "restore"},
	{"make such a pod that could run, use a claim or an account, or has another name", func(s *thief) error {
		yes := true
		for _, change := range []func(*corev1.Pod){
			func(p *corev1.Pod) { p.Name = "mine" },
			func(p *corev1.Pod) { p.Name = "plain-9" },
			func(p *corev1.Pod) { p.Spec.SchedulingGates = nil },
			func(p *corev1.Pod) { p.Spec.SchedulingGates[0].Name = "example.com/other" },
			func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{claimVolume("data-plain-0")} },
			func(p *corev1.Pod) { p.Spec.ServiceAccountName = "other" },
			func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = &yes },
			func(p *corev1.Pod) { p.Spec.HostPID = true },
			func(p *corev1.Pod) { p.Finalizers = nil },
			func(p *corev1.Pod) { p.Finalizers = []string{"example.com/x"} },
			func(p *corev1.Pod) { p.Labels = nil },
			func(p *corev1.Pod) { p.Annotations[api.OperationAnnotation] = linkTo(s.loot, api.RoleMover) },
			func(p *corev1.Pod) { p.OwnerReferences = nil },
			func(p *corev1.Pod) { p.OwnerReferences[0].Controller = &yes },
		} {
			if err := s.createLock(change); err == nil {
				return nil
			}
		}
		return s.createLock(func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "ConfigMap" })
	}, ""},
}

func claimVolume(claim string) corev1.Volume {
	return corev1.Volume{Name: "x", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}
}

// holdPatch returns restore's patch that holds a pod, with a link of the role.
func holdPatch(l loot, role api.Role) string {
	return fmt.Sprintf(`{"metadata":{"finalizers":[%q],"labels":{%q:%q},"annotations":{%q:%q}}}`, api.HoldFinalizer,
		api.OperationLabel, operation, api.OperationAnnotation, linkTo(l, role))
}

func (s *thief) patchPod(name, body string) error {
	_, err := s.kube.CoreV1().Pods(s.w.Namespace).Patch(s.ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: dry})
	return err
}

// createLock creates restore's lock pod with a change. It is no dry run, because in a dry run the function may try any
// pod.
func (s *thief) createLock(change func(*corev1.Pod)) error {
	pod := resources.MakeLock(s.web, operation, 8, s.w.Settings)
	change(pod)
	return s.createReal(pod)
}

// evict evicts the pod as restore does, with a change.
func (s *thief) evict(name string, change func(*metav1.DeleteOptions)) error {
	pod, err := s.loot.w.Kube.CoreV1().Pods(s.w.Namespace).Get(s.ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	options := &metav1.DeleteOptions{DryRun: dry, Preconditions: &metav1.Preconditions{UID: &pod.UID}}
	if change != nil {
		change(options)
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: s.w.Namespace, Name: name}, DeleteOptions: options}
	return s.kube.PolicyV1().Evictions(s.w.Namespace).Evict(s.ctx, eviction)
}
