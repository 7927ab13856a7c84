// Package pack writes archives. The same files always give the same bytes: entries are sorted, and name no user.
package pack

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// The modes of files in an archive.
const (
	Plain      = 0o644
	Executable = 0o755
)

// File is a file of an archive.
type File struct {
	Name    string // a path with slashes, without a leading one
	Mode    int64
	Content []byte
}

// Read returns a file of this machine under another name.
func Read(source, name string, mode int64) (File, error) {
	content, err := os.ReadFile(source)
	if err != nil {
		return File{}, fmt.Errorf("reading %s: %w", name, err)
	}
	return File{Name: name, Mode: mode, Content: content}, nil
}

// Tar writes the files as a tar. Every entry has the time.
func Tar(to io.Writer, at time.Time, files []File) error {
	archive := tar.NewWriter(to)
	for _, file := range sorted(files) {
		header := &tar.Header{Name: file.Name, Mode: file.Mode, Size: int64(len(file.Content)), ModTime: at, Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("adding %s: %w", file.Name, err)
		}
		if _, err := archive.Write(file.Content); err != nil {
			return fmt.Errorf("adding %s: %w", file.Name, err)
		}
	}
	return archive.Close()
}

// TarGz writes the files as a compressed tar.
func TarGz(to io.Writer, at time.Time, files []File) error {
	compressed, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := Tar(compressed, at, files); err != nil {
		return err
	}
	return compressed.Close()
}

// Zip writes the files as a zip.
func Zip(to io.Writer, at time.Time, files []File) error {
	archive := zip.NewWriter(to)
	for _, file := range sorted(files) {
		header := &zip.FileHeader{Name: file.Name, Method: zip.Deflate, Modified: at.UTC()}
		header.SetMode(os.FileMode(file.Mode))
		entry, err := archive.CreateHeader(header)
		if err != nil {
			return fmt.Errorf("adding %s: %w", file.Name, err)
		}
		if _, err := entry.Write(file.Content); err != nil {
			return fmt.Errorf("adding %s: %w", file.Name, err)
		}
	}
	return archive.Close()
}

// sorted returns the files by name.
func sorted(files []File) []File {
	return slices.SortedFunc(slices.Values(files), func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
}
