// Package report lays out an archive for a bug report. It contains only what package redact keeps. The package is pure.
package report

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"drydock.dev/cmd/kubectl-drydock/logs"
	"drydock.dev/cmd/kubectl-drydock/redact"
	"drydock.dev/shared/text"
)

// Files returns the files of the report, first the README. It returns an error if a fact cannot be encoded.
func Files(in Input) ([]File, error) {
	in = withoutQuotes(in)
	var files []File
	add := func(name, about string, document any) error {
		content, err := encode(document)
		if err != nil {
			return fmt.Errorf("encoding %s: %w", name, err)
		}
		files = append(files, File{name, about, content})
		return nil
	}
	if records := redact.Records(in.Annotations); len(records) > 0 {
		if err := add("records.yaml", "the records in the annotations of the set, decoded", records); err != nil {
			return nil, err
		}
	}
	if in.Status != nil {
		if err := add("status.yaml", "kubectl drydock status -o yaml", redact.Object("Status", in.Status)); err != nil {
			return nil, err
		}
	}
	if in.Doctor != nil {
		if err := add("doctor.yaml", "kubectl drydock doctor -o yaml", redact.Object("Doctor", in.Doctor)); err != nil {
			return nil, err
		}
	}
	for _, group := range in.Groups {
		if len(group.Objects) == 0 {
			continue
		}
		content, err := encodeGroup(group)
		if err != nil {
			return nil, err
		}
		files = append(files, File{group.File, fmt.Sprintf("%s (%d)", group.About, len(group.Objects)), content})
	}
	if in.Settings != nil {
		if err := add("settings.yaml", "the ConfigMap drydock-settings", redact.Settings(in.Settings)); err != nil {
			return nil, err
		}
	}
	files = append(files, textFiles(in)...)
	return append([]File{readme(in, files)}, files...), nil
}

// withoutQuotes returns the input without the commands, paths and queries that messages, records and logs quote.
func withoutQuotes(in Input) Input {
	annotations := map[string]any{}
	for key, value := range in.Annotations {
		annotations[key] = value
	}
	objects := []map[string]any{annotations}
	for _, group := range in.Groups {
		objects = append(objects, group.Objects...)
	}
	quotes := redact.QuotesOf(objects...)
	in.Status, in.Doctor = quotes.Object(in.Status), quotes.Object(in.Doctor)
	in.Annotations = maps.Clone(in.Annotations)
	for key, value := range in.Annotations {
		in.Annotations[key] = quotes.Text(value)
	}
	in.Groups = slices.Clone(in.Groups)
	for i, group := range in.Groups {
		in.Groups[i].Objects = make([]map[string]any, len(group.Objects))
		for j, object := range group.Objects {
			in.Groups[i].Objects[j] = quotes.Object(object)
		}
	}
	if in.Logs != nil {
		document := *in.Logs
		document.Lines = slices.Clone(document.Lines)
		for i, line := range document.Lines {
			document.Lines[i].Text, document.Lines[i].Fields = quotes.Text(line.Text), quotes.Object(line.Fields)
		}
		in.Logs = &document
	}
	return in
}

// encode returns the document as YAML. Users can write any character into it.
func encode(document any) ([]byte, error) {
	content, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	return yaml.JSONToYAML(text.EscapeJSON(content))
}

func encodeGroup(group Group) ([]byte, error) {
	var all bytes.Buffer
	for _, object := range group.Objects {
		content, err := encode(redact.Object(group.Kind, object))
		if err != nil {
			return nil, fmt.Errorf("encoding %s: %w", group.File, err)
		}
		all.WriteString("---\n")
		all.Write(content)
	}
	return all.Bytes(), nil
}

// textFiles returns the files that are no YAML.
func textFiles(in Input) []File {
	var files []File
	if in.Server != "" {
		files = append(files, File{"server.txt", "the version of the API server", []byte(redact.Text(in.Server) + "\n")})
	}
	if in.Logs != nil && len(in.Logs.Lines) > 0 {
		content := strings.Join(logs.Render(Lines(in.Logs.Lines)), "\n") + "\n"
		about := fmt.Sprintf("the log lines of functions and movers about operation %s (%d)", in.Logs.Operation, len(in.Logs.Lines))
		files = append(files, File{"logs.txt", about, []byte(content)})
	}
	return files
}

// Lines returns the log lines without the values that are not known to be harmless. Hooks and cleanup pods run programs of the user, so
// their text is removed.
func Lines(lines []logs.Line) []logs.Line {
	kept := make([]logs.Line, len(lines))
	for i, line := range lines {
		kept[i] = line
		switch {
		case line.Kind == logs.Function:
			kept[i].Text, kept[i].Fields = "", redact.Object("FunctionLine", line.Fields)
		case line.Kind == logs.Mover && line.Fields != nil:
			kept[i].Fields = redact.Object("MoverLine", line.Fields)
		case line.Kind == logs.Mover:
			kept[i].Text = redact.Message(line.Text)
		default:
			kept[i].Text, kept[i].Fields = redact.Removed, nil
		}
	}
	return kept
}

// Input has the facts of a report as they were read, with everything that must not be sent.
type Input struct {
	Now       time.Time
	Namespace string
	Set       string
	// Annotations are those of the set.
	Annotations map[string]string
	Groups      []Group
	// Status is the output of kubectl drydock status -o json, decoded. It is nil if it was not read.
	Status map[string]any
	// Doctor is the output of kubectl drydock doctor -o json, decoded. It is nil if it was not read.
	Doctor map[string]any
	// Server is the version of the API server. It is empty if it was not read.
	Server string
	// Settings is the content of the ConfigMap drydock-settings. It is nil if it was not read.
	Settings map[string]string
	Logs     *logs.Document
	// Missing are sentences about facts that were not read. They quote no errors.
	Missing []string
}

// Group has the objects of one kind, as JSON decodes them.
type Group struct {
	File    string // the name of the file
	Kind    string
	About   string // what the file contains
	Objects []map[string]any
}

// File is a file of the archive.
type File struct {
	Name    string
	About   string
	Content []byte
}

// ReadmeFile is the name of the first file.
const ReadmeFile = "README.txt"

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

// removedText lists the parts that a report leaves out.
const removedText = `What was removed
  Values that are not known to be harmless are replaced by ` + redact.Removed + `, and their keys stay:
  - the values of environment variables, commands, arguments and probes of containers
  - the values of all labels and annotations, except those of Drydock and Kubernetes
  - the names of image pull secrets, the sources of volumes except claims, and the attributes of CSI volumes
  - the annotations drydock.dev/activity-probe and drydock.dev/member-check, and the URLs of hooks
  - in messages, records and logs: these commands, arguments, probes and URLs, if they are quoted in full and have four characters or more
  - the output of hooks and cleanup pods, also in messages that quote it
  - the texts of errors of this command, and in messages: the values of labels that a request names, and values that the API server rejected
  - settings that are not Drydock's
  - credentials in texts: users and queries of URLs, bearer tokens, values with names such as password, long random words
  managedFields and kubectl's last-applied-configuration are left out. Secrets were not read, and of ConfigMaps only drydock-settings.

The rest
  Names of objects, namespaces, nodes, images and mount paths. The text of requests. The messages of Drydock and Kubernetes, which can
  contain names of files on the volumes. A credential that stands alone in such a text cannot be recognized.
  Read all files before you send the archive.
`

// readme returns the file that lists the others.
func readme(in Input, files []File) File {
	var b strings.Builder
	fmt.Fprintf(&b, "Report of kubectl drydock about StatefulSet %s/%s, %s\n\nContents\n", in.Namespace, in.Set,
		in.Now.UTC().Format(time.RFC3339))
	for _, f := range files {
		fmt.Fprintf(&b, "  %-14s %s\n", f.Name, f.About)
	}
	fmt.Fprintf(&b, "\n%s", removedText)
	missing := in.Missing
	if in.Logs != nil {
		missing = append(missing[:len(missing):len(missing)], in.Logs.Notes...)
	}
	if len(missing) > 0 {
		b.WriteString("\nMissing\n")
	}
	for _, sentence := range missing {
		fmt.Fprintf(&b, "  - %s\n", redact.Message(text.Printable(sentence)))
	}
	return File{ReadmeFile, "the contents, and what was removed", []byte(b.String())}
}
