package kube

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/test/kit/build"
)

// TestForgedEventsHideNoEviction: any user who may write Events can write a page of them about the end of a sidecar, which proves nothing.
func TestForgedEventsHideNoEviction(t *testing.T) {
	pod := build.Pod("web-2", nil, build.UID("uid-pod"), build.InPhase(corev1.PodSucceeded), build.Edit(func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "log", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
	}))
	event := func(name, reason, path string) metav1.Object {
		return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: name}, Reason: reason,
			InvolvedObject: corev1.ObjectReference{UID: pod.UID, FieldPath: path}}
	}
	var forged list
	for i := range pageSize + 1 {
		forged = append(forged, event(fmt.Sprint("forged-", i), "Killing", "spec.initContainers{log}"))
	}
	for name, row := range map[string]struct {
		events list
		kill   bool
	}{
		"only Events of the sidecar": {forged, false},
		"an eviction behind them":    {append(forged, event("real", "Evicted", "")), true},
	} {
		t.Run(name, func(t *testing.T) {
			kills := serve(t, build.Lists{"events": row.events}).Kills(t.Context(), []*corev1.Pod{pod})
			if told, read := kills.Events[pod.UID]; kills.Unread != "" || !read || (told.Kill != nil) != row.kill {
				t.Errorf("read %t, Event %v; %s", read, told.Kill, kills.Unread)
			}
		})
	}
}

// TestFailedReadOfEventsIsReported: it is no error of the whole look, and the pod then counts as unread.
func TestFailedReadOfEventsIsReported(t *testing.T) {
	pod := build.Pod("web-2", nil, build.InPhase(corev1.PodSucceeded))
	for name, row := range map[string]struct {
		lists  build.Lists
		read   bool
		unread string
	}{
		"the API server has the list":  {build.Lists{"events": list{}}, true, ""},
		"the API server fails to list": {nil, false, "reading the Events about pod web-2: "},
	} {
		t.Run(name, func(t *testing.T) {
			kills := serve(t, row.lists).Kills(t.Context(), []*corev1.Pod{pod})
			if _, read := kills.Events[pod.UID]; read != row.read || !strings.HasPrefix(kills.Unread, row.unread) ||
				(kills.Unread == "") != row.read {
				t.Errorf("read %t, unread %q", read, kills.Unread)
			}
		})
	}
}
