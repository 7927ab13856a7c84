package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

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
