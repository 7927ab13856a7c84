package settings

import (
	"strings"
	"testing"
	"time"
)

type inner struct {
	Image string `envconfig:"IMAGE" default:"none" desc:"what to run"`
}

type plain struct {
	Port int `envconfig:"PORT" default:"8080" desc:"where to listen"`
	inner
}

type flagged struct {
	Tick time.Duration `envconfig:"TICK" flag:"tick" default:"30s" desc:"how often"`
	inner
}

func TestPrint(t *testing.T) {
	for name, row := range map[string]struct {
		spec any
		want string
	}{
		"variables only": {plain{}, `
VARIABLE  DEFAULT  MEANING
PORT      8080     where to listen
IMAGE     none     what to run
`},
		"with flags": {flagged{}, `
FLAG    VARIABLE  DEFAULT  MEANING
--tick  TICK      30s      how often
        IMAGE     none     what to run
`},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if err := Print(&out, row.spec); err != nil {
				t.Fatal(err)
			}
			if got := "\n" + out.String(); got != row.want {
				t.Errorf("got %s\nwant %s", got, row.want)
			}
		})
	}
}
