package resources

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/bounded"
	"drydock.dev/shared/statefulset"
)

// Hook says when a Job of the user runs for a member.
type Hook string

const (
	// BeforeMember runs before the member is stopped.
	BeforeMember Hook = "before"
	// AfterMember runs when the member has started, and before the next one is stopped.
	AfterMember Hook = "after"
)

// Hooks are all of them.
var Hooks = []Hook{BeforeMember, AfterMember}

// Annotation returns the key of the hook's template on a set.
func (h Hook) Annotation() string {
	if h == BeforeMember {
		return api.BeforeMemberAnnotation
	}
	return api.AfterMemberAnnotation
}

// longestTemplateQuote is how many bytes of a template an error quotes.
const longestTemplateQuote = 300

// HookTemplate returns the pod template of the set's hook; nil if the set has none. ParseHook says which templates are refused.
func HookTemplate(set *appsv1.StatefulSet, hook Hook) (*corev1.PodTemplateSpec, error) {
	text, asked := set.Annotations[hook.Annotation()]
	if !asked {
		return nil, nil
	}
	return ParseHook(set, "annotation "+hook.Annotation(), text)
}

// ParseHook reads the pod template of a hook, as JSON or YAML. Where says where the text stands. A template is refused that would give its pod
// a role in an operation, or have it taken for a member of the set.
func ParseHook(set *appsv1.StatefulSet, where, text string) (*corev1.PodTemplateSpec, error) {
	template := &corev1.PodTemplateSpec{}
	if err := bounded.YAML(text, template); err != nil {
		words := strings.ReplaceAll(err.Error(), "\n", " ")
		return nil, fmt.Errorf("%s is no pod template: %.*s", where, longestTemplateQuote, words)
	}
	if problem := hookProblem(set, template); problem != "" {
		return nil, fmt.Errorf("%s: %s", where, problem)
	}
	return template, nil
}

// hookProblem says why the template must not be used; empty if it may.
func hookProblem(set *appsv1.StatefulSet, template *corev1.PodTemplateSpec) string {
	ours := func(all map[string]string) bool {
		for key := range all {
			if strings.HasPrefix(key, api.Prefix) {
				return true
			}
		}
		return false
	}
	usesClaim := func(v corev1.Volume) bool {
		if v.PersistentVolumeClaim == nil {
			return false
		}
		_, _, of := statefulset.ParseClaimName(set, v.PersistentVolumeClaim.ClaimName)
		return of
	}
	switch policy := template.Spec.RestartPolicy; {
	case policy != "" && policy != corev1.RestartPolicyNever:
		return fmt.Sprintf("restartPolicy is %.40q; leave it out, a hook runs once", policy)
	case len(template.Spec.Containers) == 0:
		return "spec.containers is empty; name the container to run"
	case statefulset.Selects(set, template.Labels):
		return "its labels match the StatefulSet's selector, so the set would take the pod for a member; give the template other labels"
	case ours(template.Labels) || ours(template.Annotations):
		return "its labels and annotations must not begin with " + api.Prefix + "; remove them"
	case slices.ContainsFunc(template.Spec.Volumes, usesClaim):
		return "it mounts a claim of the StatefulSet, which could change what is being copied; remove the volume"
	}
	return ""
}

// MakeHook builds the Job of a hook for the member that the link names, in the member's attempt. It is run once; a pod that is evicted or
// loses its node does not count. What its template does not say, the pods of the set say.
func MakeHook(set *appsv1.StatefulSet, hook Hook, template *corev1.PodTemplateSpec, link api.Link, attempt int,
	settings api.Settings) *batchv1.Job {
	name := api.HookName(link.Operation, string(hook), *link.Member, attempt)
	return hookJob(set, name, template, link, hookEnv(set, hook, link), settings.HookTimeout)
}

// hookJob builds the Job of any hook. Env comes before the variables of the template, which may refer to it.
func hookJob(set *appsv1.StatefulSet, name string, template *corev1.PodTemplateSpec, link api.Link, env []corev1.EnvVar,
	timeout time.Duration) *batchv1.Job {
	template = template.DeepCopy()
	inherit(&template.Spec, &set.Spec.Template.Spec)
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	for _, containers := range [][]corev1.Container{template.Spec.InitContainers, template.Spec.Containers} {
		for i := range containers {
			containers[i].Env = slices.Concat(env, containers[i].Env)
		}
	}
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: name,
			Labels:      map[string]string{api.OperationLabel: link.Operation},
			Annotations: map[string]string{api.OperationAnnotation: link.Encode()},
		},
		Spec: batchv1.JobSpec{
			BackoffLimit:          ptr.To[int32](0),
			ActiveDeadlineSeconds: ptr.To(max(1, int64(timeout.Seconds()))),
			PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
				Action:          batchv1.PodFailurePolicyActionIgnore,
				OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
			}}},
			Template: corev1.PodTemplateSpec{Spec: template.Spec,
				ObjectMeta: metav1.ObjectMeta{Labels: template.Labels, Annotations: template.Annotations}},
		},
	}
}

// hookEnv tells a hook which member it runs for.
func hookEnv(set *appsv1.StatefulSet, hook Hook, link api.Link) []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: "DRYDOCK_NAMESPACE", Value: set.Namespace},
		{Name: "DRYDOCK_SET", Value: set.Name},
		{Name: "DRYDOCK_POD", Value: statefulset.PodName(set, *link.Member)},
		{Name: "DRYDOCK_ORDINAL", Value: strconv.Itoa(*link.Member)},
		{Name: "DRYDOCK_HOOK", Value: string(hook)},
		{Name: "DRYDOCK_OPERATION", Value: link.Operation},
	}
}
