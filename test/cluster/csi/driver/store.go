package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// record is the stored state of a volume or a snapshot. It does not say whether a volume is staged: the loop device shows that.
type record struct {
	ID       string
	Bytes    int64
	Source   string            // for a copy: the ID of the source volume or snapshot
	Context  map[string]string // parameters of the StorageClass
	Mutable  map[string]string // parameters of the VolumeAttributesClass
	Attached bool              // attached to the node
	Created  time.Time
}

// store keeps each volume and each snapshot in its own folder, with the files "record.json" and "image".
type store struct{ folder string }

// kind is a folder of the store.
type kind string

const (
	volumes   kind = "volumes"
	snapshots kind = "snapshots"
)

// safeID matches ids that are safe names of folders.
var safeID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

func (s store) place(k kind, id string) string { return filepath.Join(s.folder, string(k), id) }
func (s store) image(k kind, id string) string { return filepath.Join(s.place(k, id), "image") }

// load returns the record, or nil if there is none.
func (s store) load(k kind, id string) (*record, error) {
	if !safeID.MatchString(id) {
		return nil, status.Errorf(codes.InvalidArgument, "the id %q does not belong to this driver", id)
	}
	text, err := os.ReadFile(filepath.Join(s.place(k, id), "record.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the record of %s: %w", id, err)
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("reading the record of %s: %w", id, err)
	}
	return &r, nil
}

// find loads the record of a volume and returns NotFound if there is none.
func (s store) find(id string) (*record, error) {
	r, err := s.load(volumes, id)
	if err == nil && r == nil {
		err = status.Errorf(codes.NotFound, "volume %s does not exist", id)
	}
	return r, err
}

// save replaces the record atomically: a killed driver leaves the old or the new record.
func (s store) save(k kind, r *record) error {
	path := filepath.Join(s.place(k, r.ID), "record.json")
	if err := write(path+".next", r); err != nil {
		return err
	}
	if err := os.Rename(path+".next", path); err != nil {
		return fmt.Errorf("storing the record of %s: %w", r.ID, err)
	}
	return nil
}

func write(path string, r *record) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the record of %s: %w", r.ID, err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("writing the record of %s: %w", r.ID, err)
	}
	return nil
}

// add creates a volume or snapshot. fill writes the image. The record is written last, so that an incomplete volume counts as missing and
// is created again.
func (s store) add(k kind, r *record, fill func(image string) error) error {
	if err := s.remove(k, r.ID); err != nil {
		return err
	}
	if err := os.MkdirAll(s.place(k, r.ID), 0o700); err != nil {
		return fmt.Errorf("making the folder of %s: %w", r.ID, err)
	}
	if err := fill(s.image(k, r.ID)); err != nil {
		return errors.Join(err, s.remove(k, r.ID))
	}
	return s.save(k, r)
}

func (s store) remove(k kind, id string) error {
	if err := os.RemoveAll(s.place(k, id)); err != nil {
		return fmt.Errorf("removing %s: %w", id, err)
	}
	return nil
}

// all returns the ids of the volumes.
func (s store) all() ([]string, error) {
	entries, err := os.ReadDir(s.place(volumes, ""))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing volumes: %w", err)
	}
	var ids []string
	for _, entry := range entries {
		ids = append(ids, entry.Name())
	}
	return ids, nil
}
