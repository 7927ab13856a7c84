package main

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
)

//go:embed checksum.sh
var checksumScript string

// measurement holds the checksum and the space of one replica's volume.
type measurement struct {
	checksum string
	entries  int64
	space    space
}

// space is the size of a file system as df reports it, in bytes.
type space struct{ total, used int64 }

// measureAll measures the volume of each replica.
func (c *cluster) measureAll(ctx context.Context, namespace string) ([]measurement, error) {
	measures := make([]measurement, replicas)
	for i := range measures {
		pod := replica(i)
		text, err := c.exec(ctx, namespace, pod, checksumScript, mountPath)
		if err != nil {
			return nil, err
		}
		if measures[i].checksum, measures[i].entries, err = readChecksum(text); err != nil {
			return nil, fmt.Errorf("reading the checksum of %s: %w", pod, err)
		}
		if text, err = c.exec(ctx, namespace, pod, "df -Pk "+mountPath); err != nil {
			return nil, err
		}
		if measures[i].space, err = readSpace(text); err != nil {
			return nil, fmt.Errorf("reading the free space of %s: %w", pod, err)
		}
	}
	return measures, nil
}

func replica(i int) string { return fmt.Sprintf("%s-%d", setName, i) }

// readChecksum parses the output of checksum.sh.
func readChecksum(text string) (checksum string, entries int64, err error) {
	fields := strings.Fields(text)
	if len(fields) != 2 || len(fields[0]) != 64 {
		return "", 0, fmt.Errorf("want a SHA-256 and a number, got %q", text)
	}
	entries, err = strconv.ParseInt(fields[1], 10, 64)
	return fields[0], entries, err
}

// readSpace parses the last line of df -Pk.
func readSpace(text string) (space, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	fields := strings.Fields(lines[len(lines)-1])
	if len(fields) < 6 {
		return space{}, fmt.Errorf("want a line of df, got %q", text)
	}
	var s space
	for i, into := range []*int64{&s.total, &s.used} {
		kib, err := strconv.ParseInt(fields[i+1], 10, 64)
		if err != nil {
			return space{}, fmt.Errorf("reading df: %w", err)
		}
		*into = kib << 10
	}
	return s, nil
}
