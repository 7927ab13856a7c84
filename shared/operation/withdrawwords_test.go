package operation

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
)

// TestWithdrawalIsNotCalledGrowth: the user gives up an expansion to 1Ti and requests the size that the volumes have. No volume grows.
func TestWithdrawalIsNotCalledGrowth(t *testing.T) {
	has := resource.MustParse("64Mi")
	record := &api.Resize{}
	for _, claim := range []string{"data-web-0", "data-web-1"} {
		record.Expansions = append(record.Expansions, api.Expansion{Claim: claim, Template: "data", From: has, To: has,
			Withdraws: resource.MustParse("1Ti")})
	}
	for _, said := range []string{Announcement(record), Summary(record, time.Hour)} {
		if strings.Contains(said, "grow") {
			t.Errorf("nothing grows: %s", said)
		}
	}
}
