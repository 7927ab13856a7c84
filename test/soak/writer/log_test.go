package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drydock.dev/test/soak/acks"
)

func TestWriterContinuesItsFile(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, acks.LogName)
	addTo := func(member string, count int) {
		t.Helper()
		l, err := openLog(folder, member)
		if err != nil {
			t.Fatal(err)
		}
		defer l.file.Close()
		for range count {
			if _, err := l.add(); err != nil {
				t.Fatal(err)
			}
		}
	}
	addTo("web-0", 2)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(content, "half a li"...), 0o644); err != nil { // the writer was killed
		t.Fatal(err)
	}
	addTo("web-0", 2)
	addTo("web-1", 1) // the volume came to another member
	content, err = os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	id := strings.Fields(string(content))[0]
	want := []acks.Line{{File: id, Member: "web-0", Number: 1}, {File: id, Member: "web-0", Number: 2},
		{File: id, Member: "web-0", Number: 3}, {File: id, Member: "web-0", Number: 4}, {File: id, Member: "web-1", Number: 5}}
	lines := acks.CompleteLines(string(content))
	if len(lines) != len(want) {
		t.Fatalf("the file is %q", content)
	}
	for i, line := range lines {
		if line != want[i].String() {
			t.Errorf("line %d is %q, want %q", i+1, line, want[i])
		}
	}
}

func TestWriterRefusesForeignFile(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, acks.LogName), []byte("something else\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := openLog(folder, "web-0"); err == nil {
		t.Error("the writer accepts a file that it cannot continue")
	}
}

// TestDrainWaitsForConfirmation: a cleanup pod must not succeed before the collector has the file.
func TestDrainWaitsForConfirmation(t *testing.T) {
	ledger := acks.NewLedger()
	collector, err := acks.Collect("127.0.0.1:0", ledger)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), acks.LogName)
	if err := os.WriteFile(path, []byte("a1 web-0 1\na1 web-0 2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := sendFile(collector.Address(), "web-0", path); err != nil {
		t.Error(err)
	}
	if problems := ledger.Problems(); len(problems) != 1 || !strings.Contains(problems[0], "has 2 lines, but none was acknowledged") {
		t.Errorf("the ledger says %q", problems)
	}
	if err := collector.Close(); err != nil {
		t.Fatal(err)
	}
	if err := sendFile(collector.Address(), "web-0", path); err == nil {
		t.Error("a drain without a collector succeeds")
	}
}
