package owners

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// Storage says where a resource has the size and the StorageClass of the claims that its operator asks for. An operator whose resource and
// claims disagree undoes a resize, creates the StatefulSet again, or does nothing any more.
type Storage struct {
	// Template is the claim template that the fields are about. Empty means all of them.
	Template string
	// Size is the path of the size, such as "spec.persistence.storage". Of a list, [*] stands for the item that has the template's name, or
	// whose name is the end of the StatefulSet's name after a dash.
	Size string
	// Class is the path of the StorageClass, or empty.
	Class string
}

// OnDifference says what an operator does when the claims have another size than its resource says.
type OnDifference string

const (
	// Recreates: it deletes the StatefulSet, and creates it again with the size in the resource.
	Recreates OnDifference = "recreates"
	// Grows: it makes smaller claims larger again, and with larger ones does nothing for the resource any more.
	Grows OnDifference = "grows"
	// Blocks: it does nothing for the resource any more.
	Blocks OnDifference = "blocks"
)

// differenceWords complete the words "its operator would".
var differenceWords = map[OnDifference]string{
	"":        "undo the resize",
	Recreates: "delete the StatefulSet, and create it again with the former size",
	Grows:     "make the claims larger again, or do nothing for the resource any more",
	Blocks:    "do nothing for the resource any more",
}

// WouldDo says what the operator would do, as the end of the words "its operator would".
func (d OnDifference) WouldDo() string { return differenceWords[d] }

// Difference is a field of a resource that says something else than the claims of a StatefulSet.
type Difference struct {
	Path string
	// Has is the field's value, or empty.
	Has string
	// Wants is what the claims have.
	Wants string
}

func (d Difference) String() string {
	if d.Has == "" {
		return fmt.Sprintf("%s is missing, and the claims have %s", d.Path, d.Wants)
	}
	return fmt.Sprintf("%s is %s, and the claims have %s", d.Path, d.Has, d.Wants)
}

// Differences returns the fields of the object that disagree with the claims of the set, which have the targets. A field that the row does
// not name, or a size that the object does not have, is no difference: only the operator knows what it stands for.
func (r Row) Differences(object *unstructured.Unstructured, set string, targets []api.TemplateTarget) []Difference {
	var found []Difference
	for _, t := range targets {
		for _, s := range r.storageOf(t.Name) {
			for _, path := range itemsOf(object, s.Size, set, t.Name) {
				has := textAt(object, path)
				if size, err := resource.ParseQuantity(has); err == nil && size.Cmp(t.Size) != 0 {
					found = append(found, Difference{path, has, t.Size.String()})
				}
			}
			if t.Class == "" || s.Class == "" {
				continue
			}
			for _, path := range itemsOf(object, s.Class, set, t.Name) {
				if has := textAt(object, path); has != t.Class {
					found = append(found, Difference{path, has, t.Class})
				}
			}
		}
	}
	return found
}

// textAt returns the value of the field as text, or "". A size may be a number of bytes.
func textAt(object *unstructured.Unstructured, path string) string {
	value := Setting{In: Field, Key: path}.valueOn(object)
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// storageOf returns where the resource has the fields of the template: those of its name, or else those of all templates.
func (r Row) storageOf(template string) []Storage {
	for _, name := range []string{template, ""} {
		var found []Storage
		for _, s := range r.Storage {
			if s.Template == name {
				found = append(found, s)
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

// SizePaths returns the paths of the size of a template's claims in resources of the row, as people read them.
func (r Row) SizePaths(template string) []string {
	var paths []string
	for _, s := range r.storageOf(template) {
		paths = append(paths, s.Size)
	}
	return paths
}

// itemsOf returns the path with the names of the items that concern the template's claims in the set. None means that the object has no
// such items. If several names are ends of the set's name, the longest counts.
func itemsOf(object *unstructured.Unstructured, path, set, template string) []string {
	all, err := expandItems(object.Object, "", parsePath(path))
	if err != nil {
		return nil
	}
	longest := map[string]int{} // by the list
	fits := func(name string) int {
		switch {
		case name == template || name == set:
			return len(set) + len(template)
		case strings.HasSuffix(set, "-"+name):
			return len(name)
		}
		return -1
	}
	for _, path := range all {
		for _, s := range parsePath(path) {
			if _, name, isItem := strings.Cut(s.item, "="); isItem {
				longest[s.name] = max(longest[s.name], fits(name))
			}
		}
	}
	return slices.DeleteFunc(all, func(path string) bool {
		return slices.ContainsFunc(parsePath(path), func(s step) bool {
			_, name, isItem := strings.Cut(s.item, "=")
			return isItem && (fits(name) < 0 || fits(name) < longest[s.name])
		})
	})
}

// Agree returns the patch that lets the object say what the claims have.
func Agree(of plan.Resource, object *unstructured.Unstructured, differences []Difference) []plan.Action {
	return agreement(of, object, differences).Actions()
}

func agreement(of plan.Resource, object *unstructured.Unstructured, differences []Difference) *plan.Patch {
	patch := plan.PatchOf(of, object)
	for _, d := range differences {
		Setting{In: Field, Key: d.Path}.write(patch, object, d.Wants)
	}
	return patch
}

// storageMistakes returns the mistakes in where a resource has its sizes.
func (r Row) storageMistakes() mistakes {
	var found mistakes
	for i, s := range r.Storage {
		at := fmt.Sprintf("storage[%d].", i)
		for _, p := range []struct{ field, path string }{{"size", s.Size}, {"class", s.Class}} {
			if p.path == "" && p.field == "class" {
				continue
			}
			found.add(at+p.field, pathMistakes(p.path)...)
		}
		if slices.ContainsFunc(r.Storage[:i], func(o Storage) bool { return o == s }) {
			found.add(at+"size", "is listed twice")
		}
	}
	switch _, known := differenceWords[r.OnDifference]; {
	case !known:
		found.add("onDifference", fmt.Sprintf("%.63q is unknown; write %s, %s or %s", r.OnDifference, Recreates, Grows, Blocks))
	case r.OnDifference != "" && len(r.Storage) == 0:
		found.add("onDifference", "applies only with storage, and the row has none")
	}
	if len(r.Storage) > 0 && r.PausedThroughController {
		found.add("storage", "belongs to the row of the resource that is paused")
	}
	return found
}
