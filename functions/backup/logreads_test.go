package backup

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/test/kit/build"
)

// TestLogIsReadOncePerPeriodAlsoWithoutProgress: a verification and a later pass store nothing, but may last for hours. Each event of the
// set, its pods and claims would read the log.
func TestLogIsReadOncePerPeriodAlsoWithoutProgress(t *testing.T) {
	w := workOn(build.Operation(api.Moving, build.Members(api.MemberCopying, web0)))
	member := &w.record.Members[0]
	pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{{
		Name: moverreport.FirstContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}}
	reads := 0
	start := w.Now
	for second := 0; second < 600; second++ { // an event each second for ten minutes
		w.Now = start.Add(time.Duration(second) * time.Second)
		if w.progressContainer(member, pod) == "" {
			continue
		}
		reads++
		w.Progress = map[int]moverreport.Progress{0: {Phase: moverreport.PhaseVerify, Claim: "data", Pass: 1, BytesDone: int64(second),
			BytesTotal: 1000}}
		w.storeProgress(member)
	}
	if most := int(10*time.Minute/w.Settings.ProgressPeriod) + 1; reads > most {
		t.Errorf("%d reads of the log, want at most %d", reads, most)
	}
}
