// Package bounded reads text that tenants and senders of events write: annotations, ConfigMaps and objects. Its cost in time is
// proportional to the length of the text, for any content. Its memory is at most a hundred times the length, and the length is limited.
// Other readers lack such bounds. A YAML anchor of 32 KiB that is repeated ten thousand times becomes 320 MiB, a list of nulls becomes a
// list of structs, and the quantity "1e-99999999" takes minutes to parse.
package bounded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	yamlnodes "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// MaxYAML is the length of the longest YAML text that is read, in bytes. A pod template has about 2,000.
const MaxYAML = 64 << 10

// MaxJSON is the length of the longest JSON document that is read, in bytes. It is the API server's limit for an object, which a
// ControllerRevision can reach. All annotations of an object together have at most 256 KiB.
const MaxJSON = 3 << 19

// smallObject is a lower limit for the average size of the objects in Drydock's documents, in bytes, apart from the first fewObjects. An
// empty object has two bytes in a list, and about a hundred when it is decoded.
const (
	smallObject = 48
	fewObjects  = 64
)

// quantityShape matches the texts that resource.ParseQuantity may get. That function computes with any exponent.
var quantityShape = regexp.MustCompile(`^[+-]?[0-9.]{1,40}([eE][+-]?[0-9]{1,2}|[a-zA-Z]{0,2})$`)

// Quantity parses a quantity. The error quotes at most 40 bytes of the text.
func Quantity(text string) (resource.Quantity, error) {
	if quantityShape.MatchString(text) {
		if quantity, err := resource.ParseQuantity(text); err == nil {
			return quantity, nil
		}
	}
	return resource.Quantity{}, fmt.Errorf("%q is not a quantity", text[:min(len(text), 40)])
}

// YAML decodes YAML or JSON strictly. An unknown field, a repeated key, an anchor and an alias are errors. Empty text leaves into
// unchanged.
func YAML(text string, into any) error {
	doc, err := ToJSON(text)
	if err != nil {
		return err
	}
	if err := checkQuantities(doc, into); err != nil {
		return err
	}
	// It decodes the text, not doc: only then can a number become the string of a field.
	return yaml.UnmarshalStrict([]byte(text), into)
}

// ToJSON converts YAML to JSON. A repeated key, an anchor and an alias are errors.
func ToJSON(text string) ([]byte, error) {
	if len(text) > MaxYAML {
		return nil, fmt.Errorf("the text has %d bytes, at most %d are read; shorten it", len(text), MaxYAML)
	}
	var document yamlnodes.Node
	if err := yamlnodes.Unmarshal([]byte(text), &document); err != nil {
		return nil, err
	}
	if line := aliasLine(&document); line != 0 {
		return nil, fmt.Errorf("line %d has an anchor or an alias (& or *), which is not supported; write the value in full", line)
	}
	return yaml.YAMLToJSONStrict([]byte(text))
}

// aliasLine returns the line of the first anchor or alias below the node, or 0. The parser does not resolve them.
func aliasLine(node *yamlnodes.Node) int {
	if node.Kind == yamlnodes.AliasNode || node.Anchor != "" {
		return max(node.Line, 1)
	}
	for _, child := range node.Content {
		if line := aliasLine(child); line != 0 {
			return line
		}
	}
	return 0
}

// Document decodes one of Drydock's JSON documents. A tenant may have replaced it by a document of the same size that is many times larger
// when decoded. Such a document is an error.
func Document(text []byte, into any) error {
	if objects := bytes.Count(text, []byte("{")); objects > fewObjects+len(text)/smallObject {
		return fmt.Errorf("the document has %d objects in %d bytes, more than any document of Drydock", objects, len(text))
	}
	return JSON(text, into)
}

// JSON decodes the JSON of a Kubernetes object. The last value of a repeated key counts. Unknown fields are ignored.
func JSON(text []byte, into any) error {
	if len(text) > MaxJSON {
		return fmt.Errorf("the document has %d bytes, at most %d are read", len(text), MaxJSON)
	}
	if err := checkElements(text); err != nil {
		return err
	}
	if harmless(text) {
		return json.Unmarshal(text, into)
	}
	if err := checkQuantities(text, into); err != nil {
		return err
	}
	// Decode the checked values only. The text may have further values of a repeated key, which were not checked.
	checked, err := canonical(text)
	if err != nil {
		return err
	}
	return json.Unmarshal(checked, into)
}

func canonical(text []byte) ([]byte, error) {
	value, err := generic(text)
	if err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

func generic(text []byte) (any, error) {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	if decoder.More() {
		return nil, errors.New("there is text after the document")
	}
	return value, nil
}

func checkQuantities(text []byte, into any) error {
	value, err := generic(text)
	if err != nil {
		return err
	}
	return check("", value, reflect.TypeOf(into))
}

var (
	quantityType    = reflect.TypeFor[resource.Quantity]()
	unmarshalerType = reflect.TypeFor[json.Unmarshaler]()
)

// check checks every value that would be decoded into a Quantity.
func check(path string, value any, target reflect.Type) error {
	for target.Kind() == reflect.Pointer {
		target = target.Elem()
	}
	if target == quantityType {
		return checkQuantity(path, value)
	}
	if reflect.PointerTo(target).Implements(unmarshalerType) {
		return nil // it decodes its own text: a time, an IntOrString, raw JSON
	}
	switch content := value.(type) {
	case map[string]any:
		return checkObject(path, content, target)
	case []any:
		if target.Kind() != reflect.Slice && target.Kind() != reflect.Array {
			return nil // the decoder will reject it
		}
		for i, element := range content {
			if err := check(fmt.Sprintf("%s[%d]", path, i), element, target.Elem()); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkQuantity(path string, value any) error {
	var text string
	switch content := value.(type) {
	case nil:
		return nil
	case string:
		text = content
	case json.Number:
		text = content.String()
	default:
		return fmt.Errorf("%s is not a quantity", path)
	}
	if _, err := Quantity(text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func checkObject(path string, content map[string]any, target reflect.Type) error {
	for key, value := range content {
		for _, field := range targetsOf(key, target) {
			if err := check(strings.TrimPrefix(path+"."+key, "."), value, field); err != nil {
				return err
			}
		}
	}
	return nil
}

// targetsOf returns the types that the decoder may decode the value of a key into. The decoder ignores the case of a field's name.
func targetsOf(key string, target reflect.Type) []reflect.Type {
	switch target.Kind() {
	case reflect.Map:
		return []reflect.Type{target.Elem()}
	case reflect.Struct:
	default:
		return nil
	}
	var found []reflect.Type
	for i := range target.NumField() {
		field := target.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && name == "" {
			embedded := field.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			found = append(found, targetsOf(key, embedded)...)
			continue
		}
		if name == "" {
			name = field.Name
		}
		if strings.EqualFold(name, key) {
			found = append(found, field.Type)
		}
	}
	return found
}
