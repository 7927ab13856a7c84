package podprobe

import (
	"errors"
	"fmt"
	"slices"
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
		"::ffff:0.0.0.0":         "",
		"::ffff:224.0.0.1":       "",
		"0.0.0.0":                "",
		"224.0.0.1":              "",
	} {
		got, err := addressOf(&corev1.Pod{Status: corev1.PodStatus{PodIP: ip}}, 80)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("address of %q is %q, %v, want %q", ip, got, err, want)
		}
	}
}

// TestPanicIsTheErrorOfItsCall: the other calls return as usual.
func TestPanicIsTheErrorOfItsCall(t *testing.T) {
	called := make([]bool, 3*concurrency)
	errs := ForEach(len(called), func(i int) error {
		switch called[i] = true; i {
		case 1:
			panic("out of range")
		case 2:
			return errors.New("no answer")
		}
		return nil
	})
	if slices.Contains(called, false) {
		t.Errorf("some were not called: %v", called)
	}
	want := make([]error, len(called))
	want[1], want[2] = errors.New("panic: out of range"), errors.New("no answer")
	if fmt.Sprint(errs) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", errs, want)
	}
}
