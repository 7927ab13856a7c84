//go:build cluster

package e2e

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

// TestFieldsReplaceSetAroundRunningPods: another service, a label for new claims and one template less. No pod stops.
// Each pod gets the changes with its next start, and the claims of the template stay.
func TestFieldsReplaceSetAroundRunningPods(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	set := stage.Workload("64Mi")
	logs := set.Spec.VolumeClaimTemplates[0].DeepCopy()
	logs.Name = "logs"
	set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, *logs)
	s.CreateSet(set)
	before, pods := s.Data(t), podsOf(t, s)
	drydock(t, s)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "serviceName=other,data/labels/tier=gold,-logs"})
	if status := s.AwaitEnd(t); status.Phase != api.Succeeded {
		t.Fatalf("%s %s: %s", status.Phase, status.Reason, status.Message)
	}
	s.AwaitReady(t)
	if after := podsOf(t, s); after != pods {
		t.Errorf("the pods are %s, were %s", after, pods)
	}
	if pod := memberPod(t, s, "web-1"); pod.Spec.Subdomain == "other" || !mountsClaim(pod, "logs-web-1") {
		t.Errorf("pod web-1 is in service %q, with volumes %v: it has not been started again", pod.Spec.Subdomain, pod.Spec.Volumes)
	}
	s.ExpectNothingLeft(t)

	startAgain(t, s, "web-1")
	if pod := memberPod(t, s, "web-1"); pod.Spec.Subdomain != "other" || mountsClaim(pod, "logs-web-1") {
		t.Errorf("pod web-1 is in service %q, with volumes %v: it has been started again", pod.Spec.Subdomain, pod.Spec.Volumes)
	}
	if logs := s.Claim("logs-web-1"); logs == nil || logs.Status.Phase != corev1.ClaimBound {
		t.Errorf("claim logs-web-1 is %v", logs)
	}
	if diff := cmp.Diff(before, s.Data(t)); diff != "" {
		t.Errorf("the data changed: %s", diff)
	}
	s.Kubectl(t, "", "scale", "-n", s.Namespace, "sts/web", "--replicas=3")
	s.Eventually("the new claim has the label", func() string {
		if claim := s.Claim("data-web-2"); claim == nil || claim.Labels["tier"] != "gold" {
			return "it has not"
		}
		return ""
	})
}

func memberPod(t *testing.T, s *stage.Stage, name string) *corev1.Pod {
	t.Helper()
	pod, err := s.Kube.CoreV1().Pods(s.Namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// startAgain deletes the pod and waits until its successor is ready.
func startAgain(t *testing.T, s *stage.Stage, name string) {
	t.Helper()
	was := memberPod(t, s, name).UID
	s.Kubectl(t, "", "delete", "pod", "-n", s.Namespace, name)
	s.Eventually(name+" is started again", func() string {
		pod, err := s.Kube.CoreV1().Pods(s.Namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || pod.UID == was {
			return "it is not"
		}
		return ""
	})
	s.AwaitReady(t)
}

func mountsClaim(pod *corev1.Pod, claim string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
	})
}
