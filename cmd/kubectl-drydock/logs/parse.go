package logs

import (
	"bytes"
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/cmd/kubectl-drydock/redact"
	"drydock.dev/shared/text"
)

const (
	// MaxLine is how many bytes of a line are read. The rest of the line is skipped.
	MaxLine = 64 << 10
	// maxText is how many bytes of a text are kept.
	maxText = 16 << 10
)

// Parser reads the lines of one source in their order.
type Parser struct {
	Scope  Scope
	Source Source
	last   time.Time
}

// Parse reads a line as the API server returns it with timestamps: a time, a space and the line of the container. It returns false for a
// line that does not belong to the operation. It keeps every line of a mover, a hook and a cleanup pod, because their pods belong to the
// operation. A line of a function that cannot be read may be about any set, so it does not count.
func (p *Parser) Parse(raw []byte) (Line, bool) {
	at, printed := p.split(raw)
	line := Line{Time: at, Origin: p.Source.Name(), Kind: p.Source.Kind}
	if p.Source.Kind == Hook || p.Source.Kind == Cleanup {
		line.Text = clean(string(printed))
		return line, line.Text != ""
	}
	fields, readable := decode(printed)
	switch {
	case p.Source.Kind == Mover && readable && (fields["phase"] != nil || fields["result"] != nil):
		line.Fields = cleanMap(fields)
		return line, true
	case p.Source.Kind == Mover:
		line.Text = clean(string(printed))
		return line, line.Text != ""
	case !readable || !p.Scope.concerns(fields, at):
		return Line{}, false
	}
	if name, ok := fields["function"].(string); ok && len(validation.IsDNS1123Label(name)) == 0 {
		line.Origin = name
	}
	delete(fields, "time") // that of the API server counts
	line.Fields = cleanMap(fields)
	return line, true
}

// split returns the time of the line, and the text of the container. A line without a time has the time of the line before.
func (p *Parser) split(raw []byte) (time.Time, []byte) {
	stamp, rest, _ := bytes.Cut(raw, []byte(" "))
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return p.last, raw
	}
	p.last = at.UTC()
	return p.last, rest
}

// decode reads a JSON object. It returns false for any other text.
func decode(printed []byte) (map[string]any, bool) {
	decoder := json.NewDecoder(bytes.NewReader(printed))
	decoder.UseNumber()
	var fields map[string]any
	if decoder.Decode(&fields) != nil || fields == nil || decoder.More() {
		return nil, false
	}
	return fields, true
}

// clean returns the text as one printable line without credentials.
func clean(printed string) string { return text.Clip(redact.Text(text.Printable(printed)), maxText) }

func cleanMap(fields map[string]any) map[string]any {
	cleaned := map[string]any{}
	for key, value := range fields {
		key = text.Line(key, 100)
		cleaned[key] = redact.Removed
		if !redact.IsSecret(key) {
			cleaned[key] = cleanValue(value)
		}
	}
	return cleaned
}

func cleanValue(value any) any {
	switch v := value.(type) {
	case string:
		return clean(v)
	case json.Number:
		return json.Number(text.Line(v.String(), 40))
	case map[string]any:
		return cleanMap(v)
	case []any:
		cleaned := make([]any, len(v))
		for i := range v {
			cleaned[i] = cleanValue(v[i])
		}
		return cleaned
	}
	return value
}
