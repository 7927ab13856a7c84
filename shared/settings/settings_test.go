package settings

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

type Inner struct {
	Image string `envconfig:"IMAGE" default:"none" desc:"the image"`
}

type Plain struct {
	Port int `envconfig:"PORT" default:"8080" desc:"the port"`
	Inner
}

type flagged struct {
	Tick time.Duration `envconfig:"TICK" flag:"tick" default:"30s" desc:"the period"`
	Inner
}

func TestPrint(t *testing.T) {
	for name, row := range map[string]struct {
		print func(io.Writer, any) error
		spec  any
		want  string
	}{
		"variables only": {Print, &Plain{}, `
VARIABLE  DEFAULT  MEANING
PORT      8080     the port
IMAGE     none     the image
`},
		"with flags": {PrintWithFlags, &flagged{}, `
FLAG    VARIABLE  DEFAULT  MEANING
--tick  TICK      30s      the period
        IMAGE     none     the image
`},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if err := row.print(&out, row.spec); err != nil {
				t.Fatal(err)
			}
			if got := "\n" + out.String(); got != row.want {
				t.Errorf("got %s\nwant %s", got, row.want)
			}
		})
	}
}

func TestFill(t *testing.T) {
	type spec struct {
		Names []string `envconfig:"NAMES"`
		Plain
		Tick time.Duration `envconfig:"TICK" default:"30s"`
	}
	for name, row := range map[string]struct {
		values map[string]string
		want   string
	}{
		"defaults": {nil, `[] 8080 "none" 30s <nil>`},
		"values": {map[string]string{"PORT": "1", "IMAGE": "a", "TICK": "1m", "NAMES": "a,b", "OTHER": "x"},
			`[a b] 1 "a" 1m0s <nil>`},
		"an empty value":                  {map[string]string{"IMAGE": ""}, `[] 8080 "" 30s <nil>`},
		"an integer of more than 32 bits": {map[string]string{"PORT": "4294967296"}, `[] 4294967296 "none" 30s <nil>`},
		"an invalid integer": {map[string]string{"PORT": "many"},
			`[] 0 "none" 30s reading PORT="many": strconv.Atoi: parsing "many": invalid syntax`},
	} {
		t.Run(name, func(t *testing.T) {
			var s spec
			err := Fill(&s, row.values)
			if got := fmt.Sprintf("%v %d %q %s %v", s.Names, s.Port, s.Image, s.Tick, err); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}
