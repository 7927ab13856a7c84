package resources

import (
	"maps"
	"path"
	"strings"
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
	"drydock.dev/shared/statefulset"
)

// moverRetries is how often a mover is restarted after a failure that may be temporary.
const moverRetries = 3

// MoverClaim is a claim that a mover copies.
type MoverClaim struct {
	Template       string // the volumeClaimTemplate, which is also the mover's name for the claim
	Source, Target string // the names of the claims
	// Device is set for raw block volumes.
	Device bool
	// Margin is how much of the target has to stay free, in percent. 0 means no margin.
	Margin int
}

// Mover describes the Job that copies all claims of a member.
type Mover struct {
	Set  *appsv1.StatefulSet
	Link api.Link // its Member is the ordinal
	// Attempt counts the movers of the member.
	Attempt int
	Claims  []MoverClaim
	// Pod is the UID of the member's running or stopped pod. The mover reads data again that was verified beside another pod.
	Pod types.UID
	// Signal tells the mover that the member has already stopped. It is nil if the member runs.
	Signal *moverreport.Signal
	// Refill is set if an earlier mover of the same stop may have completed some of the targets.
	Refill bool
	// MaxStop is the longest final pass; 0 means no limit. Bandwidth limits the first passes, in bytes a second.
	MaxStop   time.Duration
	Bandwidth int64
	// WritableSources mounts the volumes of source file systems writable in the pod, because the node refuses to mount them read-only
	// beside the member's pod. The containers' mounts are read-only all the same. A source device stays read-only.
	WritableSources bool
	// Node is the member's node, so the mover has to run there. It is empty if the node is unknown or does not matter.
	Node string
	// SelectsNode is set if the targets have no volumes and no node is given. The volumes are provisioned on the node that the scheduler
	// selects.
	SelectsNode bool
	// Reach has the nodes that can reach each volume of the member that the mover does not copy. They count if SelectsNode is set: the
	// member will need these volumes and the new ones on the same node.
	Reach []statefulset.Nodes
	Root  bool
	// Admitted holds the user, group and SELinux options that admission set in the set's pods, or nil.
	Admitted *corev1.PodSecurityContext
	Options  MoverOptions
	Settings api.Settings
}

// MakeMover returns the Job of a mover. Its pod runs only where the workload's pods may run, so that a volume with the binding mode
// WaitForFirstConsumer is provisioned within their reach.
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
			PodFailurePolicy:      failurePolicy(),
			Template:              corev1.PodTemplateSpec{ObjectMeta: m.podMetadata(meta), Spec: m.pod()},
		},
	}
	if m.Signal != nil {
		job.Spec.Template.Annotations[moverreport.SignalAnnotation] = m.Signal.Encode()
	}
	job.Namespace, job.Name = m.Set.Namespace, api.MoverName(m.Link.Operation, *m.Link.Member, m.Attempt)
	return job
}

// failurePolicy returns the pod failure policy of a mover. The Job fails at once for exit codes that no retry changes. Pods that were
// evicted, preempted or lost their node do not count, because the copy continues on another node. If a pin fails, the Job fails at once:
// the copy is already complete and must not be repeated.
func failurePolicy() *batchv1.PodFailurePolicy {
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

// pod returns the spec of the mover's pod.
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
		Volumes:                      []corev1.Volume{podInfoVolumeSource()},
	}
	order := m.order()
	pod.InitContainers = []corev1.Container{m.copyContainer(moverreport.FirstContainer, order.FirstArgs()),
		m.copyContainer(moverreport.FinalContainer, order.FinalArgs())}
	pod.Containers = []corev1.Container{m.plainContainer(moverreport.PinContainer, order.PinArgs())}
	for _, c := range m.Claims {
		pod.Volumes = append(pod.Volumes, claimVolume(sourceVolume(c), c.Source, c.Device || !m.WritableSources),
			claimVolume(targetVolume(c), c.Target, false))
	}
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: recordVolume,
		VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	if workload.Affinity != nil && workload.Affinity.NodeAffinity != nil {
		pod.Affinity = &corev1.Affinity{NodeAffinity: workload.Affinity.NodeAffinity.DeepCopy()}
	}
	if m.SelectsNode {
		m.placeLikeMember(&pod)
	}
	m.Options.applyTo(&pod)
	if m.Node != "" {
		requireNode(&pod, m.Node)
	} else if m.SelectsNode {
		for _, nodes := range m.Reach {
			requireNodes(&pod, nodes)
		}
	}
	return pod
}

func moverResources() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
	}
}

// order returns the order for the process in the mover's containers.
func (m Mover) order() moverreport.Order {
	order := moverreport.Order{Token: m.Link.Operation, Member: string(m.Pod), MaxStop: m.MaxStop, Bandwidth: m.Bandwidth, Refill: m.Refill}
	if order.MaxStop <= 0 || m.Signal != nil {
		order.MaxStop = m.Settings.CopyTimeout
	}
	if m.Signal != nil {
		order.Bandwidth = 0 // the member has stopped, so the copy slows nothing down
	}
	for _, c := range m.Claims {
		order.Claims = append(order.Claims, moverreport.Claim{Name: c.Template, Device: c.Device, Margin: c.Margin})
	}
	return order
}

// plainContainer returns a container that mounts no claim. A pod's volumes stay mounted as long as the pod runs, even if no running
// container mounts them (kubernetes pkg/kubelet/volumemanager/populator). Its resources equal those of the init containers, so they do
// not increase the request of the pod.
func (m Mover) plainContainer(name string, args []string) corev1.Container {
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

// copyContainer returns a container that mounts the volumes of all claims.
func (m Mover) copyContainer(name string, args []string) corev1.Container {
	c := m.plainContainer(name, args)
	c.SecurityContext = moverSecurity(m.Root)
	c.Env = []corev1.EnvVar{{Name: moverreport.PodVariable,
		ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"}}}}
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
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: recordVolume, MountPath: moverreport.RecordDir})
	return c
}

// podInfoVolume is the volume with the annotations of the mover's own pod.
const podInfoVolume = "podinfo"

func podInfoVolumeSource() corev1.Volume {
	return corev1.Volume{Name: podInfoVolume, VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
		Items: []corev1.DownwardAPIVolumeFile{{Path: moverreport.AnnotationsFile,
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations"}}}}}}
}

// recordVolume is the volume where the first container leaves the records of verified files for the final one: 24 bytes for a file.
const recordVolume = "records"

// Names of volumes and of templates are both DNS labels of at most 63 characters. So the name of a volume has a digest of the template's
// name.
func sourceVolume(c MoverClaim) string { return "source-" + api.Digest8(c.Template) }
func targetVolume(c MoverClaim) string { return "target-" + api.Digest8(c.Template) }

func claimVolume(name, claim string, readOnly bool) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim, ReadOnly: readOnly}}}
}

// moverSecurity returns a security context for the restricted Pod Security level. A root mover also has the capabilities that it needs to
// copy owners, modes, device nodes and file capabilities. The baseline level allows all of them.
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

// optOutLabels and optOutAnnotations keep common injectors from adding a container to a mover's pod. Such a container would outlive the
// copy, and the Job would never end. Each key is the documented opt-out of its project for a single pod.
var (
	optOutLabels = map[string]string{
		"sidecar.istio.io/inject":         "false",
		"istio.io/dataplane-mode":         "none",
		"kuma.io/sidecar-injection":       "disabled",
		"admission.datadoghq.com/enabled": "false",
	}
	optOutAnnotations = map[string]string{
		"sidecar.istio.io/inject":                "false", // before Istio 1.10
		"linkerd.io/inject":                      "disabled",
		"consul.hashicorp.com/connect-inject":    "false",
		"kuma.io/sidecar-injection":              "disabled", // before Kuma 2.0
		"openservicemesh.io/sidecar-injection":   "disabled",
		"appmesh.k8s.aws/sidecarInjectorWebhook": "disabled",
		"sidecar.opentelemetry.io/inject":        "false",
		"dynatrace.com/inject":                   "false",
	}
	// keepOnNode keeps node autoscalers from evicting the mover. An interrupted copy starts again, and the volume may be available only on
	// this node.
	keepOnNode = map[string]string{
		"cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
		"karpenter.sh/do-not-disrupt":                    "true",
	}
)

// podMetadata returns the labels and annotations of the mover's pod. The user's keys override the defaults. Drydock's keys override the
// user's, because the operation finds its pods by them.
func (m Mover) podMetadata(own metav1.ObjectMeta) metav1.ObjectMeta {
	labels, annotations := maps.Clone(optOutLabels), maps.Clone(optOutAnnotations)
	maps.Copy(annotations, keepOnNode)
	copyUserKeys(labels, m.Options.Labels)
	copyUserKeys(annotations, m.Options.Annotations)
	if m.SelectsNode {
		labels[api.MemberLabel] = m.memberName()
	}
	maps.Copy(labels, own.Labels)
	maps.Copy(annotations, own.Annotations)
	return metav1.ObjectMeta{Labels: labels, Annotations: annotations}
}

// memberName returns the name of the member's pod.
func (m Mover) memberName() string { return statefulset.PodName(m.Set, *m.Link.Member) }

// copyUserKeys copies the user's keys. It skips keys with Drydock's prefix.
func copyUserKeys(to, users map[string]string) {
	for key, value := range users {
		if !strings.HasPrefix(key, api.Prefix) {
			to[key] = value
		}
	}
}

// unknownJobUID stands for the UID of a Job that does not exist yet, because an owner reference needs a UID.
const unknownJobUID types.UID = "00000000-0000-0000-0000-000000000000"

// MakeMoverPod returns the pod that the Job controller would create for a Job that does not exist yet (kubernetes pkg/controller/job). It
// serves a dry run on the API server. It has the Job as its controller and the labels of the Job controller, because policies check both.
func MakeMoverPod(job *batchv1.Job) *corev1.Pod {
	template := job.Spec.Template.DeepCopy()
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.Name = job.Namespace, job.Name
	pod.Finalizers = []string{batchv1.JobTrackingFinalizer}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	for _, key := range []string{batchv1.JobNameLabel, "job-name"} {
		pod.Labels[key] = job.Name
	}
	for _, key := range []string{batchv1.ControllerUidLabel, "controller-uid"} {
		pod.Labels[key] = string(unknownJobUID)
	}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: unknownJobUID,
		Controller: ptr.To(true)}}
	return pod
}
