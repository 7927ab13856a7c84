//go:build linux

package mover

import (
	"bytes"
	"context"
	"crypto/sha256"
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

// The hashes of a file's units lead to its content hash, as a patch by units computes it.
func TestContentHashFollowsFromHashesOfUnits(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789abcde"), 20_000)
	zeros := make([]byte, len(text))
	for name, contents := range map[string][]byte{
		"empty":                 nil,
		"short":                 text[:77],
		"one unit":              text[:unitSize],
		"whole units":           text[:3*unitSize],
		"a short last unit":     text[:3*unitSize+1],
		"zeros":                 zeros[:2*unitSize],
		"a short unit of zeros": zeros[:unitSize+5],
		"zeros between":         bytes.Join([][]byte{text[:unitSize], zeros[:unitSize], text[:9]}, nil),
		"zeros at the end":      bytes.Join([][]byte{text[:unitSize], zeros[:unitSize+9]}, nil),
	} {
		file := filepath.Join(t.TempDir(), "file")
		must(t, os.WriteFile(file, contents, 0o600))
		f, err := os.Open(file)
		must(t, err)
		defer f.Close()
		size := int64(len(contents))
		want, err := hashContents(context.Background(), int(f.Fd()), size, 0, hashing{})
		must(t, err)
		sums := make([]sum, units(size))
		for i := range sums {
			from := int64(i) * unitSize
			sums[i] = sha256.Sum256(contents[from : from+unitLength(size, i)])
		}
		if hashOfUnits(size, sums) != want {
			t.Errorf("%s: the hashes differ", name)
		}
		if hashBytes(contents) != want {
			t.Errorf("%s: its bytes have another hash", name)
		}
	}
}
