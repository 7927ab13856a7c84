//go:build linux

package mover

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
)

// Equal contents have the same hash wherever their holes are, and different contents have different hashes.
func TestContentHash(t *testing.T) {
	dir := t.TempDir()
	hash := func(name string, size int64, data map[int64]string) sum {
		f, err := os.Create(filepath.Join(dir, name))
		must(t, err)
		defer f.Close()
		must(t, f.Truncate(size))
		for off, s := range data {
			_, err := f.WriteAt([]byte(s), off)
			must(t, err)
		}
		h, err := hashContents(context.Background(), int(f.Fd()), size, 0, hashing{})
		must(t, err)
		return h
	}
	const size = 5<<20 + 77
	dense := bytes.Repeat([]byte{0}, size)
	dense[70_000], dense[size-1] = 'a', 'z'
	sparse := hash("sparse", size, map[int64]string{70_000: "a", size - 1: "z"})
	if got := hash("dense", size, map[int64]string{0: string(dense)}); got != sparse {
		t.Error("the hashes of the dense and the sparse file differ")
	}
	for name, h := range map[string]sum{
		"another byte":  hash("1", size, map[int64]string{70_000: "b", size - 1: "z"}),
		"another place": hash("2", size, map[int64]string{70_001: "a", size - 1: "z"}),
		"another block": hash("3", size, map[int64]string{170_000: "a", size - 1: "z"}),
		"another size":  hash("4", size+1, map[int64]string{70_000: "a", size - 1: "z"}),
		"empty":         hash("5", 0, nil),
		"all hole":      hash("6", size, nil),
	} {
		if h == sparse {
			t.Error(name, "has the same hash")
		}
	}
}
