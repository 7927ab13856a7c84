package podprobe

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestOnlyPodAddressesAreAccepted(t *testing.T) {
	for ip, want := range map[string]string{
		"10.0.0.7":               "10.0.0.7:80",
		"fd00::7":                "[fd00::7]:80",
		"":                       "",
		"db.example":             "",
		"10.0.0.7@other.example": "",
		"10.0.0.7:443/x":         "",
		"169.254.169.254":        "",
		"::ffff:169.254.169.254": "",
		"fe80::1%eth0":           "",
		"0.0.0.0":                "",
		"224.0.0.1":              "",
	} {
		got, err := addressOf(&corev1.Pod{Status: corev1.PodStatus{PodIP: ip}}, 80)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("address of %q is %q, %v, want %q", ip, got, err, want)
		}
	}
}
