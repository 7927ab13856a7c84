package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"drydock.dev/test/soak/acks"
)

// log is the file of a member.
type log struct {
	file *os.File
	last acks.Line
}

// openLog opens the member's file in the folder, or creates it. It removes an incomplete last line, which was never acknowledged.
func openLog(folder, member string) (*log, error) {
	file, err := os.OpenFile(filepath.Join(folder, acks.LogName), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	l := &log{file: file, last: acks.Line{File: newID(), Member: member}}
	length := int64(0)
	if lines := acks.CompleteLines(string(content)); len(lines) > 0 {
		if l.last, err = acks.ParseLine(lines[len(lines)-1]); err != nil {
			return nil, fmt.Errorf("reading the last of %d lines: %w", len(lines), err)
		}
		l.last.Member = member // the collector notices the file of another member
		for _, line := range lines {
			length += int64(len(line)) + 1
		}
	}
	if err := file.Truncate(length); err != nil {
		return nil, err
	}
	_, err = file.Seek(length, io.SeekStart)
	return l, err
}

// newID returns the identity of a new file.
func newID() string {
	id := make([]byte, 4)
	_, _ = rand.Read(id) // it never fails
	return hex.EncodeToString(id)
}

// add appends the next line, and returns it when it is on the volume.
func (l *log) add() (string, error) {
	next := l.last
	next.Number++
	if _, err := l.file.WriteString(next.String() + "\n"); err != nil {
		return "", err
	}
	if err := l.file.Sync(); err != nil {
		return "", err
	}
	l.last = next
	return next.String(), nil
}
