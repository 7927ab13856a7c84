package image

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"
)

// WithPrograms returns the image with additional programs and their libraries. The keys are paths in the image, the values are files of
// this machine. It searches Debian's library folders below each root, in the given order.
func (i Image) WithPrograms(programs map[string]string, roots ...string) (Image, error) {
	added := map[string]Entry{"lib": {Path: "lib", Mode: 0o755, Folder: true}}
	for target, source := range programs {
		program, err := File(source, target)
		if err != nil {
			return Image{}, err
		}
		added[target] = program
		if err := addLibraries(added, program, roots); err != nil {
			return Image{}, fmt.Errorf("finding the libraries of %s: %w", target, err)
		}
	}
	i.Entries = append([]Entry{}, i.Entries...)
	for _, entry := range added {
		i.Entries = append(i.Entries, entry)
	}
	return i, nil
}

// addLibraries adds the program's loader, its libraries, and their libraries in turn. Debian's loader also searches /lib.
func addLibraries(to map[string]Entry, program Entry, roots []string) error {
	file, err := elf.NewFile(bytes.NewReader(program.Content))
	if err != nil {
		return fmt.Errorf("reading the program: %w", err)
	}
	loader, err := loaderOf(file)
	if err != nil {
		return err
	}
	missing, err := file.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("reading the names of libraries: %w", err)
	}
	missing = append(missing, path.Base(loader))
	for len(missing) > 0 {
		name := missing[0]
		missing = missing[1:]
		target := "lib/" + name
		if name == path.Base(loader) {
			target = strings.TrimPrefix(loader, "/")
		}
		if _, has := to[target]; has {
			continue
		}
		library, needs, err := findLibrary(name, file.Machine, roots)
		if err != nil {
			return err
		}
		library.Path = target
		to[target], missing = library, append(missing, needs...)
	}
	return nil
}

// loaderOf returns the path of the program's dynamic loader.
func loaderOf(program *elf.File) (string, error) {
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP {
			text, err := io.ReadAll(segment.Open())
			if err != nil {
				return "", fmt.Errorf("reading the name of the loader: %w", err)
			}
			return string(bytes.TrimRight(text, "\x00")), nil
		}
	}
	return "", errors.New("the program is static and has no loader. Use Program instead")
}

// findLibrary returns the first library of this name and architecture below the roots, and the names of the libraries that it needs.
func findLibrary(name string, machine elf.Machine, roots []string) (Entry, []string, error) {
	for _, root := range roots {
		for _, folder := range []string{"usr/lib/*-linux-gnu", "lib/*-linux-gnu"} {
			candidates, err := filepath.Glob(filepath.Join(root, folder, name))
			if err != nil {
				return Entry{}, nil, fmt.Errorf("finding %s: %w", name, err)
			}
			for _, candidate := range candidates {
				entry, err := File(candidate, name)
				if err != nil {
					return Entry{}, nil, err
				}
				library, err := elf.NewFile(bytes.NewReader(entry.Content))
				if err != nil || library.Machine != machine {
					continue // a library for another architecture
				}
				needs, err := library.ImportedLibraries()
				return entry, needs, err
			}
		}
	}
	places := strings.Join(roots, " or ")
	return Entry{}, nil, fmt.Errorf("library %s does not exist below %s. Install its Debian package", name, places)
}
