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
	"drydock.dev/shared/podend"
	"drydock.dev/shared/statefulset"
)

// Hook is the point in time when a user's Job runs for a member.
type Hook string

const (
	// BeforeMember runs before the member is stopped.
	BeforeMember Hook = "before"
	// AfterMember runs after the member has started, before the next member is stopped.
	AfterMember Hook = "after"
)

// Hooks lists all hooks.
var Hooks = []Hook{BeforeMember, AfterMember}

// Annotation returns the key of the hook's template on a set.
func (h Hook) Annotation() string {
	if h == BeforeMember {
		return api.BeforeMemberAnnotation
	}
	return api.AfterMemberAnnotation
}

// maxErrorQuote limits how many bytes of a parser's error are quoted, because that error quotes the template.
const maxErrorQuote = 300

// HookTemplate returns the pod template of the set's hook, or nil if the set has none. See ParseHook for the errors.
func HookTemplate(set *appsv1.StatefulSet, hook Hook) (*corev1.PodTemplateSpec, error) {
	text, found := set.Annotations[hook.Annotation()]
	if !found {
		return nil, nil
	}
	return ParseHook(set, "annotation "+hook.Annotation(), text)
}

// ParseHook reads the pod template of a hook, in JSON or YAML. Where names the source of the text in errors. It refuses a template whose
// pod would get a role in an operation or would become a member of the set.
func ParseHook(set *appsv1.StatefulSet, where, text string) (*corev1.PodTemplateSpec, error) {
	template := &corev1.PodTemplateSpec{}
	if err := bounded.YAML(text, template); err != nil {
		words := strings.ReplaceAll(err.Error(), "\n", " ")
		return nil, fmt.Errorf("%s is no pod template: %.*s", where, maxErrorQuote, words)
	}
	if problem := hookProblem(set, template); problem != "" {
		return nil, fmt.Errorf("%s: %s", where, problem)
	}
	return template, nil
}

// hookProblem returns why the template must not be used. It is empty if it may be used.
func hookProblem(set *appsv1.StatefulSet, template *corev1.PodTemplateSpec) string {
	hasOwnKey := func(all map[string]string) bool {
		for key := range all {
			if strings.HasPrefix(key, api.Prefix) && key != api.SuccessMessageAnnotation {
				return true
			}
		}
		return false
	}
	usesClaim := func(v corev1.Volume) bool {
		if v.PersistentVolumeClaim == nil {
			return false
		}
		_, _, isClaim := statefulset.ParseClaimName(set, v.PersistentVolumeClaim.ClaimName)
		return isClaim
	}
	switch policy := template.Spec.RestartPolicy; {
	case policy != "" && policy != corev1.RestartPolicyNever:
		return fmt.Sprintf("restartPolicy is %.40q, but a hook runs only once. Remove the field", policy)
	case len(template.Spec.Containers) == 0:
		return "spec.containers is empty. Name the container to run"
	case statefulset.Selects(set, template.Labels):
		return "its labels match the StatefulSet's selector, so the set would adopt the pod as a member. Give the template other labels"
	case hasOwnKey(template.Labels) || hasOwnKey(template.Annotations):
		return "it has labels or annotations that begin with " + api.Prefix + ", other than " + api.SuccessMessageAnnotation + ". Remove them"
	case podend.Problem(template) != "":
		return podend.Problem(template)
	case slices.ContainsFunc(template.Spec.Volumes, usesClaim):
		return "it mounts a claim of the StatefulSet and could change the data during the copy. Remove the volume"
	}
	return ""
}

// MakeHook returns the Job of a hook for the member that the link names, in the member's attempt. The hook runs once, but a pod that was
// evicted or lost its node is replaced. Settings that the template does not have come from the set's pod template.
func MakeHook(set *appsv1.StatefulSet, hook Hook, template *corev1.PodTemplateSpec, link api.Link, attempt int,
	settings api.Settings) *batchv1.Job {
	name := api.HookName(link.Operation, string(hook), *link.Member, attempt)
	return hookJob(set, name, template, link, hookEnv(set, hook, link), settings.HookTimeout)
}

// hookJob returns the Job of a hook. Env comes before the variables of the template, so that the template can refer to it.
func hookJob(set *appsv1.StatefulSet, name string, template *corev1.PodTemplateSpec, link api.Link, env []corev1.EnvVar,
	timeout time.Duration) *batchv1.Job {
	template = template.DeepCopy()
	inheritSettings(&template.Spec, &set.Spec.Template.Spec)
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

// hookEnv returns the variables that tell a hook its member.
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
