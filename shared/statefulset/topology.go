package statefulset

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Nodes are alternative terms that select nodes. A node must match one of them. No terms select all nodes.
type Nodes []corev1.NodeSelectorTerm

// NodesOfVolume returns the nodes that can reach the volume.
func NodesOfVolume(volume *corev1.PersistentVolume) Nodes {
	if volume == nil || volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return nil
	}
	return volume.Spec.NodeAffinity.Required.NodeSelectorTerms
}

// NodesOfClass returns the nodes that the class can provision volumes for.
func NodesOfClass(class *storagev1.StorageClass) Nodes {
	if class == nil {
		return nil
	}
	var terms Nodes
	for _, topology := range class.AllowedTopologies {
		term := corev1.NodeSelectorTerm{}
		for _, label := range topology.MatchLabelExpressions {
			term.MatchExpressions = append(term.MatchExpressions, oneOf(label.Key, label.Values))
		}
		terms = append(terms, term)
	}
	return terms
}

// NodesOfPods returns the nodes where the pods may run.
func NodesOfPods(pod *corev1.PodSpec) Nodes {
	var terms Nodes
	if affinity := pod.Affinity; affinity != nil && affinity.NodeAffinity != nil {
		if required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
			terms = slices.Clone(required.NodeSelectorTerms)
		}
	}
	if len(pod.NodeSelector) == 0 {
		return terms
	}
	if len(terms) == 0 {
		terms = Nodes{{}}
	}
	for i := range terms {
		terms[i].MatchExpressions = slices.Clone(terms[i].MatchExpressions)
		for _, key := range slices.Sorted(maps.Keys(pod.NodeSelector)) {
			terms[i].MatchExpressions = append(terms[i].MatchExpressions, oneOf(key, []string{pod.NodeSelector[key]}))
		}
	}
	return terms
}

func oneOf(key string, values []string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

// Disjoint reports whether certainly no node matches both.
func (n Nodes) Disjoint(other Nodes) bool {
	if len(n) == 0 || len(other) == 0 {
		return false
	}
	for _, a := range n {
		for _, b := range other {
			if !contradict(a, b) {
				return false
			}
		}
	}
	return true
}

func contradict(a, b corev1.NodeSelectorTerm) bool {
	return requirementsContradict(a.MatchExpressions, b.MatchExpressions) || requirementsContradict(a.MatchFields, b.MatchFields)
}

func requirementsContradict(all, others []corev1.NodeSelectorRequirement) bool {
	for _, a := range all {
		for _, b := range others {
			if a.Key == b.Key && (excludes(a, b) || excludes(b, a)) {
				return true
			}
		}
	}
	return false
}

// excludes reports whether b excludes all values that a allows.
func excludes(a, b corev1.NodeSelectorRequirement) bool {
	if a.Operator != corev1.NodeSelectorOpIn {
		return a.Operator == corev1.NodeSelectorOpExists && b.Operator == corev1.NodeSelectorOpDoesNotExist
	}
	switch b.Operator {
	case corev1.NodeSelectorOpIn:
		return !slices.ContainsFunc(a.Values, func(v string) bool { return slices.Contains(b.Values, v) })
	case corev1.NodeSelectorOpNotIn:
		return !slices.ContainsFunc(a.Values, func(v string) bool { return !slices.Contains(b.Values, v) })
	}
	return b.Operator == corev1.NodeSelectorOpDoesNotExist
}

// String returns the terms as text for readers.
func (n Nodes) String() string {
	var terms []string
	for _, term := range n {
		var words []string
		for _, r := range append(slices.Clone(term.MatchExpressions), term.MatchFields...) {
			words = append(words, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Key, r.Operator, strings.Join(r.Values, ","))))
		}
		terms = append(terms, strings.Join(words, " and "))
	}
	return strings.Join(terms, ", or ")
}

// powers matches the capabilities that give a container access to its node, if it shares the node's user namespace. Runtimes accept them in
// upper and lower case, with and without their prefix.
var powers = regexp.MustCompile(`(?i)^(CAP_)?(ALL|BPF|DAC_READ_SEARCH|SYS_ADMIN|SYS_BOOT|SYS_MODULE|SYS_RAWIO)$`)

// NodeAccess returns the pod's means of access to its node, or "": host namespaces, a volume on the node, a privileged container or a
// capability. config/policy/fence-sets.yaml refuses the same.
func NodeAccess(pod *corev1.PodSpec) string {
	switch {
	case pod.HostNetwork:
		return "hostNetwork"
	case pod.HostPID:
		return "hostPID"
	case pod.HostIPC:
		return "hostIPC"
	case slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil }):
		return "a hostPath volume"
	case slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.FlexVolume != nil }):
		return "a flexVolume, whose driver runs on the node"
	}
	own := pod.HostUsers != nil && !*pod.HostUsers
	for _, c := range slices.Concat(pod.Containers, pod.InitContainers) {
		switch {
		case c.SecurityContext == nil:
		case c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged:
			return "a privileged container"
		case c.SecurityContext.Capabilities != nil && !own:
			for _, added := range c.SecurityContext.Capabilities.Add {
				if powers.MatchString(string(added)) {
					return "the capability " + string(added)
				}
			}
		}
	}
	return ""
}
