package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// checksums is the file with the checksums of all other files, in the format of sha256sum.
const checksums = "SHA256SUMS"

// writeChecksums writes the checksums of all files below the folder.
func writeChecksums(folder string) error {
	var lines strings.Builder
	err := fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(name)))
		fmt.Fprintf(&lines, "%s  %s\n", hashOf(content), name)
		return err
	})
	if err != nil {
		return fmt.Errorf("computing the checksums: %w", err)
	}
	return writeFile(filepath.Join(folder, checksums), []byte(lines.String()))
}

func hashOf(content []byte) string {
	hash := sha256.Sum256(content)
	return hex.EncodeToString(hash[:])
}
