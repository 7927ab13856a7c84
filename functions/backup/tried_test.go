package backup

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/sts"
)

// TestPreflightTriesTheMoverThatRuns: a mover that is placed without a running pod asks for what the pod will need, and a quota or a
// LimitRange has to refuse that before the set is stopped.
func TestPreflightTriesTheMoverThatRuns(t *testing.T) {
	large := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("3Gi"), corev1.ResourceCPU: resource.MustParse("2")}}
	class := "kata"
	in := world(unplaced(func(*api.Resize) {}))
	in.Set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "db", Resources: large}, {Name: "exporter", Resources: large}}
	in.Set.Spec.Template.Spec.RuntimeClassName = &class
	status, err := in.Status()
	if err != nil || status == nil {
		t.Fatal(status, err)
	}
	tried, err := resize.CopyJob(resize.Input{Observed: in.Observed, Settings: in.Settings, Cluster: &sts.Cluster{RootMovers: true}}, status, &status.Claims[0])
	if err != nil {
		t.Fatal(err)
	}
	run := jobsMade(Decide(in))["data-web-0"]
	if run == nil {
		t.Fatal(Decide(in))
	}
	tries, runs := tried.Spec.Template.Spec, run.Spec.Template.Spec
	if got, want := tries.Containers[0].Resources.Requests.Memory(), runs.Containers[0].Resources.Requests.Memory(); got.Cmp(*want) != 0 {
		t.Errorf("the preflight tries %s of memory, the mover asks for %s", got, want)
	}
	if tries.RuntimeClassName == nil || runs.RuntimeClassName == nil {
		t.Errorf("runtime classes %v, %v", tries.RuntimeClassName, runs.RuntimeClassName)
	}
}

// TestMoverRunsAsTheStoppedPodsDid: admission had given them their user, and no pod is left to tell it.
func TestMoverRunsAsTheStoppedPodsDid(t *testing.T) {
	user := int64(1000660000)
	in := world(unplaced(func(s *api.Resize) { s.Admitted = &corev1.PodSecurityContext{RunAsUser: &user, FSGroup: &user} }))
	in.Set.Spec.Template.Spec.SecurityContext = nil
	run := jobsMade(Decide(in))["data-web-0"]
	if run == nil {
		t.Fatal(Decide(in))
	}
	if is := run.Spec.Template.Spec.SecurityContext; is.RunAsUser == nil || *is.RunAsUser != user || is.FSGroup == nil || *is.FSGroup != user {
		t.Errorf("the mover runs as %+v", is)
	}
}
