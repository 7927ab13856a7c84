package resources

import (
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
)

// MoverContainer is the name of the copying container in the mover's pod.
const MoverContainer = "copy"

// Where the mover finds its two volumes.
const (
	sourcePath = "/source"
	targetPath = "/target"
)

// moverRetries is how often a mover that failed for a reason that may pass is started again.
const moverRetries = 3

// Pass is what part of a copy a mover makes.
type Pass string

const (
	// WholePass copies everything of a stopped set.
	WholePass Pass = ""
	// WarmPass copies what it can while the set runs, and records what it has verified.
	WarmPass Pass = "warm"
	// FinalPass copies, of a stopped set, what a warm pass has not, or what has changed since.
	FinalPass Pass = "final"
)

// Mover is a copy of one claim to another.
type Mover struct {
	Set            *appsv1.StatefulSet
	Link           api.Link
	Source, Target string // claims
	Pass           Pass
	// Node is where the source is in use, so that the mover has to run there; empty if it is not.
	Node string
	// Prefer is the node of the warm pass: elsewhere a final pass believes nothing of it, and reads everything again. Or it is the
	// node where the member ran.
	Prefer string
	// Member is the set's pod that uses the source. First: the target has no volume yet, and no node is given, so that the volume is
	// provisioned where the scheduler puts this mover.
	Member string
	First  bool
	// Device: the claims are raw block devices.
	Device bool
	// Margin is how much of the target has to stay free, in percent; 0 if it does not matter.
	Margin int
	Root   bool
	// Admitted is the user, group and SELinux options that admission has given to the set's pods; nil if none.
	Admitted *corev1.PodSecurityContext
	Options  MoverOptions
	Settings api.Settings
}

// MakeMover builds the Job that copies. Its pod goes where the workload's pods may go, so that a volume that is provisioned for
// its first consumer lands within their reach.
func MakeMover(m Mover) *batchv1.Job {
	meta := metav1.ObjectMeta{
		Labels:      map[string]string{api.OperationLabel: m.Link.Operation},
		Annotations: map[string]string{api.OperationAnnotation: m.Link.Encode()},
	}
	job := &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: *meta.DeepCopy(),
		Spec: batchv1.JobSpec{
			BackoffLimit:          ptr.To[int32](moverRetries),
			ActiveDeadlineSeconds: ptr.To(int64(m.Settings.CopyTimeout.Seconds())),
			PodFailurePolicy:      failAtOnce(),
			Template:              corev1.PodTemplateSpec{ObjectMeta: m.podMeta(meta), Spec: m.pod()},
		},
	}
	job.Namespace, job.Name = m.Set.Namespace, api.CopyName(m.Link.Operation, m.Link.Claim, m.Link.Round)
	return job
}

// failAtOnce ends the Job for exit codes that another try cannot change, and counts no pod that
// was evicted or preempted, or lost its node: the copy goes on elsewhere.
func failAtOnce() *batchv1.PodFailurePolicy {
	return &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action: batchv1.PodFailurePolicyActionFailJob,
		OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
			ContainerName: ptr.To(MoverContainer),
			Operator:      batchv1.PodFailurePolicyOnExitCodesOpIn,
			Values:        moverreport.FinalCodes(),
		},
	}, {
		Action:          batchv1.PodFailurePolicyActionIgnore,
		OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
	}}}
}

func (m Mover) pod() corev1.PodSpec {
	workload := withAdmitted(&m.Set.Spec.Template.Spec, m.Admitted)
	pod := corev1.PodSpec{
		RestartPolicy:                corev1.RestartPolicyNever,
		AutomountServiceAccountToken: ptr.To(false),
		EnableServiceLinks:           ptr.To(false),
		NodeSelector:                 maps.Clone(workload.NodeSelector),
		Tolerations:                  workload.Tolerations,
		PriorityClassName:            workload.PriorityClassName,
		ImagePullSecrets:             workload.ImagePullSecrets,
		SchedulerName:                workload.SchedulerName,
		SecurityContext:              moverPodSecurity(workload, m.Root),
		Volumes: []corev1.Volume{
			claimVolume("source", m.Source, true), claimVolume("target", m.Target, false),
		},
		Containers: []corev1.Container{{
			Name:            MoverContainer,
			Image:           m.Settings.Image,
			ImagePullPolicy: corev1.PullIfNotPresent,
			Args:            m.args(),
			SecurityContext: moverSecurity(m.Root),
			Resources:       moverResources(),
		}},
	}
	m.mount(&pod.Containers[0])
	if workload.Affinity != nil && workload.Affinity.NodeAffinity != nil {
		pod.Affinity = &corev1.Affinity{NodeAffinity: workload.Affinity.NodeAffinity.DeepCopy()}
	}
	if m.First {
		m.place(&pod)
	}
	m.Options.apply(&pod)
	if m.Node != "" {
		pinTo(&pod, m.Node)
	}
	if m.Prefer != "" {
		prefer(&pod, m.Prefer)
	}
	return pod
}

func moverResources() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
	}
}

func (m Mover) args() []string {
	args := []string{"copy", "--report=/dev/termination-log", "--token=" + m.Link.Operation}
	switch m.Pass {
	case WarmPass:
		args = append(args, "--warm")
	case FinalPass:
		args = append(args, "--after-warm")
	}
	if !m.Device { // nothing tells whether a device is empty
		args = append(args, "--own-target")
	}
	if m.Margin > 0 {
		args = append(args, fmt.Sprintf("--margin=%d", m.Margin))
	}
	if m.Device {
		args = append(args, "--device")
	}
	return append(args, sourcePath, targetPath)
}

func (m Mover) mount(c *corev1.Container) {
	if m.Device {
		c.VolumeDevices = []corev1.VolumeDevice{{Name: "source", DevicePath: sourcePath}, {Name: "target", DevicePath: targetPath}}
		return
	}
	c.VolumeMounts = []corev1.VolumeMount{
		{Name: "source", MountPath: sourcePath, ReadOnly: true}, {Name: "target", MountPath: targetPath},
	}
}

// pinTo has the scheduler put the pod on the node, and nowhere else. A volume that waits for its first consumer is provisioned
// there.
func pinTo(pod *corev1.PodSpec, node string) {
	affinity := affinityOf(pod)
	required := affinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil || len(required.NodeSelectorTerms) == 0 {
		required = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
	}
	for i := range required.NodeSelectorTerms { // of which one has to match
		required.NodeSelectorTerms[i].MatchFields = append(required.NodeSelectorTerms[i].MatchFields, named(node))
	}
	affinity.RequiredDuringSchedulingIgnoredDuringExecution = required
}

// prefer has the scheduler put the pod on the node if it can.
func prefer(pod *corev1.PodSpec, node string) {
	affinity := affinityOf(pod)
	affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(affinity.PreferredDuringSchedulingIgnoredDuringExecution,
		corev1.PreferredSchedulingTerm{Weight: 100, Preference: corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{named(node)}}})
}

func named(node string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}
}

func affinityOf(pod *corev1.PodSpec) *corev1.NodeAffinity {
	if pod.Affinity == nil {
		pod.Affinity = &corev1.Affinity{}
	}
	if pod.Affinity.NodeAffinity == nil {
		pod.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	return pod.Affinity.NodeAffinity
}

func claimVolume(name, claim string, readOnly bool) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim, ReadOnly: readOnly}}}
}

// moverSecurity meets the restricted Pod Security level. A root mover has, on top of that, the capabilities that
// owners, modes, device nodes and file capabilities need; each of them is within the baseline level.
func moverSecurity(root bool) *corev1.SecurityContext {
	security := &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false),
		ReadOnlyRootFilesystem:   ptr.To(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	if root {
		security.Capabilities.Add = []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "MKNOD", "SETFCAP"}
	}
	return security
}
