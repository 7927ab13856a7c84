package api

import (
	"encoding/json"
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/api/resource"
)

// sizeShape is what may be parsed as a quantity. Package resource computes with whatever exponent it is given: "1e-99999999"
// takes it minutes, and annotations are written by whoever may edit a StatefulSet.
var sizeShape = regexp.MustCompile(`^[+-]?[0-9.]{1,40}([eE][+-]?[0-9]{1,2}|[a-zA-Z]{0,2})$`)

func parseSize(text string) (resource.Quantity, error) {
	if !sizeShape.MatchString(text) {
		return resource.Quantity{}, fmt.Errorf("size %q is not a quantity", text)
	}
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}, fmt.Errorf("size %q is not a quantity", text)
	}
	return quantity, nil
}

// UnmarshalJSON looks at the sizes before it parses them.
func (s *Status) UnmarshalJSON(text []byte) error {
	var sizes struct {
		Templates []struct{ Size string }
		Claims    []struct{ From, To string }
	}
	if err := json.Unmarshal(text, &sizes); err != nil {
		return err
	}
	var all []string
	for _, t := range sizes.Templates {
		all = append(all, t.Size)
	}
	for _, c := range sizes.Claims {
		all = append(all, c.From, c.To)
	}
	for _, size := range all {
		if _, err := parseSize(size); err != nil {
			return err
		}
	}
	type plain Status
	return json.Unmarshal(text, (*plain)(s))
}
