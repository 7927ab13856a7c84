//go:build cluster

package api

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit"
)

// accounts are the accounts in config/accounts.
var accounts = []string{"backup", "cleanup-pod", "dead-letter", "detect-resize", "grow-volumes", "idle-timeout", "pause-owner", "restore",
	"scale", "sift", "source", "status-page", "wake-gateway"}

// theft is an attempt with a stolen token, in the words of docs/security.md.
type theft struct {
	what string
	try  func(*thief) error
	who  string // the accounts whose token suffices; empty for none
}

// thefts are all attempts, in the order of the page.
var thefts = [][]theft{setThefts, recordThefts, volumeThefts, moverThefts, scalerThefts, autoscalerThefts, holdThefts, podThefts}

var setThefts = []theft{
	{"give a StatefulSet another pod template", func(s *thief) error {
		return s.patchSet("web", `{"spec":{"template":{"spec":{"serviceAccountName":"other","hostPID":true}}}}`)
	}, ""},
	{"scale a StatefulSet that has opted in", func(s *thief) error { return s.patchSet("web", `{"spec":{"replicas":3}}`) },
		"scale"},
	{"start any StatefulSet that is at zero", func(s *thief) error { return s.patchSet("zero", `{"spec":{"replicas":3}}`) },
		"scale"},
	{"have the next scale-down of a StatefulSet that has opted in delete its claims", func(s *thief) error {
		return s.patchSet("web", `{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Delete"}}}`)
	}, "scale"},
	{"write the annotation `drydock.dev/stop`", func(s *thief) error { return s.annotateSet("web", api.StopAnnotation) }, "scale"},
	{"scale or annotate any other StatefulSet", func(s *thief) error {
		if err := s.annotateSet("plain", api.AwakeUntilAnnotation); err == nil {
			return nil
		}
		return s.patchSet("plain", `{"spec":{"replicas":3}}`)
	}, ""},
	{"ask for larger volumes of a StatefulSet that has opted in, where they can grow in place",
		func(s *thief) error { return s.raiseFloors("data=1Gi,logs=2Gi") }, "grow-volumes"},
	{"ask for volumes that are smaller, or of another class or access mode, or that members are stopped for", func(s *thief) error {
		for _, floors := range []string{"data=1Gi+", "data=1Gi@other", "data=1Gi:RWX", "auto", "data=1Gi,serviceName=db", "data=-1Gi"} {
			if err := s.raiseFloors(floors); err == nil {
				return nil
			}
		}
		return s.annotateSet("web", api.ResizeAnnotation)
	}, ""},
	{"write the annotation `drydock.dev/awake-until`", func(s *thief) error { return s.annotateSet("web", api.AwakeUntilAnnotation) },
		"wake-gateway"},
	{"write the annotation `drydock.dev/last-activity`", func(s *thief) error { return s.annotateSet("web", api.LastActivityAnnotation) },
		"idle-timeout"},
	{"write the annotation `drydock.dev/dead-letters`", func(s *thief) error { return s.annotateSet("web", api.DeadLettersAnnotation) },
		"dead-letter"},
	{"write a cleanup pod's template, or how movers run", func(s *thief) error {
		if err := s.annotateSet("web", api.MoverAnnotation); err == nil {
			return nil
		}
		return s.annotateSet("web", api.CleanupTemplateAnnotation)
	}, ""},
	{"have a StatefulSet opt in", func(s *thief) error {
		return s.patchSet("plain", `{"metadata":{"labels":{"drydock.dev/managed":"true"}}}`)
	}, ""},
	{"change other annotations or labels", func(s *thief) error {
		return s.patchSet("web", `{"metadata":{"annotations":{"team":"x"},"labels":{"app":"x"}}}`)
	}, "backup cleanup-pod detect-resize grow-volumes idle-timeout pause-owner restore scale"},
	{"change the older key of a cleanup pod's template, an owner or a finalizer of others", func(s *thief) error {
		for _, metadata := range []string{`"annotations":{"statefulsets.kubernetes.io/scaledown-pod-template":"x"}`,
			`"finalizers":["example.com/x"]`,
			`"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"x"}]`} {
			if err := s.patchSet("web", `{"metadata":{`+metadata+`}}`); err == nil {
				return nil
			}
		}
		return s.patchSet("web", `{"metadata":{"labels":{"drydock.dev/group":"x"}}}`)
	}, ""},
	{"say of any StatefulSet at zero that it has an operation",
		func(s *thief) error { return s.writeRecord("zero", api.KindResize, another, api.Planned) }, ""},
	{"delete a StatefulSet with its pods", func(s *thief) error { return s.deleteSet("web", metav1.DeletePropagationBackground) }, ""},
	{"delete a StatefulSet that has the record of an operation, without its pods",
		func(s *thief) error { return s.deleteSet("web", metav1.DeletePropagationOrphan) }, "restore"},
	{"delete any other StatefulSet without its pods", func(s *thief) error {
		return s.deleteSet("plain", metav1.DeletePropagationOrphan)
	}, ""},
	{"create a StatefulSet, with any service account of its namespace",
		func(s *thief) error { return s.createSet(func(*appsv1.StatefulSet) {}) }, "restore"},
	{"create a StatefulSet whose pods have access to their node", func(s *thief) error {
		for _, change := range []func(*corev1.PodSpec){
			func(p *corev1.PodSpec) { p.HostPID = true },
			func(p *corev1.PodSpec) { p.HostNetwork = true },
			func(p *corev1.PodSpec) {
				p.Volumes = []corev1.Volume{{Name: "x",
					VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
			},
			func(p *corev1.PodSpec) { p.Containers[0].SecurityContext = privileged() },
			func(p *corev1.PodSpec) { p.Containers[0].SecurityContext = powerful("SYS_ADMIN") },
			func(p *corev1.PodSpec) { p.Containers[0].SecurityContext = powerful("cap_sys_module") },
			func(p *corev1.PodSpec) {
				p.Volumes = []corev1.Volume{{Name: "x",
					VolumeSource: corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{Driver: "x/y"}}}}
			},
		} {
			if err := s.createSet(func(set *appsv1.StatefulSet) { change(&set.Spec.Template.Spec) }); err == nil {
				return nil
			}
		}
		return s.createSet(func(set *appsv1.StatefulSet) {
			set.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "x", Image: "x", SecurityContext: privileged()}}
		})
	}, ""},
}

var volumeThefts = []theft{
	{"point a volume at a claim of another namespace", func(s *thief) error {
		return s.patchVolume(s.volume, `{"spec":{"claimRef":{"namespace":"default"}}}`)
	}, ""},
	{"point a volume at another claim of its namespace", func(s *thief) error {
		return s.patchVolume(s.volume, `{"spec":{"claimRef":{"name":"other","uid":null}}}`)
	}, "restore"},
	{"have a volume of policy `Delete` deleted by pointing it at another claim", func(s *thief) error {
		return s.patchVolume(s.copy, `{"spec":{"claimRef":{"name":"other","uid":null}}}`)
	}, ""},
	{"keep a volume (`Delete` to `Retain`)", func(s *thief) error {
		return s.patchVolume(s.copy, `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)
	}, "backup restore"},
	{"give up a volume (`Retain` to `Delete`)", func(s *thief) error {
		return s.patchVolume(s.volume, `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
	}, ""},
	{"say falsely that a volume is a copy, or was `Delete` before", func(s *thief) error {
		if err := s.patchVolume(s.volume, `{"metadata":{"annotations":{"drydock.dev/reclaim-policy":"Delete"}}}`); err == nil {
			return nil
		}
		return s.patchVolume(s.volume, fmt.Sprintf(`{"metadata":{"annotations":{"drydock.dev/operation":%q}}}`,
			linkTo(s.loot, api.RoleTarget)))
	}, ""},
	{"delete a volume", func(s *thief) error {
		return s.kube.CoreV1().PersistentVolumes().Delete(s.ctx, s.volume, metav1.DeleteOptions{DryRun: dry})
	}, ""},
	{"have a claim ask for more, where its class grows", func(s *thief) error {
		return s.patchClaim("data-plain-0", `{"spec":{"resources":{"requests":{"storage":"128Mi"}}}}`)
	}, "detect-resize"},
	{"have a claim that is part of an operation ask for more, where its class grows", func(s *thief) error {
		return s.patchClaim("data-plain-1", `{"spec":{"resources":{"requests":{"storage":"128Mi"}}}}`)
	}, "detect-resize restore"},
	{"have a volume get another VolumeAttributesClass", func(s *thief) error {
		return s.patchClaim("data-plain-0", `{"spec":{"volumeAttributesClassName":"gold"}}`)
	}, "detect-resize"},
	{"take an annotation, a label or a finalizer of others from a claim", func(s *thief) error {
		for _, metadata := range []string{`"labels":{"app":null}`, `"finalizers":null`} {
			if err := s.patchClaim("data-plain-0", `{"metadata":{`+metadata+`}}`); err == nil {
				return nil
			}
		}
		return s.patchClaim("data-plain-0", `{"metadata":{"annotations":{"pv.kubernetes.io/bind-completed":null}}}`)
	}, ""},
	{"take the protection off a claim that an operation replaces",
		func(s *thief) error { return s.patchClaim("data-part-0", `{"metadata":{"finalizers":null}}`) }, "restore"},
	{"take the protection off any other claim", func(s *thief) error {
		if err := s.patchClaim("data-part-1", `{"metadata":{"finalizers":null}}`); err == nil { // it is being deleted
			return nil
		}
		return s.patchClaim("linked", `{"metadata":{"finalizers":null}}`) // it belongs to an operation
	}, ""},
	{"add an owner to a claim", func(s *thief) error {
		return s.patchClaim("data-plain-0",
			`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"x"}]}}`)
	}, "restore"},
	{"link a claim to an operation, so that restore may delete it", func(s *thief) error {
		return s.patchClaim("other", `{"metadata":{"labels":{"drydock.dev/operation":"`+operation+`"}}}`)
	}, "backup restore"},
	{"create a temporary claim", func(s *thief) error { return s.createClaim(func(*corev1.PersistentVolumeClaim) {}) }, "backup"},
	{"create a claim on a volume that it names", func(s *thief) error {
		return s.createClaim(func(c *corev1.PersistentVolumeClaim) { c.Name, c.Spec.VolumeName = "data-web-9", s.volume })
	}, "restore"},
	{"create any other claim, or one from a snapshot or another claim", func(s *thief) error {
		if err := s.createClaim(func(c *corev1.PersistentVolumeClaim) { c.Name = "mine" }); err == nil {
			return nil
		}
		return s.createClaim(func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "data-web-0"}
		})
	}, ""},
	{"delete a claim that is part of an operation", func(s *thief) error { return s.deleteClaim("linked") }, "restore"},
	{"delete a claim that is named like a replica's", func(s *thief) error { return s.deleteClaim("data-plain-0") }, "cleanup-pod"},
	{"delete any other claim", func(s *thief) error { return s.deleteClaim("other") }, ""},
	{"have a volume of policy `Delete` deleted, in several writes", func(s *thief) error {
		_, err := s.kube.CoreV1().PersistentVolumes().Patch(s.ctx, s.copy, types.MergePatchType, []byte(`{"metadata":{"annotations":{`+
			`"drydock.dev/reclaim-policy":"Delete"}},"spec":{"persistentVolumeReclaimPolicy":"Retain",`+
			`"claimRef":{"name":"gone","uid":"gone"}}}`), metav1.PatchOptions{})
		if err != nil {
			return err
		}
		return s.patchVolume(s.copy, `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
	}, "restore"},
}

var podThefts = []theft{
	{"run a pod with the marks of a cleanup pod, with any service account of its namespace", func(s *thief) error {
		return s.createRealPod(func(*corev1.Pod) {}) // detect-resize may try a pod in a dry run
	}, "cleanup-pod"},
	{"run any other pod, or a pod that takes over its node", func(s *thief) error {
		for _, change := range []func(*corev1.Pod){
			func(p *corev1.Pod) { p.Name = "mine" },
			func(p *corev1.Pod) { p.Finalizers = nil },
			func(p *corev1.Pod) { p.Labels = nil },
			func(p *corev1.Pod) { p.Spec.HostPID = true },
			func(p *corev1.Pod) { p.Spec.HostIPC = true },
			func(p *corev1.Pod) { p.Spec.HostNetwork = true },
			func(p *corev1.Pod) { p.Annotations[api.OperationAnnotation] = linkTo(s.loot, api.RoleMover) },
			func(p *corev1.Pod) { p.OwnerReferences[0].Controller = ptr.To(true) },
			func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext = privileged() },
			func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext = powerful("ALL") },
		} {
			pod := func(p *corev1.Pod) { change(p) }
			if err := s.createRealPod(pod); err == nil {
				return nil
			}
		}
		return s.createRealPod(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "x",
				VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		})
	}, ""},
	{"change what a running pod runs", func(s *thief) error {
		_, err := s.kube.CoreV1().Pods(s.w.Namespace).Patch(s.ctx, "web-0", types.StrategicMergePatchType,
			[]byte(`{"spec":{"containers":[{"name":"db","image":"example.com/other:1"}]}}`), metav1.PatchOptions{DryRun: dry})
		return err
	}, ""},
	{"delete a pod of a StatefulSet", func(s *thief) error { return s.deletePod("web-0") }, "cleanup-pod"},
	{"delete any other pod", func(s *thief) error {
		for name := range strange {
			if err := s.deletePod(name); err == nil {
				return nil
			}
		}
		return s.deletePod("loose")
	}, ""},
	{"run a command in a pod", func(s *thief) error { return s.exec("web-0") }, ""},
	{"read how full the volumes of nodes are, by a token of the account volume-stats",
		func(s *thief) error { return s.createToken(api.StatsAccount) },
		"grow-volumes"},
	{"create a token of any other account", func(s *thief) error {
		for _, account := range accounts {
			if err := s.createToken(account); err == nil {
				return nil
			}
		}
		return s.createToken("default")
	}, ""},
	{"read a Secret", func(s *thief) error {
		_, err := s.kube.CoreV1().Secrets(s.w.Namespace).List(s.ctx, metav1.ListOptions{})
		return err
	}, ""},
	{"read the log of a pod", func(s *thief) error { return s.readLog("web-0") }, "backup"},
	{"write the journal of an operation", func(s *thief) error { return s.createRevision("drydock-"+operation, nil) }, "backup restore"},
	{"order that a StatefulSet is created", func(s *thief) error {
		return s.createRevision("drydock-"+operation, map[string]string{api.RecreateAnnotation: "{}"})
	}, "restore"},
	{"delete a revision of a StatefulSet", func(s *thief) error {
		return s.kube.AppsV1().ControllerRevisions(s.w.Namespace).Delete(s.ctx, s.web.Status.CurrentRevision,
			metav1.DeleteOptions{DryRun: dry})
	}, ""},
	{"write anything in `kube-system`, `kube-public`, `kube-node-lease` or `drydock`", func(s *thief) error {
		for _, namespace := range []string{"kube-system", "kube-public", "kube-node-lease", api.HomeNamespace} {
			if err := s.createPod(namespace, func(*corev1.Pod) {}); err == nil {
				return nil
			}
			away := *s
			world := *s.w
			world.Namespace = namespace
			away.w = &world
			if err := away.createRevision("drydock-"+operation, nil); err == nil {
				return nil
			}
			if err := away.createSet(func(*appsv1.StatefulSet) {}); err == nil {
				return nil
			}
		}
		return s.createPod("kube-system", func(*corev1.Pod) {})
	}, ""},
}

// TestStolenTokens checks the rights of each account, and that it has no others. docs/security.md has the resulting table.
func TestStolenTokens(t *testing.T) {
	t.Parallel()
	l := layLoot(t)
	thieves := map[string]*thief{}
	for _, account := range accounts {
		thieves[account] = stealToken(t, l, account)
	}
	var table strings.Builder
	for _, all := range thefts {
		for _, theft := range all {
			var able []string
			for _, account := range accounts {
				s := thieves[account]
				if s.may(t, account+": "+theft.what, theft.try(s)) {
					able = append(able, account)
				}
			}
			if want := strings.Fields(theft.who); !slices.Equal(able, want) {
				t.Errorf("%s: %v can, want %v", theft.what, able, want)
			}
			fmt.Fprintf(&table, "| %s | %s |\n", theft.what, cmpOr(strings.Join(able, ", "), "none"))
		}
	}
	page, err := os.ReadFile(filepath.Join(kit.Root(t), "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), table.String()) {
		t.Errorf("docs/security.md does not have this table:\n%s", table.String())
	}
}

func cmpOr(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

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

var autoscalerThefts = []theft{
	{"create, change or delete the autoscaler of a Scaler", func(s *thief) error {
		return errors.Join(s.createAutoscaler(func(*autoscalingv2.HorizontalPodAutoscaler) {}),
			s.patchAutoscaler("owned", `{"spec":{"maxReplicas":9}}`),
			s.deleteAutoscaler("owned"))
	}, "scale"},
	{"create, change or delete any other autoscaler, or have one scale something else", func(s *thief) error {
		for _, change := range forgedAutoscalers {
			if err := s.createAutoscaler(change); err == nil {
				return nil
			}
		}
		for _, forgery := range changedAutoscalers {
			if err := s.patchAutoscaler(forgery.name, forgery.body); err == nil {
				return nil
			}
		}
		return s.deleteAutoscaler("others")
	}, ""},
}

// forgedAutoscalers are changes after which an autoscaler belongs to no Scaler.
var forgedAutoscalers = map[string]func(*autoscalingv2.HorizontalPodAutoscaler){
	"another name":       func(a *autoscalingv2.HorizontalPodAutoscaler) { a.Name = "mine" },
	"no owner":           func(a *autoscalingv2.HorizontalPodAutoscaler) { a.OwnerReferences = nil },
	"another owner":      func(a *autoscalingv2.HorizontalPodAutoscaler) { a.OwnerReferences[0].Kind = "ConfigMap" },
	"an owner of others": func(a *autoscalingv2.HorizontalPodAutoscaler) { a.OwnerReferences[0].APIVersion = "example.com/v1" },
	"the owner's name":   func(a *autoscalingv2.HorizontalPodAutoscaler) { a.OwnerReferences[0].Name = "other" },
	"no controller":      func(a *autoscalingv2.HorizontalPodAutoscaler) { a.OwnerReferences[0].Controller = nil },
	"a finalizer":        func(a *autoscalingv2.HorizontalPodAutoscaler) { a.Finalizers = []string{"example.com/x"} },
	"another Scaler":     func(a *autoscalingv2.HorizontalPodAutoscaler) { a.Spec.ScaleTargetRef.Name = "other" },
	"a set":              func(a *autoscalingv2.HorizontalPodAutoscaler) { a.Spec.ScaleTargetRef.Kind = "StatefulSet" },
	"a Scaler of others": func(a *autoscalingv2.HorizontalPodAutoscaler) { a.Spec.ScaleTargetRef.APIVersion = "example.com/v1" },
}

// changedAutoscalers are the changes that scale never makes.
var changedAutoscalers = map[string]struct{ name, body string }{
	"one of others": {"others", `{"spec":{"maxReplicas":9}}`},
	"its target":    {"owned", `{"spec":{"scaleTargetRef":{"name":"other"}}}`},
	"its owner":     {"owned", `{"metadata":{"ownerReferences":null}}`},
	"a finalizer":   {"owned", `{"metadata":{"finalizers":["example.com/x"]}}`},
}

// layAutoscalers creates an autoscaler of Scaler owned, and a foreign one.
func (l *loot) layAutoscalers(t *testing.T) {
	t.Helper()
	s := scalers{World: l.w}
	if err := s.create("owned", v1alpha1.ScalerSpec{Replicas: ptr.To[int32](2)}); err != nil {
		t.Fatal(err)
	}
	if err := s.create("paused", v1alpha1.ScalerSpec{Replicas: ptr.To[int32](2), Paused: true}); err != nil {
		t.Fatal(err)
	}
	autoscalers := l.w.Kube.AutoscalingV2().HorizontalPodAutoscalers(l.w.Namespace)
	mine := autoscalerOf("owned", s.get("owned").UID)
	others := autoscalerOf("others", "")
	others.OwnerReferences, others.Spec.ScaleTargetRef = nil, autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1",
		Kind: "StatefulSet", Name: "plain"}
	others.Spec.MaxReplicas = 1 // it scales nothing
	for _, a := range []*autoscalingv2.HorizontalPodAutoscaler{mine, others} {
		if _, err := autoscalers.Create(t.Context(), a, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// autoscalerOf returns the autoscaler of a Scaler.
func autoscalerOf(scaler string, uid types.UID) *autoscalingv2.HorizontalPodAutoscaler {
	group := v1alpha1.GroupVersion.String()
	return &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: scaler, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: group, Kind: "Scaler", Name: scaler, UID: uid, Controller: ptr.To(true)}}},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: group,
			Kind: "Scaler", Name: scaler}, MaxReplicas: 2}}
}

func (s *thief) createAutoscaler(change func(*autoscalingv2.HorizontalPodAutoscaler)) error {
	a := autoscalerOf("made", "uid-made")
	change(a)
	_, err := s.kube.AutoscalingV2().HorizontalPodAutoscalers(s.w.Namespace).Create(s.ctx, a, metav1.CreateOptions{DryRun: dry})
	return err
}

func (s *thief) patchAutoscaler(name, body string) error {
	_, err := s.kube.AutoscalingV2().HorizontalPodAutoscalers(s.w.Namespace).Patch(s.ctx, name, types.MergePatchType, []byte(body),
		metav1.PatchOptions{DryRun: dry})
	return err
}

func (s *thief) deleteAutoscaler(name string) error {
	return s.kube.AutoscalingV2().HorizontalPodAutoscalers(s.w.Namespace).Delete(s.ctx, name, metav1.DeleteOptions{DryRun: dry})
}

// TestFenceOfAutoscalers: scale writes only the autoscalers of Scalers.
func TestFenceOfAutoscalers(t *testing.T) {
	t.Parallel()
	s := stealToken(t, layLoot(t), string(api.ScaleFunction))
	for what, change := range forgedAutoscalers {
		if err := s.createAutoscaler(change); !apierrors.IsForbidden(err) {
			t.Errorf("an autoscaler with %s: %v", what, err)
		}
	}
	for what, forgery := range changedAutoscalers {
		if err := s.patchAutoscaler(forgery.name, forgery.body); !apierrors.IsForbidden(err) {
			t.Errorf("changing %s: %v", what, err)
		}
	}
	if err := s.deleteAutoscaler("others"); !apierrors.IsForbidden(err) {
		t.Errorf("deleting one of others: %v", err)
	}
	body := []byte(`{"spec":{"scaleTargetRef":{"name":"other"}}}`)
	if _, err := s.w.Kube.AutoscalingV2().HorizontalPodAutoscalers(s.w.Namespace).Patch(s.ctx, "owned", types.MergePatchType, body,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.patchAutoscaler("owned", `{"spec":{"scaleTargetRef":{"name":"owned"}}}`); err != nil {
		t.Errorf("putting back its target: %v", err)
	}
	home := autoscalerOf("made", "uid-made")
	_, err := s.kube.AutoscalingV2().HorizontalPodAutoscalers(api.HomeNamespace).Create(s.ctx, home, metav1.CreateOptions{DryRun: dry})
	if !apierrors.IsForbidden(err) {
		t.Errorf("one in Drydock's own namespace: %v", err)
	}
}

// TestStolenStandaloneToken: the process has no rights. It may impersonate the functions' accounts, where the fences
// apply, and no other.
func TestStolenStandaloneToken(t *testing.T) {
	t.Parallel()
	l := layLoot(t)
	account := filepath.Join(kit.Root(t), "deploy", "standalone", "account.yaml")
	if out, err := exec.Command(kit.Kubectl(t), "--kubeconfig", kit.APIPath(t), "apply", "--server-side", "--force-conflicts", "-f",
		account).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s := stealToken(t, l, "drydock-standalone")
	for _, all := range thefts {
		for _, theft := range all {
			if s.may(t, theft.what, theft.try(s)) {
				t.Errorf("its own token suffices to %s", theft.what)
			}
		}
	}
	l.w.Eventually("it may work as a function", func() string {
		if err := s.impersonates(t, string(api.Backup)).listSets(); err != nil {
			return err.Error()
		}
		return ""
	})
	for _, name := range accounts {
		if err := s.impersonates(t, name).listSets(); apierrors.IsForbidden(err) && strings.Contains(err.Error(), "impersonate") {
			t.Errorf("it may not work as %s: %v", name, err)
		}
	}
	backup := s.impersonates(t, string(api.Backup))
	for _, theft := range setThefts {
		want := strings.Contains(theft.who, "backup")
		if backup.may(t, theft.what, theft.try(backup)) != want {
			t.Errorf("working as backup, it may %s: want %t", theft.what, want)
		}
	}
	for _, name := range []string{"default", "drydock-standalone", "other"} {
		if err := s.impersonates(t, name).listSets(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "impersonate") {
			t.Errorf("working as account %s: %v", name, err)
		}
	}
	for _, user := range []rest.ImpersonationConfig{{UserName: "admin"}, {UserName: "system:serviceaccount:kube-system:default"},
		{UserName: "system:serviceaccount:drydock:backup", Groups: []string{"system:masters"}}} {
		if err := s.asUser(t, user).listSets(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "impersonate") {
			t.Errorf("working as %v: %v", user, err)
		}
	}
}

func (s *thief) listSets() error {
	_, err := s.kube.AppsV1().StatefulSets(s.w.Namespace).Get(s.ctx, "web", metav1.GetOptions{})
	return err
}

// impersonates returns the thief as an account of Drydock's namespace.
func (s *thief) impersonates(t *testing.T, account string) *thief {
	t.Helper()
	return s.asUser(t, kube.Impersonate(&rest.Config{}, api.Function(account)).Impersonate)
}

func (s *thief) asUser(t *testing.T, user rest.ImpersonationConfig) *thief {
	t.Helper()
	config := rest.CopyConfig(s.config)
	config.Impersonate = user
	other := *s
	other.config, other.kube = config, kubernetes.NewForConfigOrDie(config)
	return &other
}

// TestStolenTokensWhereWebhooksChangeTemplates: the label drydock.dev/template-webhooks=allow lets every account that
// writes sets change a pod template. It cannot change the service account, or give the pods access to their node.
// docs/security.md says so.
func TestStolenTokensWhereWebhooksChangeTemplates(t *testing.T) {
	t.Parallel()
	l := layLoot(t)
	thieves := map[string]*thief{}
	for _, account := range accounts {
		thieves[account] = stealToken(t, l, account)
	}
	l.w.LabelNamespace("drydock.dev/template-webhooks", api.AllowValue)
	container := func(more string) string {
		return `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"other"` + more + `}]}}}}`
	}
	l.w.Eventually("the API server sees the label", func() string {
		if err := thieves["restore"].patchSet("web", container("")); err != nil {
			return err.Error()
		}
		return ""
	})
	for what, row := range map[string]struct{ body, who string }{
		"another image": {container(""),
			"backup cleanup-pod dead-letter detect-resize grow-volumes idle-timeout pause-owner restore scale wake-gateway"},
		"another service account": {`{"spec":{"template":{"spec":{"serviceAccountName":"other"}}}}`, ""},
		"a privileged container":  {container(`,"securityContext":{"privileged":true}`), ""},
		"a capability":            {container(`,"securityContext":{"capabilities":{"add":["SYS_ADMIN"]}}`), ""},
		"the node's network":      {`{"spec":{"template":{"spec":{"hostNetwork":true}}}}`, ""},
		"the node's processes":    {`{"spec":{"template":{"spec":{"hostPID":true}}}}`, ""},
		"the node's IPC":          {`{"spec":{"template":{"spec":{"hostIPC":true}}}}`, ""},
		"the node's files":        {`{"spec":{"template":{"spec":{"volumes":[{"name":"host","hostPath":{"path":"/"}}]}}}}`, ""},
	} {
		var able []string
		for _, account := range accounts {
			if s := thieves[account]; s.may(t, account+": "+what, s.patchSet("web", row.body)) {
				able = append(able, account)
			}
		}
		if !slices.Equal(able, strings.Fields(row.who)) {
			t.Errorf("%s: %v can, want %q", what, able, row.who)
		}
	}
}
