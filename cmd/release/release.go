package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"drydock.dev/cmd/release/build"
	"drydock.dev/cmd/release/changelog"
	"drydock.dev/cmd/release/chart"
	"drydock.dev/cmd/release/image"
	"drydock.dev/cmd/release/krew"
	"drydock.dev/cmd/release/manifest"
	"drydock.dev/cmd/release/manual"
	"drydock.dev/cmd/release/pack"
	"drydock.dev/cmd/release/sbom"
)

// release describes a release.
type release struct {
	programs []build.Program
	version  string
	root     string
	to       string
	registry string
	baseURL  string
	commit   string
	time     time.Time
}

// write writes all files of the release. It starts with what fails without much work.
func (r release) write(ctx context.Context) error {
	page, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return fmt.Errorf("reading the changes: %w", err)
	}
	entry, err := changelog.Entry(string(page), r.version)
	if err != nil {
		return err
	}
	binaries, remove, err := r.compile(ctx)
	if err != nil {
		return err
	}
	defer remove()
	if err := r.add("CHANGELOG.md", []byte(entry)); err != nil {
		return err
	}
	if err := r.writeArchives(binaries); err != nil {
		return err
	}
	if err := r.writeLists(binaries); err != nil {
		return err
	}
	if err := r.writeInstallation(binaries); err != nil {
		return err
	}
	return writeChecksums(r.to)
}

// compile compiles all programs in a temporary folder. The caller removes it.
func (r release) compile(ctx context.Context) (binaries []build.Binary, remove func(), err error) {
	folder, err := os.MkdirTemp("", "drydock-release-")
	if err != nil {
		return nil, nil, err
	}
	remove = func() { _ = os.RemoveAll(folder) }
	for _, program := range r.programs {
		made, err := build.Compiler{Root: r.root, To: folder, Version: r.version}.Compile(ctx, program)
		if err != nil {
			remove()
			return nil, nil, err
		}
		binaries = append(binaries, made...)
	}
	return binaries, remove, nil
}

// add writes a file of the release.
func (r release) add(name string, content []byte) error {
	if err := writeFile(filepath.Join(r.to, filepath.FromSlash(name)), content); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// writeArchives writes an archive of each binary, and the manifest for krew, which names the plugin's archives.
func (r release) writeArchives(binaries []build.Binary) error {
	manuals, err := manual.Files(r.version, r.time)
	if err != nil {
		return err
	}
	var plugins []krew.Archive
	for _, binary := range binaries {
		var more []pack.File
		if binary.Program == plugin {
			more = manuals
		}
		name, content, err := r.archive(binary, more)
		if err != nil {
			return fmt.Errorf("archiving %s for %s: %w", binary.Program, binary.Platform, err)
		}
		if err := r.add(name, content); err != nil {
			return err
		}
		if binary.Program == plugin {
			plugins = append(plugins, krew.Archive{Platform: binary.Platform, Name: name, SHA256: hashOf(content), Program: binary.FileName()})
		}
	}
	text, err := krew.Manifest(r.version, r.baseURL, plugins)
	if err != nil {
		return fmt.Errorf("making the manifest for krew: %w", err)
	}
	return r.add("krew/drydock.yaml", text)
}

// archive returns the name and the content of the archive of a binary.
func (r release) archive(binary build.Binary, more []pack.File) (string, []byte, error) {
	program, err := pack.Read(binary.Path, binary.FileName(), pack.Executable)
	if err != nil {
		return "", nil, err
	}
	license, err := pack.Read(filepath.Join(r.root, "LICENSE"), "LICENSE", pack.Plain)
	if err != nil {
		return "", nil, err
	}
	write, suffix := pack.TarGz, ".tar.gz"
	if binary.Platform.OS == "windows" {
		write, suffix = pack.Zip, ".zip"
	}
	var content bytes.Buffer
	err = write(&content, r.time, append([]pack.File{program, license}, more...))
	return strings.Join([]string{binary.Program, r.version, binary.Platform.String()}, "_") + suffix, content.Bytes(), err
}

// writeLists writes the list of modules of each binary.
func (r release) writeLists(binaries []build.Binary) error {
	for _, binary := range binaries {
		var list bytes.Buffer
		program := sbom.Program{Name: binary.Program, Version: r.version, Path: binary.Path, Created: r.time}
		if err := sbom.Write(&list, program); err != nil {
			return err
		}
		if err := r.add(fmt.Sprintf("sbom/%s_%s.cdx.json", binary.Program, binary.Platform), list.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// writeInstallation writes the images, and the chart and manifests that name them.
func (r release) writeInstallation(binaries []build.Binary) error {
	functionsImage, err := r.writeImage(functions, binaries)
	if err != nil {
		return err
	}
	engineImage, err := r.writeImage(standalone, binaries)
	if err != nil {
		return err
	}
	if err := r.add("images.txt", []byte(functionsImage+"\n"+engineImage+"\n")); err != nil {
		return err
	}
	manifests, err := manifest.Files(functionsImage, engineImage)
	if err != nil {
		return fmt.Errorf("making the manifests: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(manifests)) {
		if err := r.add(name, manifests[name]); err != nil {
			return err
		}
	}
	files, err := chart.Files(chart.Options{Version: r.version, Image: functionsImage, EngineImage: engineImage})
	if err != nil {
		return fmt.Errorf("making the chart: %w", err)
	}
	var archive bytes.Buffer
	if err := pack.TarGz(&archive, r.time, files); err != nil {
		return fmt.Errorf("archiving the chart: %w", err)
	}
	return r.add(chart.Name+"-"+strings.TrimPrefix(r.version, "v")+".tgz", archive.Bytes())
}

// writeImage writes the image of the program, and returns its name in the registry.
func (r release) writeImage(program string, binaries []build.Binary) (string, error) {
	var programs []image.Binary
	for _, binary := range binaries {
		if binary.Program != program {
			continue
		}
		content, err := os.ReadFile(binary.Path)
		if err != nil {
			return "", fmt.Errorf("reading %s for %s: %w", program, binary.Platform, err)
		}
		programs = append(programs, image.Binary{Arch: binary.Platform.Arch, Content: content})
	}
	described := image.Image{Program: program, Description: descriptions[program], Version: r.version, Commit: r.commit, Created: r.time}
	index, err := described.Index(programs)
	if err != nil {
		return "", err
	}
	folder := filepath.Join(r.to, "images", program)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	digest, err := image.Write(folder, r.version, index)
	return r.registry + "/" + program + "@" + digest, err
}
