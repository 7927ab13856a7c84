package progress

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
)

// TestWaitForWithdrawalIsNotCalledGrowth: the claim has 64Mi and requests that again instead of 1Ti. The operation waits until the storage
// gives up 1Ti.
func TestWaitForWithdrawalIsNotCalledGrowth(t *testing.T) {
	has := resource.MustParse("64Mi")
	e := &api.Expansion{Claim: "data-web-0", From: has, To: has, Withdraws: resource.MustParse("1Ti")}
	if said := expansionReason(e); strings.Contains(said, "to grow") {
		t.Errorf("the claim need not grow: waits for %s", said)
	}
}
