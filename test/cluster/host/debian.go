package host

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// UnpackPackages returns a folder below parent with the files of these Debian packages, in the versions that apt would install. It installs
// nothing. It reuses an existing folder of the same versions.
func UnpackPackages(ctx context.Context, parent string, packages ...string) (string, error) {
	folder, err := unpackPackages(ctx, parent, packages)
	if err == nil {
		return folder, nil
	}
	if _, failed := Run(ctx, "apt-get", "update"); failed != nil { // the package lists may be missing or outdated
		return "", errors.Join(err, fmt.Errorf("updating the package lists: %w", failed))
	}
	return unpackPackages(ctx, parent, packages)
}

func unpackPackages(ctx context.Context, parent string, packages []string) (string, error) {
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", fmt.Errorf("making the folder of packages: %w", err)
	}
	scratch, err := os.MkdirTemp(parent, "packages-")
	if err != nil {
		return "", fmt.Errorf("making a temporary folder: %w", err)
	}
	defer os.RemoveAll(scratch)
	download := append([]string{"--chdir=" + scratch, "apt-get", "download"}, packages...)
	printed, err := Run(ctx, "env", append(download, "--print-uris")...)
	if err != nil {
		return "", fmt.Errorf("finding %s: %w", strings.Join(packages, " "), err)
	}
	files := packageFiles(printed)
	folder := filepath.Join(parent, fmt.Sprintf("%s-%.6x", packages[0], sha256.Sum256([]byte(strings.Join(files, " ")))))
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	if _, err := Run(ctx, "env", download...); err != nil {
		return "", fmt.Errorf("downloading %s: %w", strings.Join(files, " "), err)
	}
	unpacked := filepath.Join(scratch, "unpacked")
	for _, file := range files {
		if _, err := Run(ctx, "dpkg-deb", "--extract", filepath.Join(scratch, file), unpacked); err != nil {
			return "", fmt.Errorf("unpacking %s: %w", file, err)
		}
	}
	if err := os.Rename(unpacked, folder); err != nil {
		return "", fmt.Errorf("storing the unpacked packages: %w", err)
	}
	return folder, nil
}

// packageFiles parses the output of `apt-get download --print-uris`. A line has a URI, a file name, a size and a checksum.
func packageFiles(printed string) []string {
	var files []string
	for line := range strings.Lines(printed) {
		if words := strings.Fields(line); len(words) > 1 && strings.HasSuffix(words[1], ".deb") {
			files = append(files, words[1])
		}
	}
	return files
}
