//go:build cluster

package api

import (
	"errors"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
)

var autoscalerThefts = []theft{
	{"create, change or delete the autoscaler of a Scaler", func(s *thief) error {
		return errors.Join(s.createAutoscaler(func(*autoscalingv2.HorizontalPodAutoscaler) {}),
			s.patchAutoscaler("owned", `{"spec":{"maxReplicas":9}}`),
			s.deleteAutoscaler("owned"))
	}, "scale"},
	{"create, change or delete any other autoscaler, or have one scale something else", func(s *thief) error {
		for _, change := range forgedAutoscalers {
			if err := s.createAutoscaler(change); err == nil {
				return nil
			}
		}
		for _, forgery := range changedAutoscalers {
			if err := s.patchAutoscaler(forgery.name, forgery.body); err == nil {
				return nil
			}
		}
		return s.deleteAutoscaler("others")
	}, ""},
}

// forgedAutoscalers are changes after which an autoscaler belongs to no Scaler.
var forgedAutoscalers = map[string]func(*autoscalingv2.HorizontalPodAutoscaler){
	"another name":       func(a *autoscalingv2.HorizontalPodAutoscaler) { a.Name = "mine" },
	"no owner":           func(a *autoscalingv2.HorizontalPodAutoscaler) { a.OwnerReferences = nil },
	"another owner":      func(a *autoscalingv2.HorizontalPodAutoscaler) { a.OwnerReferences[0].Kind = "ConfigMap" },
	"an owner of others": func(a *autoscalingv2.HorizontalPodAutoscaler) { a.OwnerReferences[0].APIVersion = "example.com/v1" },
	"the owner's name":   func(a *autoscalingv2.HorizontalPodAutoscaler) { a.OwnerReferences[0].Name = "other" },
	"no controller":      func(a *autoscalingv2.HorizontalPodAutoscaler) { a.OwnerReferences[0].Controller = nil },
	"a finalizer":        func(a *autoscalingv2.HorizontalPodAutoscaler) { a.Finalizers = []string{"example.com/x"} },
	"another Scaler":     func(a *autoscalingv2.HorizontalPodAutoscaler) { a.Spec.ScaleTargetRef.Name = "other" },
	"a set":              func(a *autoscalingv2.HorizontalPodAutoscaler) { a.Spec.ScaleTargetRef.Kind = "StatefulSet" },
	"a Scaler of others": func(a *autoscalingv2.HorizontalPodAutoscaler) { a.Spec.ScaleTargetRef.APIVersion = "example.com/v1" },
}

// changedAutoscalers are the changes that scale never makes.
var changedAutoscalers = map[string]struct{ name, body string }{
	"one of others": {"others", `{"spec":{"maxReplicas":9}}`},
	"its target":    {"owned", `{"spec":{"scaleTargetRef":{"name":"other"}}}`},
	"its owner":     {"owned", `{"metadata":{"ownerReferences":null}}`},
	"a finalizer":   {"owned", `{"metadata":{"finalizers":["example.com/x"]}}`},
}

// layAutoscalers creates an autoscaler of Scaler owned, and a foreign one.
func (l *loot) layAutoscalers(t *testing.T) {
	t.Helper()
	s := scalers{World: l.w}
	if err := s.create("owned", v1alpha1.ScalerSpec{Replicas: ptr.To[int32](2)}); err != nil {
		t.Fatal(err)
	}
	if err := s.create("paused", v1alpha1.ScalerSpec{Replicas: ptr.To[int32](2), Paused: true}); err != nil {
		t.Fatal(err)
	}
	autoscalers := l.w.Kube.AutoscalingV2().HorizontalPodAutoscalers(l.w.Namespace)
	mine := autoscalerOf("owned", s.get("owned").UID)
	others := autoscalerOf("others", "")
	others.OwnerReferences, others.Spec.ScaleTargetRef = nil, autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1",
		Kind: "StatefulSet", Name: "plain"}
	others.Spec.MaxReplicas = 1 // it scales nothing
	for _, a := range []*autoscalingv2.HorizontalPodAutoscaler{mine, others} {
		if _, err := autoscalers.Create(t.Context(), a, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// autoscalerOf returns the autoscaler of a Scaler.
func autoscalerOf(scaler string, uid types.UID) *autoscalingv2.HorizontalPodAutoscaler {
	group := v1alpha1.GroupVersion.String()
	return &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: scaler, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: group, Kind: "Scaler", Name: scaler, UID: uid, Controller: ptr.To(true)}}},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: group,
			Kind: "Scaler", Name: scaler}, MaxReplicas: 2}}
}

func (s *thief) createAutoscaler(change func(*autoscalingv2.HorizontalPodAutoscaler)) error {
	a := autoscalerOf("made", "uid-made")
	change(a)
	_, err := s.kube.AutoscalingV2().HorizontalPodAutoscalers(s.w.Namespace).Create(s.ctx, a, metav1.CreateOptions{DryRun: dry})
	return err
}

func (s *thief) patchAutoscaler(name, body string) error {
	_, err := s.kube.AutoscalingV2().HorizontalPodAutoscalers(s.w.Namespace).Patch(s.ctx, name, types.MergePatchType, []byte(body),
		metav1.PatchOptions{DryRun: dry})
	return err
}

func (s *thief) deleteAutoscaler(name string) error {
	return s.kube.AutoscalingV2().HorizontalPodAutoscalers(s.w.Namespace).Delete(s.ctx, name, metav1.DeleteOptions{DryRun: dry})
}

// TestFenceOfAutoscalers: scale writes only the autoscalers of Scalers.
func TestFenceOfAutoscalers(t *testing.T) {
	t.Parallel()
	s := stealToken(t, layLoot(t), string(api.ScaleFunction))
	for what, change := range forgedAutoscalers {
		if err := s.createAutoscaler(change); !apierrors.IsForbidden(err) {
			t.Errorf("an autoscaler with %s: %v", what, err)
		}
	}
	for what, forgery := range changedAutoscalers {
		if err := s.patchAutoscaler(forgery.name, forgery.body); !apierrors.IsForbidden(err) {
			t.Errorf("changing %s: %v", what, err)
		}
	}
	if err := s.deleteAutoscaler("others"); !apierrors.IsForbidden(err) {
		t.Errorf("deleting one of others: %v", err)
	}
	body := []byte(`{"spec":{"scaleTargetRef":{"name":"other"}}}`)
	if _, err := s.w.Kube.AutoscalingV2().HorizontalPodAutoscalers(s.w.Namespace).Patch(s.ctx, "owned", types.MergePatchType, body,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.patchAutoscaler("owned", `{"spec":{"scaleTargetRef":{"name":"owned"}}}`); err != nil {
		t.Errorf("putting back its target: %v", err)
	}
	home := autoscalerOf("made", "uid-made")
	_, err := s.kube.AutoscalingV2().HorizontalPodAutoscalers(api.HomeNamespace).Create(s.ctx, home, metav1.CreateOptions{DryRun: dry})
	if !apierrors.IsForbidden(err) {
		t.Errorf("one in Drydock's own namespace: %v", err)
	}
}
