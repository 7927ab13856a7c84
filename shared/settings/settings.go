// Package settings prints the settings of a program, and reads them from a map instead of the environment.
package settings

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"text/tabwriter"

	"github.com/caarlos0/env/v11"
	"github.com/kelseyhightower/envconfig"
)

// Kubeconfig is a row of the table. Package kube reads the variable.
type Kubeconfig struct {
	Path string `envconfig:"KUBECONFIG" desc:"path of a kubeconfig. A program in a pod needs none: it uses the pod's service account"`
}

// Formats of the tables, for envconfig.Usagef.
const (
	variables = "VARIABLE\tDEFAULT\tMEANING\n" +
		"{{range .}}{{usage_key .}}\t{{usage_default .}}\t{{usage_description .}}\n{{end}}"
	flags = "FLAG\tVARIABLE\tDEFAULT\tMEANING\n" +
		"{{range .}}{{with .Tags.Get \"flag\"}}--{{.}}{{end}}\t{{usage_key .}}\t{{usage_default .}}\t{{usage_description .}}\n{{end}}"
)

// Print writes a table of the fields of the struct at spec from their tags: envconfig, default and desc.
func Print(w io.Writer, spec any) error { return print(w, spec, variables) }

// PrintWithFlags is Print with the tag flag in the first column.
func PrintWithFlags(w io.Writer, spec any) error { return print(w, spec, flags) }

func print(w io.Writer, spec any, format string) error {
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	if err := envconfig.Usagef("", spec, table, format); err != nil {
		return fmt.Errorf("rendering the table of settings: %w", err)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing the table of settings: %w", err)
	}
	return nil
}

// Fill sets the fields of the struct at spec to the values of their variables, or to their defaults. The tags are those of envconfig, which
// reads only the environment. Variables that the struct does not have are ignored.
//
// An empty value is not the default: as with envconfig, the variable replaces the default.
func Fill(spec any, values map[string]string) error {
	if values == nil {
		values = map[string]string{} // nil would mean the environment
	}
	err := env.ParseWithOptions(spec, env.Options{
		Environment: values, TagName: "envconfig", DefaultValueTagName: "default",
		// Without this function, the library limits integers to 32 bits.
		FuncMap: map[reflect.Type]env.ParserFunc{reflect.TypeFor[int](): func(v string) (any, error) { return strconv.Atoi(v) }},
	})
	var invalid env.ParseError
	if errors.As(err, &invalid) {
		field, _ := reflect.TypeOf(spec).Elem().FieldByName(invalid.Name)
		variable := field.Tag.Get("envconfig")
		return fmt.Errorf("reading %s=%q: %w", variable, values[variable], invalid.Err)
	}
	if err != nil {
		return fmt.Errorf("reading the settings: %w", err)
	}
	target := reflect.ValueOf(spec).Elem()
	for _, field := range reflect.VisibleFields(target.Type()) {
		if value, set := values[field.Tag.Get("envconfig")]; set && value == "" {
			target.FieldByIndex(field.Index).SetZero() // the library has set the default
		}
	}
	return nil
}
