// Package chart makes Drydock's Helm chart from the objects that kubectl drydock install applies. The chart has no manifests of its own:
// the templates are these objects, with a value in a few places.
package chart

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/cmd/kubectl-drydock/install"
	"drydock.dev/cmd/release/pack"
)

// Name is the name of the chart.
const Name = "drydock"

// written are the files that are not generated.
//
//go:embed files
var written embed.FS

// Options describe a chart.
type Options struct {
	Version         string // of Drydock, for example v1.2.3
	Image           string // default of the value image
	StandaloneImage string // default of the value standaloneImage
}

// Files returns the files of the chart by name, in a folder of the chart's name.
func Files(o Options) ([]pack.File, error) {
	texts, err := o.writtenFiles()
	if err != nil {
		return nil, err
	}
	rendered, err := render()
	if err != nil {
		return nil, err
	}
	for _, part := range rendered.parts() {
		text, err := part.template()
		if err != nil {
			return nil, fmt.Errorf("making templates/%s: %w", part.file, err)
		}
		texts["templates/"+part.file] = text
	}
	var files []pack.File
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		files = append(files, pack.File{Name: Name + "/" + name, Mode: pack.Plain, Content: []byte(texts[name])})
	}
	return files, nil
}

// writtenFiles returns the files that are not generated, with the version and the images.
func (o Options) writtenFiles() (map[string]string, error) {
	folder, err := fs.Sub(written, "files")
	if err != nil {
		return nil, err
	}
	fill := strings.NewReplacer("CHART_VERSION", strings.TrimPrefix(o.Version, "v"), "APP_VERSION", o.Version)
	images := strings.NewReplacer("IMAGE", quote(o.Image), "STANDALONE", quote(o.StandaloneImage))
	texts := map[string]string{}
	err = fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(folder, name)
		texts[name] = string(content)
		return err
	})
	texts["Chart.yaml"] = fill.Replace(texts["Chart.yaml"])
	texts["values.yaml"] = images.Replace(texts["values.yaml"])
	return texts, err
}

func quote(text string) string { return fmt.Sprintf("%q", text) }

// rendered has the objects of all installations.
type rendered struct {
	standalone []*unstructured.Unstructured
	knative    []*unstructured.Unstructured
	edited     []*unstructured.Unstructured // the objects that edited manifests need, in both modes
}

// render renders the installations, with marks instead of images.
func render() (rendered, error) {
	var all rendered
	var withEdited []*unstructured.Unstructured
	for _, one := range []struct {
		to      *[]*unstructured.Unstructured
		options install.Options
	}{
		{&all.standalone, install.Options{Mode: install.Standalone}},
		{&all.knative, install.Options{Mode: install.Knative}},
		{&withEdited, install.Options{Mode: install.Standalone, Templates: "v1"}},
	} {
		one.options.Image, one.options.StandaloneImage = imageMark, standaloneMark
		objects, err := install.Render(one.options)
		if err != nil {
			return rendered{}, err
		}
		*one.to = objects
	}
	for _, object := range withEdited {
		if !isAmong(all.standalone, object) {
			all.edited = append(all.edited, object)
		}
	}
	return all, nil
}

// parts returns the templates of the chart.
func (r rendered) parts() []part {
	rights, policies := part{file: "rights.yaml"}, part{file: "policies.yaml"}
	standalone := part{file: "standalone.yaml", condition: `eq .Values.mode "standalone"`}
	knative := part{file: "knative.yaml", condition: `eq .Values.mode "knative"`}
	edited := part{file: "edited-manifests.yaml", condition: `has .Values.editedManifests (list "v1" "v1beta1")`, objects: r.edited}
	for _, object := range r.standalone {
		switch {
		case !isAmong(r.knative, object):
			standalone.objects = append(standalone.objects, object)
		case strings.HasPrefix(object.GetKind(), "ValidatingAdmissionPolicy"):
			policies.objects = append(policies.objects, object)
		default:
			rights.objects = append(rights.objects, object)
		}
	}
	for _, object := range r.knative {
		if !isAmong(r.standalone, object) {
			knative.objects = append(knative.objects, object)
		}
	}
	return []part{rights, policies, standalone, knative, edited}
}

// isAmong reports whether the objects contain an equal one.
func isAmong(objects []*unstructured.Unstructured, object *unstructured.Unstructured) bool {
	return slices.ContainsFunc(objects, func(other *unstructured.Unstructured) bool {
		return other.GetKind() == object.GetKind() && other.GetName() == object.GetName() && isEqual(other, object)
	})
}
