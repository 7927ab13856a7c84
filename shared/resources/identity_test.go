package resources_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

func TestMoverUser(t *testing.T) {
	user := func(pod *int64, containers ...*int64) *appsv1.StatefulSet {
		set := build.Set("web")
		set.Spec.Template.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: pod}
		set.Spec.Template.Spec.Containers = nil
		for _, c := range containers {
			own := corev1.Container{}
			if c != nil {
				own.SecurityContext = &corev1.SecurityContext{RunAsUser: c}
			}
			set.Spec.Template.Spec.Containers = append(set.Spec.Template.Spec.Containers, own)
		}
		return set
	}
	id := func(n int64) *int64 { return &n }
	for name, row := range map[string]struct {
		set     *appsv1.StatefulSet
		allowed bool
		root    bool
		refused bool
	}{
		"the pod names a user":                           {user(id(1000), nil), false, false, false},
		"its containers name a user":                     {user(nil, id(7), id(7)), false, false, false},
		"a container overrules the pod":                  {user(id(0), id(7)), false, false, false},
		"two containers name different users":            {user(nil, id(7), id(8)), false, false, true},
		"one container names no user":                    {user(nil, id(7), nil), false, false, true},
		"no user is named":                               {user(nil, nil), false, false, true},
		"root":                                           {user(id(0), nil), false, false, true},
		"a container is root":                            {user(id(1000), id(0)), false, false, true},
		"root, in a namespace that allows root movers":   {user(id(0), nil), true, true, false},
		"a user, in a namespace that allows root movers": {user(id(1000), nil), true, true, false},
	} {
		root, err := resources.MoverUser(row.set, nil, row.allowed)
		if root != row.root || (err != nil) != row.refused {
			t.Errorf("%s: root %t, %v", name, root, err)
		}
	}
}

// openShift returns a pod of the set after OpenShift's restricted SecurityContextConstraints have changed it. The containers get a user
// from the namespace's range, and the pod gets a group and an SELinux level.
func openShift(set *appsv1.StatefulSet, user int64) *corev1.Pod {
	pod := &corev1.Pod{Spec: *set.Spec.Template.Spec.DeepCopy()}
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &user, SELinuxOptions: &corev1.SELinuxOptions{Level: "s0:c26,c5"}}
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].SecurityContext = &corev1.SecurityContext{RunAsUser: &user}
	}
	return pod
}

func TestMoverRunsAsAdmittedUser(t *testing.T) {
	unnamed := build.Set("web")
	unnamed.Spec.Template.Spec.SecurityContext = nil
	named := build.Set("web")
	named.Spec.Template.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](7), FSGroup: ptr.To[int64](8)}
	level := &corev1.SELinuxOptions{Level: "s0:c26,c5"}
	id := ptr.To[int64](1000660000)
	all := &corev1.PodSecurityContext{RunAsUser: id, FSGroup: id, SELinuxOptions: level}
	for name, row := range map[string]struct {
		set  *appsv1.StatefulSet
		pods []*corev1.Pod
		want *corev1.PodSecurityContext
	}{
		"the template names no user":            {unnamed, []*corev1.Pod{openShift(unnamed, *id), openShift(unnamed, *id)}, all},
		"the template names a user":             {named, []*corev1.Pod{openShift(named, 7)}, &corev1.PodSecurityContext{SELinuxOptions: level}},
		"no pod runs":                           {unnamed, nil, nil},
		"the pods equal the template":           {named, []*corev1.Pod{{Spec: named.Spec.Template.Spec}}, nil},
		"the pods have different users":         {unnamed, []*corev1.Pod{openShift(unnamed, *id), openShift(unnamed, *id+1)}, nil},
		"one pod is older than the constraints": {unnamed, []*corev1.Pod{openShift(unnamed, *id), {Spec: unnamed.Spec.Template.Spec}}, nil},
	} {
		got := resources.AdmittedContext(row.set, row.pods)
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}

	if root, err := resources.MoverUser(unnamed, all, false); root || err != nil {
		t.Errorf("root %t, %v", root, err)
	}
	if _, err := resources.MoverUser(unnamed, &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](0)}, false); err == nil {
		t.Error("a root mover is allowed although the namespace does not allow it")
	}
	security := moverJob(func(m *resources.Mover) { m.Set, m.Admitted = unnamed, all }).Spec.Template.Spec.SecurityContext
	if *security.RunAsUser != *id || *security.FSGroup != *id || *security.SELinuxOptions != *level || !*security.RunAsNonRoot {
		t.Errorf("%+v", security)
	}
	if unnamed.Spec.Template.Spec.SecurityContext != nil {
		t.Error("the set's own template has changed")
	}
}
