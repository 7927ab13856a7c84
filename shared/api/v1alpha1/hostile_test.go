package v1alpha1_test

import (
	"encoding/json"
	"testing"

	"drydock.dev/shared/api/v1alpha1"
)

// TestInvalidQuantityHidesNoOtherScaler: the pattern of a quantity in the CRD accepts 1e1.5, but Go rejects it.
func TestInvalidQuantityHidesNoOtherScaler(t *testing.T) {
	list := v1alpha1.ScalerList{}
	text := `{"items":[{"metadata":{"name":"good"},"spec":{"target":"web"}},
		{"metadata":{"name":"bad"},"spec":{"target":"db","mode":{"hpa":{"maxReplicas":3,
		"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"AverageValue","averageValue":"1e1.5"}}}]}}}}]}`
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Errorf("no Scaler of the list can be read: %v", err)
	}
}
