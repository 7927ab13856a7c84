package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

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

// write writes all files of the release. Nothing is written before everything is compiled.
func (r release) write(ctx context.Context) error {
	page, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return fmt.Errorf("reading the changes: %w", err)
	}
	entry, err := changelog.Entry(string(page), r.version)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "drydock-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	all, err := r.compileAll(ctx, folder)
	if err != nil {
		return err
	}
	if err := r.add("CHANGELOG.md", []byte(entry)); err != nil {
		return err
	}
	if err := r.writeArchives(all.binaries); err != nil {
		return err
	}
	if err := r.writeLists(all.binaries); err != nil {
		return err
	}
	if err := r.writeInstallation(all); err != nil {
		return err
	}
	if err := r.writeExtras(); err != nil {
		return err
	}
	return writeChecksums(r.to)
}

// compiled is what the files of a release are made from.
type compiled struct {
	binaries                        []build.Binary
	functionsImage, standaloneImage v1.ImageIndex
	functionsName, standaloneName   string // of the images, with their digests
}

// compileAll compiles all programs. The plugin comes last, because it knows the digests of the images.
func (r release) compileAll(ctx context.Context, folder string) (compiled, error) {
	var all compiled
	var err error
	version := map[string]string{"main.version": r.version}
	if all.binaries, err = r.compile(ctx, build.Compiler{Root: r.root, To: folder, Variables: version}, functions, standalone); err != nil {
		return compiled{}, err
	}
	if all.functionsImage, all.functionsName, err = r.image(functions, all.binaries); err != nil {
		return compiled{}, err
	}
	if all.standaloneImage, all.standaloneName, err = r.image(standalone, all.binaries); err != nil {
		return compiled{}, err
	}
	variables := map[string]string{
		"main.version":                              r.version,
		commandPackage + ".releasedImage":           all.functionsName,
		commandPackage + ".releasedStandaloneImage": all.standaloneName,
	}
	plugins, err := r.compile(ctx, build.Compiler{Root: r.root, To: folder, Variables: variables}, plugin)
	all.binaries = append(all.binaries, plugins...)
	return all, err
}

// compile compiles the named programs.
func (r release) compile(ctx context.Context, compiler build.Compiler, names ...string) ([]build.Binary, error) {
	var binaries []build.Binary
	for _, program := range r.programs {
		if !slices.Contains(names, program.Name) {
			continue
		}
		made, err := compiler.Compile(ctx, program)
		if err != nil {
			return nil, err
		}
		binaries = append(binaries, made...)
	}
	return binaries, nil
}

// image returns the image of the program, and its name in the registry.
func (r release) image(program string, binaries []build.Binary) (v1.ImageIndex, string, error) {
	var programs []image.Binary
	for _, binary := range binaries {
		if binary.Program != program {
			continue
		}
		content, err := os.ReadFile(binary.Path)
		if err != nil {
			return nil, "", fmt.Errorf("reading %s for %s: %w", program, binary.Platform, err)
		}
		programs = append(programs, image.Binary{Arch: binary.Platform.Arch, Content: content})
	}
	described := image.Image{Program: program, Description: descriptions[program], Version: r.version, Commit: r.commit, Created: r.time}
	index, err := described.Index(programs)
	if err != nil {
		return nil, "", err
	}
	digest, err := index.Digest()
	if err != nil {
		return nil, "", fmt.Errorf("computing the digest of %s: %w", program, err)
	}
	return index, r.registry + "/" + program + "@" + digest.String(), nil
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
func (r release) writeInstallation(all compiled) error {
	for program, index := range map[string]v1.ImageIndex{functions: all.functionsImage, standalone: all.standaloneImage} {
		if err := image.Write(filepath.Join(r.to, "images", program), r.version, index); err != nil {
			return err
		}
	}
	if err := r.add("images.txt", []byte(all.functionsName+"\n"+all.standaloneName+"\n")); err != nil {
		return err
	}
	manifests, err := manifest.Files(all.functionsName, all.standaloneName)
	if err != nil {
		return fmt.Errorf("making the manifests: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(manifests)) {
		if err := r.add(name, manifests[name]); err != nil {
			return err
		}
	}
	files, err := chart.Files(chart.Options{Version: r.version, Image: all.functionsName, StandaloneImage: all.standaloneName})
	if err != nil {
		return fmt.Errorf("making the chart: %w", err)
	}
	var archive bytes.Buffer
	if err := pack.TarGz(&archive, r.time, files); err != nil {
		return fmt.Errorf("archiving the chart: %w", err)
	}
	return r.add(chart.Name+"-"+strings.TrimPrefix(r.version, "v")+".tgz", archive.Bytes())
}

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
