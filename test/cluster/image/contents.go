package image

import (
	"bytes"
	"debug/elf"
	"fmt"
	"path"
	"strings"
)

// BusyboxName is the image of tests' pods. A name under dev.local is never looked up in a registry.
const BusyboxName = "dev.local/busybox:1"

// nonRoot is the user of an image that needs none in particular.
const nonRoot = "65532:65532"

// searchPath is where a shell looks for programs.
const searchPath = "PATH=/bin"

// Product is an image of the product, dev.local/NAME:dev, where NAME is that of its binary.
func Product(binary string) (Image, error) {
	return Program("dev.local/"+path.Base(binary)+":dev", binary)
}

// Program is an image of one static binary, which it starts.
func Program(name, binary string) (Image, error) {
	file, err := staticProgram(binary, path.Base(binary))
	if err != nil {
		return Image{}, err
	}
	return Image{Name: name, Entries: append(base(), file), User: nonRoot, Entrypoint: []string{"/" + file.Path}}, nil
}

// Pause is the image of the container that holds a pod's namespaces.
func Pause(name, binary string) (Image, error) {
	file, err := staticProgram(binary, "pause")
	if err != nil {
		return Image{}, err
	}
	return Image{Name: name, Entries: []Entry{file}, User: nonRoot, Entrypoint: []string{"/pause"}}, nil
}

// Busybox is a shell with the usual programs, for the pods of tests. It runs as root where the pod does not say
// otherwise, and as any user. applets is what `busybox --list-full` prints.
func Busybox(binary, applets string) (Image, error) {
	file, err := staticProgram(binary, "bin/busybox")
	if err != nil {
		return Image{}, err
	}
	return Image{
		Name:    BusyboxName,
		Entries: append(append(base(), file), links(applets)...),
		Command: []string{"/bin/sh"},
		Env:     []string{searchPath},
	}, nil
}

// base is what programs expect to find in any system.
func base() []Entry {
	return []Entry{
		{Path: "tmp", Mode: 0o1777, Folder: true},
		{Path: "etc", Mode: 0o755, Folder: true},
		{Path: "etc/passwd", Mode: 0o644, Content: []byte("root:x:0:0:root:/:/bin/sh\nnonroot:x:65532:65532:nonroot:/:/bin/sh\n")},
		{Path: "etc/group", Mode: 0o644, Content: []byte("root:x:0:\nnonroot:x:65532:\n")},
	}
}

// links makes a link in /bin for each program in busybox, whichever folder it is in elsewhere.
func links(applets string) []Entry {
	entries := []Entry{{Path: "bin", Mode: 0o755, Folder: true}}
	for applet := range strings.FieldsSeq(applets) {
		if name := path.Base(applet); name != "busybox" {
			entries = append(entries, Entry{Path: "bin/" + name, Mode: 0o777, Link: "busybox"})
		}
	}
	return entries
}

// staticProgram reads a program which needs no libraries, since these images have none.
func staticProgram(source, target string) (Entry, error) {
	file, err := File(source, target)
	if err != nil {
		return Entry{}, err
	}
	program, err := elf.NewFile(bytes.NewReader(file.Content))
	if err != nil {
		return Entry{}, fmt.Errorf("%s is not a program for Linux: %w", source, err)
	}
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP {
			return Entry{}, fmt.Errorf(
				"%s needs libraries, which the image does not have: build it with CGO_ENABLED=0, or install Debian's busybox-static for busybox",
				source,
			)
		}
	}
	return file, nil
}
