// Package settings prints the settings of a program, and reads them from a map in place of the environment.
//
// Print does what envconfig.Usagef does, without text/template: with that linked, the linker keeps every exported method of
// every type, and the functions' binary grows by a third.
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

// Kubeconfig is a row of the table; package kube reads it.
type Kubeconfig struct {
	Path string `envconfig:"KUBECONFIG" desc:"path of a kubeconfig; without it the pod's service account"`
}

// Print writes a table of the struct's fields by their tags: flag (in the first column, if any field has one),
// envconfig, default and desc. Fields of embedded structs follow where they are embedded.
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
		if f.Tag.Get("ignored") == "" { // envconfig does not read it either
			fields = append(fields, f)
		}
	}
	return fields
}

// Fill sets the struct's fields, which spec points to, to the values of their variables, or to their defaults: what envconfig
// does with the environment. Values are parsed as there; variables that the struct does not name are ignored.
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
		return fmt.Errorf("a %s cannot be read", field.Type())
	}
	return nil
}
