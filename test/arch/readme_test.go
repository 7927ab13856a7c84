package arch

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// TestReadmeShowsEverySetting: the README's table has a row for each setting, with the texts of the struct tags.
func TestReadmeShowsEverySetting(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(kit.Root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	settings := reflect.TypeFor[api.Settings]()
	for i := range settings.NumField() {
		tag := settings.Field(i).Tag
		if tag.Get("ignored") != "" {
			continue // it is not a variable
		}
		row := "| `" + tag.Get("envconfig") + "` | " + tag.Get("default") + " | " + tag.Get("desc") + " |"
		if !strings.Contains(string(text), row) {
			t.Errorf("README.md lacks the row %s", row)
		}
	}
}
