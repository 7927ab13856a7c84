package image

import (
	"bytes"
	"debug/elf"
	"fmt"
	"path"
	"strings"
)

// BusyboxName is the image for the pods of tests. The kubelet never pulls a name under dev.local from a registry.
const BusyboxName = "dev.local/busybox:1"

// nonRoot is the default user of images that do not need a particular one.
const nonRoot = "65532:65532"

// searchPath is the shell's search path.
const searchPath = "PATH=/bin"

// Product returns an image of the product, dev.local/NAME:dev, with the name of its binary.
func Product(binary string) (Image, error) {
	return Program("dev.local/"+path.Base(binary)+":dev", binary)
}

// Program returns an image that starts one static binary.
func Program(name, binary string) (Image, error) {
	file, err := staticProgram(binary, path.Base(binary))
	if err != nil {
		return Image{}, err
	}
	return Image{Name: name, Entries: append(base(), file), User: nonRoot, Entrypoint: []string{"/" + file.Path}}, nil
}

// Pause returns the image of the container that holds a pod's namespaces.
func Pause(name, binary string) (Image, error) {
	file, err := staticProgram(binary, "pause")
	if err != nil {
		return Image{}, err
	}
	return Image{Name: name, Entries: []Entry{file}, User: nonRoot, Entrypoint: []string{"/pause"}}, nil
}

// Busybox returns an image with a shell and the usual programs, for the pods of tests. It runs as root by default, and supports any user.
// applets is the output of `busybox --list-full`.
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

// base returns the files that programs expect on any system.
func base() []Entry {
	return []Entry{
		{Path: "tmp", Mode: 0o1777, Folder: true},
		{Path: "etc", Mode: 0o755, Folder: true},
		{Path: "etc/passwd", Mode: 0o644, Content: []byte("root:x:0:0:root:/:/bin/sh\nnonroot:x:65532:65532:nonroot:/:/bin/sh\n")},
		{Path: "etc/group", Mode: 0o644, Content: []byte("root:x:0:\nnonroot:x:65532:\n")},
	}
}

// links returns a link in /bin for each program of busybox, whatever its usual folder is.
func links(applets string) []Entry {
	entries := []Entry{{Path: "bin", Mode: 0o755, Folder: true}}
	for applet := range strings.FieldsSeq(applets) {
		if name := path.Base(applet); name != "busybox" {
			entries = append(entries, Entry{Path: "bin/" + name, Mode: 0o777, Link: "busybox"})
		}
	}
	return entries
}

// staticProgram reads a program and checks that it needs no libraries, because these images have none.
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
			return Entry{}, fmt.Errorf("%s needs libraries, which the image does not have. "+
				"Build it with CGO_ENABLED=0, or install Debian's busybox-static for busybox", source)
		}
	}
	return file, nil
}
