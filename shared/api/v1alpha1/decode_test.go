package v1alpha1

import (
	"encoding/json"
	"testing"
)

func TestUnreadableStatusIsDropped(t *testing.T) {
	list := &ScalerList{}
	text := `{"items":[
		{"metadata":{"name":"hostile"},"spec":{"target":"web","replicas":2},"status":{"replicas":7,"lastTransitionTime":"2020-01-01t00:00:00z"}},
		{"metadata":{"name":"offset"},"spec":{"target":"web"},"status":{"replicas":7,"lastTransitionTime":"2020-01-01T00:00:00.5+99:00"}},
		{"metadata":{"name":"new"},"spec":{"target":"web"}},
		{"metadata":{"name":"other"},"spec":{"target":"db"},"status":{"replicas":3}}]}`
	if err := json.Unmarshal([]byte(text), list); err != nil {
		t.Fatalf("one Scaler makes the list unreadable: %v", err)
	}
	for i, want := range []int32{0, 0, 0, 3} {
		if got := list.Items[i]; got.Status.Replicas != want || got.Status.LastTransitionTime != nil || got.Name == "" || got.Spec.Target == "" {
			t.Errorf("Scaler %d is %+v", i, got)
		}
	}
	if err := json.Unmarshal([]byte(`{"spec":{"replicas":"x"}}`), &Scaler{}); err == nil {
		t.Error("an unreadable spec is accepted")
	}
}
