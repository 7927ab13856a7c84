package resources

import (
	"maps"
	"path"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
)

// moverRetries is how often a mover that failed for a reason that may pass is started again.
const moverRetries = 3

// MoverClaim is one claim that a mover copies.
type MoverClaim struct {
	Template       string // the volume claim template; the mover's name of the claim
	Source, Target string // claims
	// Device: the claims are raw block devices.
	Device bool
	// Margin is how much of the target has to stay free, in percent; 0 if it does not matter.
	Margin int
}

// Mover copies all claims of one member.
type Mover struct {
	Set  *appsv1.StatefulSet
	Link api.Link // its Member is the ordinal
	// Attempt counts the movers of the member.
	Attempt int
	Claims  []MoverClaim
	// Pod is the UID of the pod beside which it copies, or that has stopped: data that was verified while another one ran is read again.
	Pod types.UID
	// Signal says that the member has stopped already; nil if it runs.
	Signal *moverreport.Signal
	// Refill: an earlier mover of the same stop may have completed some of the targets.
	Refill bool
	// MaxStop is the longest final pass; 0 if it may take any time. Bandwidth bounds the passes beside a running member, in bytes a second.
	MaxStop   time.Duration
	Bandwidth int64
	// Node is where the member runs or ran, so that the mover has to run there; empty if it is not known, or does not matter.
	Node string
	// First: the targets have no volume yet, and no node is given, so that they are provisioned where the scheduler puts this mover.
	First bool
	Root  bool
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
	if m.Signal != nil {
		job.Spec.Template.Annotations[moverreport.SignalAnnotation] = m.Signal.Encode()
	}
	job.Namespace, job.Name = m.Set.Namespace, api.MoverName(m.Link.Operation, *m.Link.Member, m.Attempt)
	return job
}

// failAtOnce ends the Job for exit codes that another try cannot change, and counts no pod that
// was evicted or preempted, or lost its node: the copy continues elsewhere. However a pin ends, the copy was made before, and is not made
// again.
func failAtOnce() *batchv1.PodFailurePolicy {
	return &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action: batchv1.PodFailurePolicyActionFailJob,
		OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
			ContainerName: ptr.To(moverreport.PinContainer),
			Operator:      batchv1.PodFailurePolicyOnExitCodesOpNotIn,
			Values:        []int32{moverreport.CodeOK},
		},
	}, {
		Action: batchv1.PodFailurePolicyActionFailJob,
		OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
			Operator: batchv1.PodFailurePolicyOnExitCodesOpIn,
			Values:   moverreport.FinalCodes(),
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
		Volumes:                      []corev1.Volume{podInfo()},
	}
	order := m.order()
	pod.InitContainers = []corev1.Container{m.copier(moverreport.FirstContainer, order.FirstArgs()),
		m.copier(moverreport.FinalContainer, order.FinalArgs())}
	pod.Containers = []corev1.Container{m.container(moverreport.PinContainer, order.PinArgs())}
	for _, c := range m.Claims {
		pod.Volumes = append(pod.Volumes, claimVolume(sourceVolume(c), c.Source, true), claimVolume(targetVolume(c), c.Target, false))
	}
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
	return pod
}

func moverResources() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
	}
}

// order returns the mover's order.
func (m Mover) order() moverreport.Order {
	order := moverreport.Order{Token: m.Link.Operation, Member: string(m.Pod), MaxStop: m.MaxStop, Bandwidth: m.Bandwidth, Refill: m.Refill}
	if order.MaxStop <= 0 || m.Signal != nil {
		order.MaxStop = m.Settings.CopyTimeout
	}
	if m.Signal != nil {
		order.Bandwidth = 0 // nothing runs that could be slowed down
	}
	for _, c := range m.Claims {
		order.Claims = append(order.Claims, moverreport.Claim{Name: c.Template, Device: c.Device, Margin: c.Margin})
	}
	return order
}

// container is one without a volume of a claim: a pod's volumes stay mounted as long as it runs, whichever of its containers names them
// (kubernetes pkg/kubelet/volumemanager/populator). Its resources are those of the containers before it, so they add nothing to the pod's.
func (m Mover) container(name string, args []string) corev1.Container {
	return corev1.Container{
		Name:            name,
		Image:           m.Settings.Image,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Args:            args,
		SecurityContext: moverSecurity(false),
		Resources:       moverResources(),
		VolumeMounts:    []corev1.VolumeMount{{Name: podInfoVolume, MountPath: moverreport.PodInfoDir, ReadOnly: true}},
	}
}

// copier is a container that has all volumes.
func (m Mover) copier(name string, args []string) corev1.Container {
	c := m.container(name, args)
	c.SecurityContext = moverSecurity(m.Root)
	for _, claim := range m.Claims {
		source, target := path.Join(moverreport.SourceDir, claim.Template), path.Join(moverreport.TargetDir, claim.Template)
		if claim.Device {
			c.VolumeDevices = append(c.VolumeDevices, corev1.VolumeDevice{Name: sourceVolume(claim), DevicePath: source},
				corev1.VolumeDevice{Name: targetVolume(claim), DevicePath: target})
			continue
		}
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: sourceVolume(claim), MountPath: source, ReadOnly: true},
			corev1.VolumeMount{Name: targetVolume(claim), MountPath: target})
	}
	return c
}

// podInfoVolume is where the mover reads the annotations of its own pod.
const podInfoVolume = "podinfo"

func podInfo() corev1.Volume {
	return corev1.Volume{Name: podInfoVolume, VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
		Items: []corev1.DownwardAPIVolumeFile{{Path: moverreport.AnnotationsFile,
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations"}}}}}}
}

// Names of volumes are DNS labels of at most 63 characters, as names of templates are; so a digest stands for the template.
func sourceVolume(c MoverClaim) string { return "source-" + api.Digest8(c.Template) }
func targetVolume(c MoverClaim) string { return "target-" + api.Digest8(c.Template) }

// pinTo has the scheduler put the pod on the node, and nowhere else. A volume that waits for its first consumer is provisioned
// there.
func pinTo(pod *corev1.PodSpec, node string) {
	affinity := affinityOf(pod)
	required := affinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil || len(required.NodeSelectorTerms) == 0 {
		required = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
	}
	for i := range required.NodeSelectorTerms { // one has to match
		required.NodeSelectorTerms[i].MatchFields = append(required.NodeSelectorTerms[i].MatchFields, named(node))
	}
	affinity.RequiredDuringSchedulingIgnoredDuringExecution = required
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
