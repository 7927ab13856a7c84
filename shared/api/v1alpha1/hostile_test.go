package v1alpha1_test

import (
	"encoding/json"
	"testing"

	"drydock.dev/shared/api/v1alpha1"
)

// TestInvalidQuantityHidesNoOtherScaler: the pattern of a quantity in the CRD accepts 1e1.5, which Go rejects, and 1e-99999999, which would
// take minutes to parse.
func TestInvalidQuantityHidesNoOtherScaler(t *testing.T) {
	for _, quantity := range []string{"1e1.5", "1e-99999999"} {
		list := v1alpha1.ScalerList{}
		text := `{"items":[{"metadata":{"name":"good"},"spec":{"target":"web"}},
			{"metadata":{"name":"bad"},"spec":{"target":"db","mode":{"hpa":{"maxReplicas":3,
			"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"AverageValue","averageValue":"` + quantity + `"}}}]}}}}]}`
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Errorf("%s: no Scaler of the list can be read: %v", quantity, err)
		} else if !list.Items[1].Spec.Mode.Unreadable() {
			t.Errorf("%s was read: %+v", quantity, list.Items[1].Spec.Mode)
		}
	}
}
