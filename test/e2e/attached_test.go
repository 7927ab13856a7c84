//go:build cluster

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

// TestCopyOfVolumesThatAttachSlowly: attaching and detaching take ten seconds each. A volume stays attached while a pod
// or a mover uses it.
func TestCopyOfVolumesThatAttachSlowly(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.Patience = 5 * time.Minute
	set := stage.Workload("64Mi")
	set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = ptr.To(stage.SlowClass)
	set.Annotations[api.ResizeMethodAnnotation] = string(api.MethodCopy) // the class allows expansion, too
	s.CreateSet(set)
	before := s.Data(t)
	drydock(t, s)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	s.ExpectResized(t, before)
	for _, move := range s.Status("web").Moves() {
		s.Eventually("the old volume of "+move.Claim+" is detached", func() string {
			if slices.Contains(attachedVolumes(t, s), move.OldVolume) {
				return "it is attached"
			}
			return ""
		})
	}
}

const otherPod = `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: other}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: %[1]s
  resources: {requests: {storage: 64Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: other}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: other
      image: %[2]s
      command: [sleep, infinity]
      volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: other}}]
`

// TestNodeWithoutAttachSlot: two volumes can be attached to the node, the member has one, and another pod the other. The scheduler does not
// know the limit, so the attachment of the new volume fails late. The record names it within about a minute, while the member runs. When
// the other pod is gone, the member is copied.
// Invariants: I1.
func TestNodeWithoutAttachSlot(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.Patience = 10 * time.Minute // the attacher tries again after up to five minutes
	set := stage.Workload("64Mi")
	set.Spec.Replicas = ptr.To[int32](1)
	set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = ptr.To(stage.LimitClass)
	set.Annotations[api.ResizeMethodAnnotation] = string(api.MethodCopy)
	set.Annotations[api.CutoverAnnotation] = api.CutoverApprove
	s.CreateSet(set)
	sum := s.Exec(t, "web-0", "find /data -type f | sort | xargs sha256sum")
	s.Kubectl(t, fmt.Sprintf(otherPod, stage.LimitClass, stage.WorkloadImage), "-n", s.Namespace, "apply", "-f", "-")
	s.Kubectl(t, "", "-n", s.Namespace, "wait", "pod", "other", "--for=condition=Ready", "--timeout=3m")
	drydock(t, s, "--tick", "5s")
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	s.Eventually("the missing slot is named", func() string {
		if r := s.Status("web"); r == nil || len(r.Members) == 0 || r.Members[0].RefusingNode == "" {
			return fmt.Sprintf("the record is %+v", r)
		}
		return ""
	})
	said := s.Kubectl(t, "", "get", "events", "-n", s.Namespace, "--field-selector", "reason="+string(api.NoAttachSlot), "-o",
		"jsonpath={..message}")
	if !containsAll(said, []string{"web-0", "cannot attach another volume", "Attachment limit exceeded"}) {
		t.Errorf("Events of reason %s: %q", api.NoAttachSlot, said)
	}
	if set := s.Set("web"); set.Status.ReadyReplicas != 1 {
		t.Errorf("the member was stopped without an approval: %+v", set.Status)
	}

	s.Kubectl(t, "", "-n", s.Namespace, "delete", "pod", "other")
	s.Annotate("web", map[string]string{api.ApproveAnnotation: s.Status("web").Operation})
	if status := s.AwaitEnd(t); status.Phase != api.Succeeded {
		t.Fatalf("phase %s: %s: %s", status.Phase, status.Reason, status.Message)
	}
	s.Eventually("the member is ready on its new volume", func() string {
		if set := s.Set("web"); set.Status.ReadyReplicas != 1 {
			return fmt.Sprintf("%+v", set.Status)
		}
		return ""
	})
	if now := s.Exec(t, "web-0", "find /data -type f | sort | xargs sha256sum"); now != sum {
		t.Errorf("the data is %s, was %s", now, sum)
	}
}

func attachedVolumes(t *testing.T, s *stage.Stage) []string {
	t.Helper()
	list, err := s.Kube.StorageV1().VolumeAttachments().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var volumes []string
	for _, a := range list.Items {
		volumes = append(volumes, ptr.Deref(a.Spec.Source.PersistentVolumeName, ""))
	}
	return volumes
}
