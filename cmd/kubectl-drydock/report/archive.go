package report

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"path"
	"time"
)

// WriteArchive writes the files as a compressed tar archive. They are in one folder, so that unpacking the archive overwrites nothing.
func WriteArchive(out io.Writer, folder string, at time.Time, files []File) error {
	compressed := gzip.NewWriter(out)
	archive := tar.NewWriter(compressed)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(folder, f.Name), Size: int64(len(f.Content)), Mode: 0o600,
			ModTime: at.UTC().Truncate(time.Second)}
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("writing %s: %w", f.Name, err)
		}
		if _, err := archive.Write(f.Content); err != nil {
			return fmt.Errorf("writing %s: %w", f.Name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("ending the archive: %w", err)
	}
	if err := compressed.Close(); err != nil {
		return fmt.Errorf("ending the archive: %w", err)
	}
	return nil
}
