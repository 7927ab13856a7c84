package resources

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
)

// MakeScaleHook returns the Job of a scale hook: "pre", "post" or "onFailure". Like the Job of MakeHook it runs once. Its deadline is the
// timeout. Each container gets the facts of the scaling as variables and as a file.
func MakeScaleHook(set *appsv1.StatefulSet, record *api.Scale, hook string, template *corev1.PodTemplateSpec,
	timeout time.Duration) *batchv1.Job {
	link := api.Link{Operation: record.Operation, Role: api.RoleScaleHook, Namespace: set.Namespace, Set: record.Set}
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
