//go:build linux

package mover

import (
	"testing"
)

func TestReserve(t *testing.T) {
	for percent, want := range map[int]int64{0: 0, 1: 11, 10: 119, 50: 599, 99: 1187} {
		if got := (space{size: 1199}).reserve(percent); got != want {
			t.Errorf("%d%%: %d, want %d", percent, got, want)
		}
	}
}
