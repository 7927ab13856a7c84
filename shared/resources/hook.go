// Package resources builds the objects that Drydock creates. Its functions read and write nothing in the cluster. The name of every object
// derives from the operation, so a retry finds the objects that an earlier try created.
package resources

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/bounded"
	"drydock.dev/shared/hookurl"
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

// CallContainer is the name of the container that calls a URL for a hook.
const CallContainer = "call"

// fallbackCallTimeout is the timeout of a hook without a valid timeout, because the API server has not set the default.
const fallbackCallTimeout = 10 * time.Second

// CallTemplate returns the pod template of an HTTP hook. Drydock's image sends the request from the Scaler's namespace, so the network
// policies of that namespace apply. The pod has no token and no rights. Where names the hook in errors.
func CallTemplate(settings api.Settings, where string, hook v1alpha1.HookHTTP) (*corev1.PodTemplateSpec, error) {
	if _, err := hookurl.Parse(hook.URL); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	if err := settings.CheckImage(); err != nil {
		return nil, fmt.Errorf("%s needs Drydock's image: %w", where, err)
	}
	timeout, err := time.ParseDuration(string(hook.Timeout))
	if err != nil || timeout <= 0 {
		timeout = fallbackCallTimeout
	}
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		AutomountServiceAccountToken: ptr.To(false),
		EnableServiceLinks:           ptr.To(false),
		ServiceAccountName:           "default", // the rights of the set's service account are not needed
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{
			Name:            CallContainer,
			Image:           settings.Image,
			ImagePullPolicy: corev1.PullIfNotPresent,
			// Each $ is doubled. Otherwise the kubelet would expand variables in the URL.
			Args: []string{"call", "--url=" + strings.ReplaceAll(hook.URL, "$", "$$"), "--timeout=" + timeout.String(),
				"--report=/dev/termination-log"},
			SecurityContext: moverSecurity(false),
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
			},
		}},
	}}, nil
}

// MakeScaleHook returns the Job of a scale hook: "pre", "post" or "onFailure". Like the Job of MakeHook it runs once. Its deadline is the
// timeout. Each container gets the facts of the scaling as variables and as a file.
func MakeScaleHook(set *appsv1.StatefulSet, record *api.Scale, hook string, template *corev1.PodTemplateSpec,
	timeout time.Duration) *batchv1.Job {
	link := record.Link(api.RoleScaleHook, set.Namespace)
	facts := HookFacts(set, record, hook)
	return hookJob(set, api.ScaleHookName(record.Operation, hook), withFacts(template, facts), link, scaleEnv(facts), timeout)
}

// ParseScaleHook reads the pod template of a scale hook, as ParseHook does. It also refuses a template that uses the name or the path of
// the volume with the facts.
func ParseScaleHook(set *appsv1.StatefulSet, where, text string) (*corev1.PodTemplateSpec, error) {
	template, err := ParseHook(set, where, text)
	if err != nil {
		return nil, err
	}
	if problem := factsProblem(&template.Spec); problem != "" {
		return nil, fmt.Errorf("%s: %s", where, problem)
	}
	return template, nil
}

// factsVolume is the name of the volume with the facts.
const factsVolume = "drydock-hook"

// factsProblem returns which volume or mount of the template conflicts with the volume of the facts. It is empty if none does.
func factsProblem(pod *corev1.PodSpec) string {
	for _, v := range pod.Volumes {
		if v.Name == factsVolume {
			return "volume name " + factsVolume + " is reserved for Drydock. Rename your volume"
		}
	}
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for _, c := range containers {
			paths := []string{}
			for _, m := range c.VolumeMounts {
				paths = append(paths, m.MountPath)
			}
			for _, d := range c.VolumeDevices {
				paths = append(paths, d.DevicePath)
			}
			for _, p := range paths {
				if p = path.Clean("/" + p); p == api.HookDir || strings.HasPrefix(p, api.HookDir+"/") {
					return fmt.Sprintf("container %.63q mounts a volume at %.100q, but Drydock provides %s there. Choose another path", c.Name, p,
						path.Join(api.HookDir, api.HookFile))
				}
			}
		}
	}
	return ""
}

// withFacts returns a copy of the template whose containers have the facts as a file. The last lines of a log do not become a container's
// message, unless the template requests it: the message appears in the status of the Scaler, and more users may read that than the logs.
func withFacts(template *corev1.PodTemplateSpec, facts api.HookFacts) *corev1.PodTemplateSpec {
	template = template.DeepCopy()
	template.Annotations = withEntry(template.Annotations, api.HookAnnotation, facts.Encode())
	template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{Name: factsVolume, VolumeSource: corev1.VolumeSource{
		DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{Path: api.HookFile,
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: fmt.Sprintf("metadata.annotations['%s']", api.HookAnnotation)}}}}}})
	for _, containers := range [][]corev1.Container{template.Spec.InitContainers, template.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: factsVolume, MountPath: api.HookDir, ReadOnly: true})
			if c.TerminationMessagePolicy == "" {
				c.TerminationMessagePolicy = corev1.TerminationMessageReadFile
			}
		}
	}
	return template
}

// HookFacts returns the facts about the scaling for the hook.
func HookFacts(set *appsv1.StatefulSet, record *api.Scale, hook string) api.HookFacts {
	first := record.Start // not the present start, which another client may have changed since
	return api.HookFacts{Hook: hook, Direction: record.Direction(), Current: record.Previous, Desired: record.Target, Paused: record.Paused,
		Added: Ordinals(first, record.Previous, record.Target), Removed: Ordinals(first, record.Target, record.Previous),
		Namespace: set.Namespace, Set: set.Name, Scaler: record.Scaler.Name, Operation: record.Operation}
}

// scaleEnv returns the facts as environment variables.
func scaleEnv(facts api.HookFacts) []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: "DRYDOCK_NAMESPACE", Value: facts.Namespace},
		{Name: "DRYDOCK_SET", Value: facts.Set},
		{Name: "DRYDOCK_PAUSED", Value: strconv.FormatBool(facts.Paused)},
		{Name: "DRYDOCK_SCALER", Value: facts.Scaler},
		{Name: "DRYDOCK_HOOK", Value: facts.Hook},
		{Name: "DRYDOCK_OPERATION", Value: facts.Operation},
		{Name: "DRYDOCK_DIRECTION", Value: facts.Direction},
		{Name: "DRYDOCK_CURRENT", Value: strconv.Itoa(int(facts.Current))},
		{Name: "DRYDOCK_DESIRED", Value: strconv.Itoa(int(facts.Desired))},
		{Name: "DRYDOCK_ADDED", Value: joinOrdinals(facts.Added)},
		{Name: "DRYDOCK_REMOVED", Value: joinOrdinals(facts.Removed)},
	}
}

// MaxOrdinals limits the ordinals in a variable, and so the size of the Job. After a hook, at most this many members are removed at once.
const MaxOrdinals = 10000

// Ordinals returns the ordinals of the members between the two counts, at most MaxOrdinals. It is never nil.
func Ordinals(first int, fewer, more int32) []int {
	all := []int{}
	for i := fewer; i < more && len(all) < MaxOrdinals; i++ {
		all = append(all, first+int(i))
	}
	return all
}

// joinOrdinals returns the ordinals, separated by commas.
func joinOrdinals(ordinals []int) string {
	words := make([]string, len(ordinals))
	for i, n := range ordinals {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ",")
}
