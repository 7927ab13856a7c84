package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"

	yaml3 "go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/resources"
)

// checkManifests checks the documents of a YAML text. One with an apiVersion and a kind of the scheme must have only
// fields of its type.
func checkManifests(c *checker, line int, text string) {
	documents := yaml3.NewDecoder(bytes.NewBufferString(text))
	for {
		var node yaml3.Node
		if err := documents.Decode(&node); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			c.report(line, "%v", err)
			return
		}
		at := line + node.Line - 1
		document, err := yaml3.Marshal(&node)
		if err != nil {
			c.report(at, "%v", err)
			continue
		}
		if err := errors.Join(decode(document), checkTemplates(document)); err != nil {
			c.report(at, "%v", err)
		}
	}
}

// decode decodes the document strictly if its type is known. A list is one of rows of the owners' table.
func decode(document []byte) error {
	if bytes.HasPrefix(document, []byte("- ")) {
		_, err := owners.Parse(string(document))
		return err
	}
	var head struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(document, &head); err != nil {
		return err
	}
	types := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(types), v1alpha1.AddToScheme(types)); err != nil {
		return err
	}
	group, err := schema.ParseGroupVersion(head.APIVersion)
	if err != nil {
		return err
	}
	switch {
	case head.Kind == "" || !types.IsGroupRegistered(group.Group):
		return nil // a part of a manifest, or a resource of another project
	case group == v1alpha1.GroupVersion && head.Kind == "Scaler":
		return decodeScaler(document)
	}
	_, _, err = serializer.NewCodecFactory(types, serializer.EnableStrict).UniversalDeserializer().Decode(document, nil, nil)
	return err
}

// decodeScaler decodes a Scaler strictly. Its own decoder, and that of its mode, accept unknown fields.
func decodeScaler(document []byte) error {
	type scaler v1alpha1.Scaler
	type scalerMode v1alpha1.ScalerMode
	if err := yaml.UnmarshalStrict(document, &scaler{}); err != nil {
		return err
	}
	var raw struct {
		Spec struct {
			Mode json.RawMessage `json:"mode"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(document, &raw); err != nil || raw.Spec.Mode == nil {
		return err
	}
	return yaml.UnmarshalStrict(raw.Spec.Mode, &scalerMode{})
}

// checkTemplates checks the pod templates in a manifest as the functions do: those in annotations, and those of a Scaler's hooks. Strict
// decoding sees only the text of an annotation, and the template of a Scaler has no schema.
func checkTemplates(document []byte) error {
	if bytes.HasPrefix(document, []byte("- ")) {
		return nil
	}
	var manifest struct {
		Metadata metav1.ObjectMeta
		Spec     struct {
			Hooks map[string]v1alpha1.Hook
		}
	}
	if err := yaml.Unmarshal(document, &manifest); err != nil {
		return err
	}
	set := &appsv1.StatefulSet{ObjectMeta: manifest.Metadata}
	var errs []error
	if set.Annotations[api.CleanupTemplateAnnotation] != "" {
		if _, problem := cleanup.Template(set); problem != nil {
			errs = append(errs, errors.New(problem.Message))
		}
	}
	for _, hook := range resources.Hooks {
		_, err := resources.HookTemplate(set, hook)
		errs = append(errs, err)
	}
	for name, hook := range manifest.Spec.Hooks {
		if hook.Job != nil {
			_, err := resources.ParseScaleHook(set, "hook "+name, string(hook.Job.Template.Raw))
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// namedImage matches a value of DRYDOCK_IMAGE in a command, a manifest or a patch.
var namedImage = regexp.MustCompile(`DRYDOCK_IMAGE["']?\s*[=:]\s*["']?([^\s"',}]+)`)

// checkImages checks each value of DRYDOCK_IMAGE in the text. Tags are right if the text allows them.
func checkImages(c *checker, text string) {
	for i, line := range strings.Split(text, "\n") {
		for _, m := range namedImage.FindAllStringSubmatch(line, -1) {
			checkImage(c, i+1, m[1], strings.Contains(text, "DRYDOCK_ALLOW_TAGS"))
		}
	}
}

// checkImage checks that Drydock accepts the image. On a page, … stands for the digits of a digest.
func checkImage(c *checker, line int, image string, allowTags bool) {
	whole := strings.ReplaceAll(image, "sha256:…", "sha256:"+strings.Repeat("0", 64))
	if fault, _ := api.ImageFault(whole, allowTags); fault != "" && !strings.Contains(image, "$") {
		c.report(line, "image %s", fault)
	}
}

// key matches a key of Drydock, also behind a backslash as jsonpath needs it. Longer names, as those of other domains, do not match.
var key = regexp.MustCompile(`(?:(?:^|[^A-Za-z0-9.])drydock\.dev|drydock\\\.dev)/([a-z][a-z0-9-]*)`)

// version matches the version of an API group, which is no key.
var version = regexp.MustCompile(`^v[0-9]`)

// checkKeys checks each key of Drydock in a line.
func checkKeys(c *checker, line int, text string) {
	for _, m := range key.FindAllStringSubmatch(text, -1) {
		name := strings.TrimSuffix(m[1], "-") // kubectl removes KEY-
		if _, known := c.project.keys[name]; !known && !version.MatchString(name) {
			c.report(line, "there is no key drydock.dev/%s in shared/api or in a manifest to install", name)
		}
	}
}

// checkKind checks that an argument of kubectl names a key of this kind, and its value if Drydock parses it.
func checkKind(c *checker, line int, argument, kind string) {
	written, value, _ := strings.Cut(argument, "=")
	name, isOurs := strings.CutPrefix(written, api.Prefix)
	if !isOurs {
		return
	}
	if kinds := c.project.keys[strings.TrimSuffix(name, "-")]; kinds != "" && !strings.Contains(kinds, kind) {
		c.report(line, "%s is no %s", written, strings.ToLower(kind))
		return
	}
	var err error
	switch {
	case strings.Contains(value, "…"):
	case written == api.ResizeAnnotation && value != "auto":
		_, err = api.ParseRequest(value)
	case written == api.GrowAnnotation:
		_, err = api.ParseGrow(value)
	}
	if err != nil {
		c.report(line, "%s: %v", argument, err)
	}
}
