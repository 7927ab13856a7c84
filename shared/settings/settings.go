// Package settings prints the settings of a program, and reads them from a map instead of the environment.
//
// Print does the same as envconfig.Usagef without text/template. With text/template, the linker keeps every exported method of every type,
// and the functions' binary grows by a third.
package settings

import (
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Kubeconfig is a row of the table. Package kube reads the variable.
type Kubeconfig struct {
	Path string `envconfig:"KUBECONFIG" desc:"path of a kubeconfig; default is the pod's service account"`
}

// Print writes a table of the struct's fields from their tags: envconfig, default and desc. If a field has the tag flag, the first column
// has the flags. The fields of embedded structs appear at their place.
func Print(w io.Writer, spec any) error {
	fields := collect(reflect.TypeOf(spec))
	flags := false
	for _, f := range fields {
		flags = flags || f.Tag.Get("flag") != ""
	}
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	if flags {
		fmt.Fprint(table, "FLAG\t")
	}
	fmt.Fprint(table, "VARIABLE\tDEFAULT\tMEANING\n")
	for _, f := range fields {
		if flags {
			fmt.Fprintf(table, "%s\t", dashed(f.Tag.Get("flag")))
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", f.Tag.Get("envconfig"), f.Tag.Get("default"), f.Tag.Get("desc"))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing the table of settings: %w", err)
	}
	return nil
}

func dashed(flag string) string {
	if flag == "" {
		return ""
	}
	return "--" + flag
}

func collect(t reflect.Type) []reflect.StructField {
	var fields []reflect.StructField
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			fields = append(fields, collect(f.Type)...)
			continue
		}
		if f.Tag.Get("ignored") == "" { // envconfig ignores it, too
			fields = append(fields, f)
		}
	}
	return fields
}

// Fill sets the fields of the struct at spec to the values of their variables, or to their defaults, as envconfig does from the
// environment. It parses values in the same way, and ignores variables that the struct does not have.
func Fill(spec any, values map[string]string) error {
	target := reflect.ValueOf(spec).Elem()
	for _, f := range collect(target.Type()) {
		name := f.Tag.Get("envconfig")
		text, set := values[name]
		if !set {
			text = f.Tag.Get("default")
		}
		if text == "" {
			continue
		}
		if err := fill(target.FieldByName(f.Name), text); err != nil {
			return fmt.Errorf("reading %s=%q: %w", name, text, err)
		}
	}
	return nil
}

func fill(field reflect.Value, text string) error {
	switch field.Interface().(type) {
	case string:
		field.SetString(text)
	case []string:
		field.Set(reflect.ValueOf(strings.Split(text, ",")))
	case time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return err
		}
		field.SetInt(int64(d))
	case int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		field.SetInt(int64(n))
	case bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return err
		}
		field.SetBool(b)
	default:
		return fmt.Errorf("type %s is not supported", field.Type())
	}
	return nil
}
