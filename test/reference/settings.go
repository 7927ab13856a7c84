package reference

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"strings"
)

// Settings are the settings in a struct of a Go file, with the title and the introduction of their section.
type Settings struct {
	Title, Introduction string
	Source, Struct      string
}

// Setting is an environment variable, as the tags and the comment of its field describe it.
type Setting struct {
	Name, Flag, Default, Doc string
}

// SettingsOf returns the settings of a struct in a Go file, without those of embedded structs.
func SettingsOf(path string, source any, name string) ([]Setting, error) {
	syntax, err := parser.ParseFile(token.NewFileSet(), path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("reading the settings: %w", err)
	}
	var found []Setting
	ast.Inspect(syntax, func(n ast.Node) bool {
		definition, ok := n.(*ast.TypeSpec)
		if !ok || definition.Name.Name != name {
			return true
		}
		fields, ok := definition.Type.(*ast.StructType)
		if !ok {
			return false
		}
		for _, field := range fields.Fields.List {
			if s, ok := settingOf(field); ok {
				found = append(found, s)
			}
		}
		return false
	})
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no struct %s with the tag envconfig", path, name)
	}
	return found, nil
}

func settingOf(field *ast.Field) (Setting, bool) {
	if field.Tag == nil || len(field.Names) != 1 {
		return Setting{}, false
	}
	text, err := strconv.Unquote(field.Tag.Value)
	if err != nil {
		return Setting{}, false
	}
	tag := reflect.StructTag(text)
	s := Setting{Name: tag.Get("envconfig"), Flag: tag.Get("flag"), Default: tag.Get("default"), Doc: sentence(tag.Get("desc"))}
	// A comment with another beginning describes several fields.
	if more, found := strings.CutPrefix(field.Doc.Text(), field.Names[0].Name+" "); found {
		s.Doc += " " + sentence("it "+more)
	}
	return s, s.Name != ""
}

// SettingsPage renders the settings of all programs. The files have the structs' sources.
func SettingsPage(programs []Settings, files func(string) string) (string, error) {
	var b strings.Builder
	b.WriteString("# Settings\n\n" + wrap("Settings are environment variables. In every installation, on Knative and standalone, they are "+
		"the keys of the ConfigMap `drydock-settings` in the namespace `drydock`. Some are also flags of `drydock-standalone`; a flag has "+
		"precedence. OpenTelemetry's variables, such as `OTEL_EXPORTER_OTLP_ENDPOINT`, are in [telemetry](../telemetry.md).") +
		generated("the code that reads the settings"))
	for _, p := range programs {
		settings, err := SettingsOf(p.Source, files(p.Source), p.Struct)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", p.Title, wrap(p.Introduction))
		for _, s := range settings {
			b.WriteString(wrapItem(s.item()))
		}
	}
	return b.String(), nil
}

// item returns the item of the setting in a list.
func (s Setting) item() string {
	var notes []string
	if s.Default != "" {
		notes = append(notes, "default `"+s.Default+"`")
	}
	if s.Flag != "" {
		notes = append(notes, "flag `--"+s.Flag+"`")
	}
	if len(notes) == 0 {
		return fmt.Sprintf("- `%s`: %s", s.Name, s.Doc)
	}
	return fmt.Sprintf("- `%s` (%s): %s", s.Name, strings.Join(notes, ", "), s.Doc)
}
