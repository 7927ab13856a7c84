package owners

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/shared/api"
	"drydock.dev/shared/bounded"
	"drydock.dev/shared/plan"
)

// Storage says where a resource has the size and the StorageClass of the claims that its operator asks for. An operator whose resource and
// claims disagree undoes a resize, creates the StatefulSet again, or does nothing any more.
type Storage struct {
	// Template is the claim template that the fields are about. Empty means all of them.
	Template string
	// Size is the path of the size, such as "spec.persistence.storage". After a list's name, [template] stands for the item with the name of
	// the claim template, and [set] for the item that SetName makes the StatefulSet's name of.
	Size string
	// Class is the path of the StorageClass, or empty.
	Class string
	// SetName says how the operator names the StatefulSet of an item, such as "{resource}-es-{item}". It is empty if no path has [set].
	SetName string
}

// OnDifference is the reaction of an operator to claims with another size than its resource has.
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

// WouldDo describes the reaction, as the end of the words "its operator would".
func (d OnDifference) WouldDo() string { return differenceWords[d] }

// Difference is a field of a resource that says something else than a claim template of a StatefulSet.
type Difference struct {
	Path string
	// Has is the field's value, or empty.
	Has string
	// Wants is the value of the template.
	Wants string
	// Edited is true if another client has changed the field since the operator last worked.
	Edited bool
}

func (d Difference) String() string {
	if d.Has == "" {
		return fmt.Sprintf("%s is missing, and the StatefulSet has %s", d.Path, d.Wants)
	}
	return fmt.Sprintf("%s is %s, and the StatefulSet has %s", d.Path, d.Has, d.Wants)
}

// templatesOf returns the sizes and classes that the set's claim templates ask for.
func templatesOf(set *appsv1.StatefulSet) []api.TemplateTarget {
	var all []api.TemplateTarget
	for _, t := range set.Spec.VolumeClaimTemplates {
		class := ""
		if t.Spec.StorageClassName != nil {
			class = *t.Spec.StorageClassName
		}
		all = append(all, api.TemplateTarget{Name: t.Name, Size: *t.Spec.Resources.Requests.Storage(), Class: class})
	}
	return all
}

// Followed returns the fields of the object about the set's claims that its operator follows, with the values of the set's templates: what
// the operator has done when it last worked. A field that differs is one of them if the operator cannot leave it so for long: a user has
// written it a moment ago. Otherwise the operator ignores the field, or cannot follow it.
func (r Row) Followed(object *unstructured.Unstructured, set *appsv1.StatefulSet) []api.OwnerField {
	var all []api.OwnerField
	for _, t := range templatesOf(set) {
		for _, f := range r.fieldsOf(object, set.Name, t) {
			switch {
			case f.agrees():
				all = append(all, api.OwnerField{Template: t.Name, Path: f.Path, Value: f.Has})
			case f.Has != "" && f.Wants != "" && (r.OnDifference == Recreates || r.OnDifference == Grows && f.grows()):
				all = append(all, api.OwnerField{Template: t.Name, Path: f.Path, Value: f.Wants})
			}
		}
	}
	return all
}

// Differences returns the fields of the object that do not have the values of the set's templates since the templates have changed. before
// are the fields that its operator followed. A field that the row does not name, or a size that the object does not have, is no difference:
// only the operator knows its meaning.
func (r Row) Differences(object *unstructured.Unstructured, set *appsv1.StatefulSet, before []api.OwnerField) []Difference {
	var found []Difference
	for _, t := range templatesOf(set) {
		for _, f := range r.fieldsOf(object, set.Name, t) {
			i := slices.IndexFunc(before, func(b api.OwnerField) bool { return b.Template == t.Name && b.Path == f.Path })
			if i < 0 || f.agrees() || f.isValue(before[i].Value) || f.Wants == "" {
				continue
			}
			f.Edited = f.Has != before[i].Value
			found = append(found, f.Difference)
		}
	}
	return found
}

// Conflict is a claim template of a StatefulSet that asks for something else in a field than another one of the same owner.
type Conflict struct {
	Set, Template string
	Difference
	// Request is the resize that ends the conflict.
	Request string
}

func (c Conflict) String() string {
	return fmt.Sprintf("template %s of StatefulSet %s uses the same field %s and has %s instead of %s", c.Template, c.Set, c.Path, c.Has,
		c.Wants)
}

// Command returns the command that ends the conflict.
func (c Conflict) Command(namespace string) string {
	return fmt.Sprintf("kubectl drydock resize -n %s sts/%s %s", namespace, c.Set, c.Request)
}

// Conflicts returns the claim templates of the sets that ask for something else than the differences, in the same fields of the object. The
// object can say only one of both, so a write for one set would let the operator change the other one.
func (r Row) Conflicts(object *unstructured.Unstructured, differences []Difference, sets []*appsv1.StatefulSet) []Conflict {
	var found []Conflict
	for _, set := range sets {
		for _, t := range templatesOf(set) {
			for _, f := range r.fieldsOf(object, set.Name, t) {
				i := slices.IndexFunc(differences, func(d Difference) bool { return d.Path == f.Path })
				if i < 0 || f.Wants == "" || f.isValue(differences[i].Wants) {
					continue
				}
				request := fmt.Sprintf("%s=%s", t.Name, differences[i].Wants)
				if !f.isSize {
					request = fmt.Sprintf("%s=%s@%s", t.Name, &t.Size, differences[i].Wants)
				}
				found = append(found, Conflict{set.Name, t.Name, Difference{Path: f.Path, Has: f.Wants, Wants: differences[i].Wants}, request})
			}
		}
	}
	return found
}

// claimField is a field of a resource that concerns a claim template, with the value of the template.
type claimField struct {
	Difference
	isSize bool
}

// fieldsOf returns the fields of the object that concern the template of the set. Fields without a size are left out.
func (r Row) fieldsOf(object *unstructured.Unstructured, set string, template api.TemplateTarget) []claimField {
	var all []claimField
	for _, s := range r.storageOf(template.Name) {
		names := map[string]string{itemOfSet: s.itemOf(object.GetName(), set), itemOfTemplate: template.Name}
		if path, found := chooseItems(object.Object, s.Size, names); found {
			has := textAt(object, path)
			if _, err := bounded.Quantity(has); err == nil {
				all = append(all, claimField{Difference{Path: path, Has: has, Wants: template.Size.String()}, true})
			}
		}
		if path, found := chooseItems(object.Object, s.Class, names); found {
			all = append(all, claimField{Difference{Path: path, Has: textAt(object, path), Wants: template.Class}, false})
		}
	}
	return all
}

// agrees reports whether the object has the value of the template.
func (f claimField) agrees() bool { return f.isValue(f.Has) }

// isValue reports whether the value is that of the template.
func (f claimField) isValue(value string) bool {
	if !f.isSize {
		return value == f.Wants
	}
	a, errA := bounded.Quantity(value)
	b, errB := bounded.Quantity(f.Wants)
	return errA == nil && errB == nil && a.Cmp(b) == 0
}

// grows reports whether the object has a larger size than the template.
func (f claimField) grows() bool {
	has, errHas := bounded.Quantity(f.Has)
	wants, errWants := bounded.Quantity(f.Wants)
	return f.isSize && errHas == nil && errWants == nil && has.Cmp(wants) > 0
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

// Placeholders in a SetName.
const (
	resourceName = "{resource}"
	itemName     = "{item}"
)

// itemOf returns the name of the item that the operator makes the StatefulSet of, or "" if there can be none.
func (s Storage) itemOf(resource, set string) string {
	before, after, _ := strings.Cut(s.SetName, itemName)
	named := strings.NewReplacer(resourceName, resource)
	name, begins := strings.CutPrefix(set, named.Replace(before))
	name, ends := strings.CutSuffix(name, named.Replace(after))
	if s.SetName == "" || !begins || !ends {
		return ""
	}
	return name
}

// Agree returns the patch that writes the values of the templates into the object.
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
			found.add(at+p.field, storagePathMistakes(p.path)...)
		}
		found.add(at+"setName", s.setNameMistakes()...)
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

// storagePathMistakes returns the mistakes in the path of a size or class.
func storagePathMistakes(path string) []string {
	steps := parsePath(path)
	if steps == nil {
		return []string{fmt.Sprintf("%q is not a path below spec, such as spec.size or spec.parts[%s].size", path, itemOfTemplate)}
	}
	if slices.ContainsFunc(steps, func(s step) bool { return s.item != "" && s.item != itemOfSet && s.item != itemOfTemplate }) {
		return []string{fmt.Sprintf("%q must say which item of a list it means; write [%s] or [%s]", path, itemOfSet, itemOfTemplate)}
	}
	return nil
}

// setNameMistakes returns the mistakes in how the StatefulSet of an item is named.
func (s Storage) setNameMistakes() []string {
	example := strings.NewReplacer(resourceName, "a", itemName, "b").Replace(s.SetName)
	switch needed := strings.Contains(s.Size+s.Class, "["+itemOfSet+"]"); {
	case needed && s.SetName == "":
		return []string{fmt.Sprintf("is missing; say how the StatefulSet of an item is named, such as %s-%s", resourceName, itemName)}
	case s.SetName == "":
		return nil
	case !needed:
		return []string{fmt.Sprintf("applies only to paths with [%s]", itemOfSet)}
	case strings.Count(s.SetName, itemName) != 1:
		return []string{fmt.Sprintf("%.63q must have %s once", s.SetName, itemName)}
	case len(validation.IsDNS1123Subdomain(example)) > 0:
		return []string{fmt.Sprintf("%.63q is not how a StatefulSet is named, such as %s-%s", s.SetName, resourceName, itemName)}
	}
	return nil
}
