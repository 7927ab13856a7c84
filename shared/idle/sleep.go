package idle

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/sts"
)

// NewSleep makes the document of a sleep that begins now. Its times are whole seconds, as those of activities are.
func NewSleep(set *appsv1.StatefulSet, phase api.Phase, request string, attempt int, now time.Time, trace string) *api.Status {
	return &api.Status{
		Version: api.StatusVersion, Kind: api.KindSleep, Phase: phase, Request: request, Attempt: attempt, Round: 1,
		Operation: resources.OperationID(set.UID, api.KindSleep, attempt),
		Set:       api.SetRef{Name: set.Name, UID: set.UID}, Replicas: sts.Replicas(set),
		Started: metav1.NewTime(now.UTC().Truncate(time.Second)), Trace: trace,
	}
}

// Complaint says what is wrong with what people wrote on the set.
func (m Member) Complaint() string {
	return fmt.Sprintf("%s; the set stays awake until that is corrected", clip(strings.ReplaceAll(m.Err.Error(), "\n", "; "), longestComplaint))
}

// longestComplaint bounds what is quoted of people's mistakes, in bytes: a Kubernetes Event takes 1024.
const longestComplaint = 900

func clip(text string, length int) string {
	if len(text) <= length {
		return text
	}
	return strings.ToValidUTF8(text[:length], "") + "…"
}

// Complained reports whether the set's document says so already.
func (m Member) Complained() bool {
	return m.Nap != nil && m.Nap.Phase == api.Refused && m.Nap.Message == m.Complaint()
}

// Rests reports whether a sleep that failed, or that somebody ended while the set was to be paused, is left alone for the
// time of a retry. Who asks for one does not want to wait.
func (m Member) Rests(v Verdict, now time.Time, retry time.Duration) bool {
	nap := m.Nap
	if m.Retried() || nap == nil || nap.Finished == nil || !now.Before(nap.Finished.Add(retry)) {
		return false
	}
	failed := nap.Phase == api.Failed || nap.Phase == api.Refused && nap.Reason != api.RequestInvalid
	if v.Request == ForPause && nap.Request != ForPause {
		failed = false // a person's pause does not wait for what a clock could not do
	}
	return failed || nap.Reason == api.StartedByOthers && v.Request == ForPause
}

// Retried reports whether somebody asks for another try of the sleep. One of a resize is detect-resize's.
func (m Member) Retried() bool {
	_, resize := m.Set.Annotations[api.ResizeAnnotation]
	return sts.Retried(m.Set) && !resize
}
