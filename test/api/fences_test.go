//go:build cluster

package api

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
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
