package restore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/podprobe"
	"drydock.dev/shared/probe"
)

// timeForWrites is how much of the event's time the member check leaves for the writes that follow from its answers.
const timeForWrites = 5 * time.Second

// askMembers asks the pods by the member check of the set, all within the limit. It returns for each pod why it has not caught up, or
// empty. It quotes only the status code of an answer. If the event's time is too short to wait for all answers, it asks no pod.
func askMembers(ctx context.Context, set *appsv1.StatefulSet, pods []*corev1.Pod, limit time.Duration) map[types.UID]string {
	check, err := probe.ParseMemberCheck(set)
	if deadline, ok := ctx.Deadline(); err != nil || check == nil || ok && time.Until(deadline) < limit+timeForWrites {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answers := make([]string, len(pods))
	for i, err := range podprobe.ForEach(len(pods), func(i int) error {
		answers[i] = askMember(ctx, pods[i], *check, limit)
		return nil
	}) {
		if err != nil {
			answers[i] = fmt.Sprintf("the member check of pod %s failed: %v", pods[i].Name, err)
		}
	}
	found := map[types.UID]string{}
	for i, pod := range pods {
		found[pod.UID] = answers[i]
	}
	return found
}

// askMember asks one pod. The same answer gives the same words, so that the record is written only once.
func askMember(ctx context.Context, pod *corev1.Pod, check probe.Probe, limit time.Duration) string {
	code, err := http.StatusOK, error(nil)
	if check.Kind == probe.TCP {
		err = podprobe.Dial(ctx, pod, check.Port)
	} else {
		code, err = podprobe.Get(ctx, pod, check)
	}
	var number syscall.Errno
	switch {
	case err == nil && code >= 200 && code < 300:
		return ""
	case err == nil:
		return fmt.Sprintf("pod %s answers %d to its member check; 200 to 299 mean that it has caught up", pod.Name, code)
	case pod.Status.PodIP == "":
		return fmt.Sprintf("pod %s has no address to ask its member check", pod.Name)
	case ctx.Err() != nil || os.IsTimeout(err):
		return fmt.Sprintf("pod %s does not answer its member check within %s", pod.Name, limit)
	case errors.As(err, &number):
		return fmt.Sprintf("the member check cannot reach pod %s: %v", pod.Name, number)
	}
	return fmt.Sprintf("the answer of pod %s to its member check %s cannot be read", pod.Name, check.Kind)
}
