package resize

import (
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

func TestPodsWithNodeAccessAreRefused(t *testing.T) {
	hostPath := corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}
	privileged := corev1.Container{Name: "p", SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)}}
	with := func(capability corev1.Capability) func(*corev1.PodSpec) {
		return func(p *corev1.PodSpec) {
			p.InitContainers = append(p.InitContainers, corev1.Container{SecurityContext: &corev1.SecurityContext{
				Capabilities: &corev1.Capabilities{Add: []corev1.Capability{capability}}}})
		}
	}
	file := golden.Open(t)
	rows := map[string]struct {
		change  func(*corev1.PodSpec)
		allowed bool
		want    string // a word of the refusal; empty if there is none
	}{
		"ordinary pods":               {func(*corev1.PodSpec) {}, false, ""},
		"hostNetwork":                 {func(p *corev1.PodSpec) { p.HostNetwork = true }, false, "hostNetwork"},
		"hostPID":                     {func(p *corev1.PodSpec) { p.HostPID = true }, false, "hostPID"},
		"hostIPC":                     {func(p *corev1.PodSpec) { p.HostIPC = true }, false, "hostIPC"},
		"hostPath":                    {func(p *corev1.PodSpec) { p.Volumes = append(p.Volumes, hostPath) }, false, "hostPath"},
		"a privileged container":      {func(p *corev1.PodSpec) { p.Containers = append(p.Containers, privileged) }, false, "privileged"},
		"a privileged init container": {func(p *corev1.PodSpec) { p.InitContainers = append(p.InitContainers, privileged) }, false, "privileged"},
		"a flexVolume": {func(p *corev1.PodSpec) {
			p.Volumes = append(p.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{}}})
		}, false, "flexVolume"},
		"a capability equivalent to privileged":              {with("SYS_ADMIN"), false, "SYS_ADMIN"},
		"a capability in the notation of container runtimes": {with("cap_sys_module"), false, "cap_sys_module"},
		"a harmless capability":                              {with("IPC_LOCK"), false, ""},
		"a capability in a user namespace of the pod": {func(p *corev1.PodSpec) { with("SYS_ADMIN")(p); p.HostUsers = ptr.To(false) },
			false, ""},
		"hostPath in a namespace that allows node access": {func(p *corev1.PodSpec) { p.Volumes = append(p.Volumes, hostPath) }, true, ""},
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := rows[name]
		t.Run(name, func(t *testing.T) {
			set := build.Edit(func(s *appsv1.StatefulSet) { row.change(&s.Spec.Template.Spec) })
			in := input(setAsking("data=128Mi", set), twoClaims())
			in.Cluster.NodeAccess = row.allowed
			changes, _, _ := NeededChanges(in)
			found := Preflight(in, changes)
			i := slices.IndexFunc(found, func(p Problem) bool { return p.Reason == api.NodeAccessDenied })
			switch {
			case row.want == "" && i >= 0:
				t.Errorf("refused: %v", found[i])
			case row.want != "" && (i < 0 || !strings.Contains(found[i].Message, row.want) ||
				!strings.Contains(found[i].Message, "kubectl label namespace")):
				t.Errorf("got %v, want a refusal for %s", found, row.want)
			}
			file.Entry(t, name, describe(found))
		})
	}
}

// TestUnsupportedRuntimeIsRefusedForCopies: pods on Windows or in guests are refused if a mover would have to copy beside them.
func TestUnsupportedRuntimeIsRefusedForCopies(t *testing.T) {
	pods := func(change func(*corev1.PodSpec)) build.Option {
		return build.Edit(func(s *appsv1.StatefulSet) { change(&s.Spec.Template.Spec) })
	}
	windows := pods(func(p *corev1.PodSpec) { p.OS = &corev1.PodOS{Name: corev1.Windows} })
	selector := pods(func(p *corev1.PodSpec) { p.NodeSelector = map[string]string{corev1.LabelOSStable: "windows"} })
	guests := pods(func(p *corev1.PodSpec) { p.RuntimeClassName = ptr.To("kata-qemu") })
	file := golden.Open(t)
	rows := map[string]struct {
		options []build.Option
		refused bool
	}{
		"Linux":                          {[]build.Option{pods(func(p *corev1.PodSpec) { p.OS = &corev1.PodOS{Name: corev1.Linux} })}, false},
		"Windows":                        {[]build.Option{windows}, true},
		"a node selector for Windows":    {[]build.Option{selector}, true},
		"guests":                         {[]build.Option{guests}, true},
		"guests in a set scaled to zero": {[]build.Option{guests, build.Replicas(0)}, false},
		"another runtime class":          {[]build.Option{pods(func(p *corev1.PodSpec) { p.RuntimeClassName = ptr.To("nvidia") })}, false},
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := rows[name]
		t.Run(name, func(t *testing.T) {
			in := input(setAsking("data=128Mi@fast", row.options...), twoClaims())
			found := Preflight(in, Compare(in))
			refused := slices.ContainsFunc(found, func(p Problem) bool { return p.Reason == api.RuntimeUnsupported })
			if refused != row.refused {
				t.Errorf("refused %v, want %v: %v", refused, row.refused, found)
			}
			file.Entry(t, name, describe(found))
		})
	}
	in := input(setAsking("data=128Mi", windows), twoClaims())
	if found := Preflight(in, Compare(in)); len(found) > 0 {
		t.Errorf("claims that grow in place: %v", found)
	}
}
