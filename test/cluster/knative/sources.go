package knative

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Modules lists the modules that contain Knative's manifests.
var Modules = []string{"knative.dev/eventing", "knative.dev/serving", "knative.dev/networking", "knative.dev/caching"}

// source is a folder of manifests in a module. Knative itself is installed with numbered files beside these folders. They are symbolic
// links, which archives of Go modules do not contain; their targets are in these folders.
type source struct{ module, folder string }

var sources = []source{
	{"knative.dev/eventing", "config/core"},
	{"knative.dev/eventing", "config/channels/in-memory-channel"},
	{"knative.dev/eventing", "config/brokers/mt-channel-broker"},
	{"knative.dev/eventing", "third_party/eventing-integrations-latest"}, // the controller needs these two ConfigMaps
	{"knative.dev/networking", "config"},
	{"knative.dev/caching", "config"},
	{"knative.dev/serving", "config/core"},
}

// leftOut lists the files of components that do not run here: JobSink and RequestReply. Their CustomResourceDefinitions are applied,
// because the controllers watch all kinds.
var leftOut = []string{
	"job-sink.yaml", "200-job-sink-serviceaccount.yaml", "job-sink-clusterrole.yaml",
	"request-reply.yaml", "200-request-reply-serviceaccount.yaml", "request-reply-clusterrole.yaml",
}

// Module is a module's version and folder.
type Module struct{ Path, Version, Dir string }

// Read returns Knative's own objects with the images of the built programs.
func Read(modules []Module, images map[string]string) ([]Object, error) {
	var all []Object
	for _, s := range sources {
		at := slices.IndexFunc(modules, func(m Module) bool { return m.Path == s.module })
		if at < 0 {
			return nil, fmt.Errorf("test/knative/go.mod does not require module %s", s.module)
		}
		files, err := manifestsIn(filepath.Join(modules[at].Dir, s.folder))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			objects, err := readFile(file, modules[at].Version, images)
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", file, err)
			}
			all = append(all, objects...)
		}
	}
	return all, nil
}

func manifestsIn(folder string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if filepath.Ext(path) == ".yaml" && entry.Type().IsRegular() && !slices.Contains(leftOut, entry.Name()) {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing the manifests of Knative: %w", err)
	}
	return files, nil
}

// readFile also sets the version. Knative's release process writes it in place of "devel".
func readFile(file, version string, images map[string]string) ([]Object, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	manifest, err := useImages(string(text), images)
	if err != nil {
		return nil, err
	}
	return Parse(strings.ReplaceAll(manifest, "app.kubernetes.io/version: devel", "app.kubernetes.io/version: "+version))
}
