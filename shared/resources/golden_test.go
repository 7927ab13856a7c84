package resources_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/resources"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// compareYAML compares the object with the golden file testdata/NAME.yaml.
func compareYAML(t *testing.T, name string, object any) {
	t.Helper()
	text, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	golden.Is(t, filepath.Join("testdata", name+".yaml"), string(text))
}

// workload returns a set with every field that a mover or a new set must take over or must not take over.
func workload() *appsv1.StatefulSet {
	return build.Set("web", build.Replicas(3), build.WhenScaled("Delete"), build.Annotation("team", "data"),
		build.Finalizers("example.com/keep"),
		build.Template("data", "64Mi", "fixed"), build.Template("logs", "32Mi", "fixed"), build.Edit(func(s *appsv1.StatefulSet) {
			affinity := &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
					NodeSelectorTerms: []corev1.NodeSelectorTerm{
						{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpExists}}}}}}
			pod := &s.Spec.Template.Spec
			pod.NodeSelector = map[string]string{"pool": "storage"}
			pod.Tolerations = []corev1.Toleration{{Key: "storage", Operator: corev1.TolerationOpExists}}
			pod.Affinity = &corev1.Affinity{NodeAffinity: affinity, PodAntiAffinity: &corev1.PodAntiAffinity{}}
			pod.PriorityClassName = "important"
			pod.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
			pod.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "net.core.somaxconn", Value: "1024"}}
			pod.SecurityContext.SupplementalGroups = []int64{2000}
			s.Spec.VolumeClaimTemplates[0].Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("96Mi")}
		}))
}

// sourceClaim returns a claim with every field that its successor must take over or must not take over.
func sourceClaim() *corev1.PersistentVolumeClaim {
	claim := build.Claim("data-web-0", "64Mi", build.Label("team", "data"),
		build.Annotation("people", "wrote this"), build.Annotation("pv.kubernetes.io/bind-completed", "yes"),
		build.Annotation("volume.kubernetes.io/selected-node", "node-1"), build.Annotation("volume.beta.kubernetes.io/storage-provisioner", "x"),
		build.Annotation(corev1.LastAppliedConfigAnnotation, `{"spec":{}}`),
		build.Link(api.RoleSource, "data-web-0"), build.ControlledBy("StatefulSet", "web"),
		build.Finalizers("kubernetes.io/pvc-protection", api.FreezeFinalizer, "example.com/keep"))
	claim.OwnerReferences = append(claim.OwnerReferences, claim.OwnerReferences[0], claim.OwnerReferences[0])
	claim.OwnerReferences[1].Kind, claim.OwnerReferences[2].Kind = "Pod", "Backup"
	claim.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "VolumeSnapshot", Name: "seed"}
	claim.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeFilesystem)
	claim.Spec.VolumeAttributesClassName = ptr.To("gold")
	return claim
}

func link(role api.Role) api.Link {
	return api.Link{Operation: build.ID, Role: role, Namespace: build.Namespace, Set: api.SetRef{Name: "web", UID: "uid-web"},
		Claim: "data-web-0"}
}

func resize() *api.Resize {
	return build.Operation(api.Moving, build.ReplacesSet, build.Members(api.MemberPending, "data-web-0"))
}

func memberLink() api.Link {
	return api.Link{Operation: build.ID, Role: api.RoleMover, Namespace: build.Namespace, Set: api.SetRef{Name: "web", UID: "uid-web"},
		Member: ptr.To(0)}
}

// moverJob returns a mover of claim data-web-0, changed by the options.
func moverJob(options ...func(*resources.Mover)) *batchv1.Job {
	m := resources.Mover{Set: workload(), Link: memberLink(), Attempt: 1, Pod: "uid-web-0", MaxStop: time.Minute, Settings: build.Settings(),
		Claims: []resources.MoverClaim{{Template: "data", Source: "data-web-0", Target: "drydock-target", Margin: 10}}}
	for _, option := range options {
		option(&m)
	}
	return resources.MakeMover(m)
}

func mover(root bool) *batchv1.Job { return moverJob(func(m *resources.Mover) { m.Root = root }) }

// stoppedMember makes the mover copy a file system and a raw block volume of a stopped member.
func stoppedMember(m *resources.Mover) {
	m.Claims = append(m.Claims, resources.MoverClaim{Template: "logs", Source: "logs-web-0", Target: "drydock-logs", Device: true})
	m.Attempt, m.Node, m.Bandwidth = 2, build.NodeName, 1<<20
	m.Signal = &moverreport.Signal{Hold: "uid-web-0", Attempt: 2}
}

// leftoverClaims returns the claims of ordinal 5 after a scale-down.
func leftoverClaims() []*corev1.PersistentVolumeClaim {
	return []*corev1.PersistentVolumeClaim{build.Claim("data-web-5", "64Mi"), build.Claim("logs-web-5", "32Mi")}
}

// minimalTemplate returns the shortest template of a cleanup pod. fullTemplate sets every field that could be inherited.
func minimalTemplate() *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "drain", Image: "registry.example/drain:1"}}}}
}

func fullTemplate() *corev1.PodTemplateSpec {
	t := minimalTemplate()
	t.Name, t.Labels, t.Annotations = "mine", map[string]string{"app": "web-cleanup"}, map[string]string{"team": "data"}
	t.Spec.InitContainers = []corev1.Container{{Name: "wait", Image: "registry.example/wait:1",
		TerminationMessagePolicy: corev1.TerminationMessageReadFile}}
	t.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "tmp", MountPath: "/tmp"}}
	t.Spec.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	t.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	t.Spec.ServiceAccountName = "drainer"
	t.Spec.NodeSelector, t.Spec.Tolerations = map[string]string{}, []corev1.Toleration{}
	t.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "mine"}}
	t.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](7)}
	return t
}

func cleanup(template *corev1.PodTemplateSpec, options ...build.Option) *corev1.Pod {
	set := build.With(workload(), options...)
	set.Spec.Template.Spec.ServiceAccountName = "db"
	return resources.MakeCleanupPod(set, template, build.ID, 5, leftoverClaims())
}

func volume(name string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func TestGolden(t *testing.T) {
	move := resize().Move("data-web-0")
	move.Class = "fast"
	record := resize()
	record.Set.UID = ""
	templates := []api.TemplateTarget{{Name: "data", Size: resource.MustParse("128Mi"), Class: "fast"}}
	for name, object := range map[string]any{
		"mover":         mover(false),
		"mover-root":    mover(true),
		"mover-stopped": moverJob(stoppedMember),
		"mover-limited": moverJob(func(m *resources.Mover) { m.Bandwidth = 1 << 20 }),
		"lock":          resources.MakeLock(workload(), build.ID, 5, build.Settings()),
		"target-claim":  resources.MakeTargetClaim(sourceClaim(), move, link(api.RoleTarget)),
		"successor": resources.MakeSuccessor(build.Untyped(sourceClaim()), volume("pv-new"),
			api.Target{Size: resource.MustParse("128Mi"), Class: "fast"}, link(api.RoleNewClaim)).Object,
		"set":          resources.MakeSet(build.Untyped(workload()), templates, record).Object,
		"journal":      resources.MakeJournal(workload(), resize()),
		"cleanup":      cleanup(minimalTemplate()),
		"cleanup-full": cleanup(fullTemplate(), build.Finalizers(api.CleanupFinalizer)),
	} {
		t.Run(name, func(t *testing.T) { compareYAML(t, name, object) })
	}
}

// TestOwnersOfCleanupPods: the set is never the controller. A set that waits for its cleanup does not own the pod.
func TestOwnersOfCleanupPods(t *testing.T) {
	for name, row := range map[string]struct {
		options []build.Option
		owned   bool
	}{
		"a set":                                {nil, true},
		"a set with the finalizer of cleanups": {[]build.Option{build.Finalizers("a", api.CleanupFinalizer)}, false},
		"a set that is being deleted":          {[]build.Option{build.Deleting()}, false},
		"a set with a foreign finalizer":       {[]build.Option{build.Finalizers("a")}, true},
	} {
		owners := cleanup(minimalTemplate(), row.options...).OwnerReferences
		if owned := len(owners) == 1 && owners[0].UID == "uid-web" && owners[0].Controller == nil &&
			owners[0].BlockOwnerDeletion == nil; owned != row.owned || len(owners) > 1 {
			t.Errorf("%s: %+v", name, owners)
		}
	}
}

func TestBuildersDoNotChangeTheirArguments(t *testing.T) {
	set, claim, status := workload(), sourceClaim(), resize()
	raw := build.Untyped(set)
	resources.MakeSet(raw, status.Templates, status)
	resources.MakeLock(set, build.ID, 0, build.Settings())
	resources.MakeJournal(set, status)
	job := moverJob(func(m *resources.Mover) { m.Set = set })
	job.Spec.Template.Spec.NodeSelector["pool"] = "changed"
	job.Spec.Template.Spec.SecurityContext.RunAsUser = ptr.To[int64](1)
	old := build.Untyped(claim)
	successor := resources.MakeSuccessor(old, volume("pv"), api.Target{Size: resource.MustParse("1Gi"),
		Modes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}}, link(api.RoleNewClaim))
	successor.SetLabels(map[string]string{"team": "changed"})
	template := fullTemplate()
	pod := resources.MakeCleanupPod(set, template, build.ID, 5, []*corev1.PersistentVolumeClaim{claim})
	pod.Labels["app"], pod.Annotations["team"], pod.Spec.Volumes[0].Name, pod.Spec.Containers[0].Name = "changed", "changed", "changed",
		"changed"
	pod = resources.MakeCleanupPod(set, minimalTemplate(), build.ID, 5, nil)
	pod.Spec.NodeSelector["pool"], pod.Spec.SecurityContext.RunAsUser, pod.Spec.Tolerations[0].Key = "changed", ptr.To[int64](1), "changed"
	if diff := cmp.Diff(build.Untyped(workload()), raw); diff != "" {
		t.Errorf("the set as JSON:\n%s", diff)
	}
	if diff := cmp.Diff(build.Untyped(sourceClaim()), old); diff != "" {
		t.Errorf("the claim as JSON:\n%s", diff)
	}
	if diff := cmp.Diff(fullTemplate(), template); diff != "" {
		t.Errorf("the template:\n%s", diff)
	}
	if diff := cmp.Diff(workload(), set); diff != "" {
		t.Errorf("the set:\n%s", diff)
	}
	if diff := cmp.Diff(sourceClaim(), claim); diff != "" {
		t.Errorf("the claim:\n%s", diff)
	}
}

// TestMoverMeetsPodSecurityStandards checks each rule of the restricted level (kubernetes, Pod Security Standards). A root mover has to
// meet the baseline level.
// Invariants: I10.
func TestMoverMeetsPodSecurityStandards(t *testing.T) {
	for name, root := range map[string]bool{"restricted": false, "baseline, as root": true} {
		t.Run(name, func(t *testing.T) {
			pod := mover(root).Spec.Template.Spec
			must := func(rule string, ok bool) {
				t.Helper()
				if !ok {
					t.Errorf("the mover's pod violates: %s", rule)
				}
			}
			must("no host namespaces", !pod.HostNetwork && !pod.HostPID && !pod.HostIPC && pod.HostUsers == nil)
			must("no service account token", pod.AutomountServiceAccountToken != nil && !*pod.AutomountServiceAccountToken)
			must("seccomp", pod.SecurityContext.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault)
			must("no sysctls, SELinux or AppArmor options", len(pod.SecurityContext.Sysctls) == 0 && pod.SecurityContext.SELinuxOptions == nil &&
				pod.SecurityContext.AppArmorProfile == nil)
			must("only claims, its own annotations and its records as volumes", len(pod.Volumes) == 4 && pod.Volumes[0].DownwardAPI != nil &&
				pod.Volumes[1].PersistentVolumeClaim != nil && pod.Volumes[2].PersistentVolumeClaim != nil && pod.Volumes[3].EmptyDir != nil)
			must("one container for each kind of pass, and a pin", len(pod.Containers) == 1 && len(pod.InitContainers) == 2)
			must("the same rights for both passes", cmp.Equal(pod.InitContainers[0].SecurityContext, pod.InitContainers[1].SecurityContext))
			own, pin := pod.InitContainers[1].SecurityContext, pod.Containers[0].SecurityContext
			must("no capabilities for the pin", len(pin.Capabilities.Add) == 0 &&
				cmp.Equal(pin.Capabilities.Drop, own.Capabilities.Drop) &&
				cmp.Equal(pin.AllowPrivilegeEscalation, own.AllowPrivilegeEscalation) &&
				cmp.Equal(pin.ReadOnlyRootFilesystem, own.ReadOnlyRootFilesystem))
			must("no privileges", own.Privileged == nil && own.AllowPrivilegeEscalation != nil && !*own.AllowPrivilegeEscalation &&
				own.ProcMount == nil)
			must("drop ALL", len(own.Capabilities.Drop) == 1 && own.Capabilities.Drop[0] == "ALL")
			must("read-only root file system", own.ReadOnlyRootFilesystem != nil && *own.ReadOnlyRootFilesystem)
			must("no host ports", len(pod.Containers[0].Ports) == 0 && len(pod.InitContainers[0].Ports) == 0 &&
				len(pod.InitContainers[1].Ports) == 0)
			if !root {
				must("run as non-root", *pod.SecurityContext.RunAsNonRoot && *pod.SecurityContext.RunAsUser == 1000)
				must("add no capabilities", len(own.Capabilities.Add) == 0)
			}
			baseline := map[corev1.Capability]bool{"AUDIT_WRITE": true, "CHOWN": true, "DAC_OVERRIDE": true, "FOWNER": true, "FSETID": true,
				"KILL":  true,
				"MKNOD": true, "NET_BIND_SERVICE": true, "SETFCAP": true, "SETGID": true, "SETPCAP": true, "SETUID": true, "SYS_CHROOT": true}
			for _, c := range own.Capabilities.Add {
				must("capability "+string(c), baseline[c])
			}
		})
	}
}

// TestMoverCannotWriteToItsSource: the source is read-only as a volume and as a mount.
// Invariants: I1.
func TestMoverCannotWriteToItsSource(t *testing.T) {
	pod := mover(true).Spec.Template.Spec
	source := pod.Volumes[1].Name
	if v := pod.Volumes[1]; v.PersistentVolumeClaim.ClaimName != "data-web-0" || !v.PersistentVolumeClaim.ReadOnly {
		t.Errorf("%+v", v.PersistentVolumeClaim)
	}
	if pin := pod.Containers[0]; len(pin.VolumeMounts) != 1 || len(pin.VolumeDevices) != 0 || pin.VolumeMounts[0].MountPath != "/podinfo" {
		t.Errorf("the pin mounts %+v", pin)
	}
	for _, c := range pod.InitContainers {
		sources := 0
		for _, m := range c.VolumeMounts {
			if m.Name == source && m.ReadOnly {
				sources++
			}
			if m.ReadOnly == (m.MountPath == "/target/data" || m.MountPath == "/records") {
				t.Errorf("%s: %+v", c.Name, m)
			}
		}
		if sources != 1 {
			t.Errorf("%s mounts its source %d times", c.Name, sources)
		}
	}
}

func TestNamesAreDeterministicDistinctAndShort(t *testing.T) {
	long := strings.Repeat("a", 253)
	names := map[string]string{}
	add := func(object, name string) {
		t.Helper()
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			t.Errorf("%s: %q: %v", object, name, problems)
		}
		if other, exists := names[name]; exists {
			t.Errorf("%s and %s have the same name %s", object, other, name)
		}
		names[name] = object
	}
	op := api.OperationID("uid", "data=1Gi", 1)
	add("an operation", op)
	add("the next attempt", api.OperationID("uid", "data=1Gi", 2))
	add("another request", api.OperationID("uid", "data=2Gi", 1))
	add("another set", api.OperationID("uid2", "data=1Gi", 1))
	add("a request and a UID with the same concatenation", api.OperationID("u", "iddata=1Gi", 1))
	add("a target", api.TargetName(op, "data-web-0", 0))
	add("the next copy", api.TargetName(op, "data-web-0", 1))
	add("another claim", api.TargetName(op, "data-web-1", 0))
	add("a long claim, a late copy", api.TargetName(op, long, 1000000))
	add("a mover", api.MoverName(op, 0, 1))
	add("the next attempt of it", api.MoverName(op, 0, 2))
	add("the mover of another member", api.MoverName(op, 1, 1))
	add("a late mover of a high member", api.MoverName(op, 2147483647, 1000000))
	add("a journal", api.JournalName(op))
	if api.OperationID("uid", "data=1Gi", 1) != op {
		t.Error("a retry gets another id")
	}
	// Frozen: a new version has to find the objects of an old version.
	if op != "bfb79beaf119" || api.TargetName("0123456789ab", "data-web-0", 1) != "drydock-0123456789ab-191f4772-1" ||
		api.MoverName("0123456789ab", 3, 1) != "drydock-0123456789ab-3-1" {
		t.Errorf("names have changed: %s, %s, %s", op, api.TargetName("0123456789ab", "data-web-0", 1), api.MoverName("0123456789ab", 3, 1))
	}
	for name, want := range map[string]bool{api.TargetName(op, "data-web-0", 1): true, api.TargetName(op, "data-web-0", 12): true,
		api.TargetName("bfb79beaf11a", "data-web-0", 1): false, api.TargetName(op, "data-web-1", 1): false,
		api.TargetName(op, "data-web-0", 1) + "-x": false, api.TargetName(op, "data-web-0", 1) + "/..": false,
		strings.TrimSuffix(api.TargetName(op, "data-web-0", 1), "1") + "01": false,
		strings.TrimSuffix(api.TargetName(op, "data-web-0", 1), "1"):        false,
		api.JournalName(op): false, "data-web-0": false} {
		if api.IsTargetName(op, "data-web-0", name) != want {
			t.Errorf("%s is a target of the operation: %t", name, !want)
		}
	}
	for name, want := range map[string]bool{api.MoverName(op, 3, 1): true, api.MoverName(op, 3, 12): true, api.MoverName(op, 4, 1): false,
		api.MoverName(op, 33, 1):            false,
		api.MoverName("bfb79beaf11a", 3, 1): false, api.MoverName(op, 3, 1) + "-x": false, "drydock-" + op + "-3-01": false, "drydock-" + op +
			"-3-": false, api.JournalName(op): false} {
		if api.IsMoverName(op, 3, name) != want {
			t.Errorf("%s is a mover of member 3: %t", name, !want)
		}
	}
}
