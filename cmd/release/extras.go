package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"drydock.dev/cmd/release/pack"
)

// extras are the folders of the module that the docs use and that users of a release need, too. In the archive, they have the same paths as
// in a checkout, so the commands of the docs work in both.
var extras = []string{"config/gitops", "config/monitoring", "examples"}

// ignored are the patterns of .gitignore for files in the folders: what tests and profiles leave there.
var ignored = []string{"*.test", "*.out"}

// writeExtras writes an archive of the folders.
func (r release) writeExtras() error {
	license, err := pack.Read(filepath.Join(r.root, "LICENSE"), "LICENSE", pack.Plain)
	if err != nil {
		return err
	}
	files := []pack.File{license}
	for _, folder := range extras {
		found, err := filesBelow(r.root, folder)
		if err != nil {
			return fmt.Errorf("reading %s: %w", folder, err)
		}
		files = append(files, found...)
	}
	var archive bytes.Buffer
	if err := pack.TarGz(&archive, r.time, files); err != nil {
		return fmt.Errorf("archiving %s: %w", strings.Join(extras, ", "), err)
	}
	return r.add("drydock-extras_"+r.version+".tar.gz", archive.Bytes())
}

// filesBelow returns the files below the folder of the root, with their paths from there. Of the mode, it keeps only whether a file can be
// executed, as Git does.
func filesBelow(root, folder string) ([]pack.File, error) {
	var files []pack.File
	err := fs.WalkDir(os.DirFS(root), folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || isIgnored(entry.Name()) {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is no regular file", name)
		}
		mode := int64(pack.Plain)
		if info.Mode()&0o100 != 0 {
			mode = pack.Executable
		}
		file, err := pack.Read(filepath.Join(root, filepath.FromSlash(name)), name, mode)
		files = append(files, file)
		return err
	})
	return files, err
}

// isIgnored reports whether Git ignores files of this name.
func isIgnored(name string) bool {
	return slices.ContainsFunc(ignored, func(pattern string) bool {
		matches, err := filepath.Match(pattern, name)
		return err == nil && matches
	})
}
