package owners

import (
	_ "embed" // for table.yaml
	"fmt"
	"reflect"
	"slices"
	"sync"
)

//go:embed table.yaml
var tableYAML string

// table parses the built-in table once. The tests parse it, too, so an invalid table is never released.
var table = sync.OnceValue(func() Registry {
	rows, err := parse(tableYAML, reflect.TypeFor[builtInRow]())
	if err != nil {
		panic(fmt.Sprintf("table.yaml of the owners: %v", err))
	}
	return rows
})

// BuiltIn returns the table that Drydock comes with.
func BuiltIn() Registry { return slices.Clone(table()) }
