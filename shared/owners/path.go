package owners

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"drydock.dev/shared/plan"
)

const (
	fieldNamePattern = `[A-Za-z_][A-Za-z0-9_-]*`
	// itemPattern matches a placeholder or an item's name. An index would belong to another item after a change of the list.
	itemPattern = `\*|` + itemOfSet + `|` + itemOfTemplate + `|(?:metadata\.)?name=` + itemNamePattern
	// itemNamePattern matches a name that may be part of a path: it has no brackets.
	itemNamePattern = `[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?`
)

var (
	fieldPath = regexp.MustCompile(`^spec(?:\.` + fieldNamePattern + `(?:\[(?:` + itemPattern + `)\])?)*\.` + fieldNamePattern + `$`)
	fieldStep = regexp.MustCompile(`(` + fieldNamePattern + `)(?:\[(` + itemPattern + `)\])?(?:\.|$)`)
	itemNames = regexp.MustCompile(`^` + itemNamePattern + `$`)
	brackets  = regexp.MustCompile(`\[[^]]*\]`)
)

// Placeholders for items of a list in a path.
const (
	// everyItem stands for all items. It is for settings.
	everyItem = "*"
	// itemOfSet stands for the item that a StatefulSet is made of. It is for the fields of claims, as itemOfTemplate is.
	itemOfSet = "set"
	// itemOfTemplate stands for the item with the name of a claim template.
	itemOfTemplate = "template"
)

// step is one name of a field's path. For a list, item is a placeholder, name=NAME or metadata.name=NAME.
type step struct{ name, item string }

// isOpen reports whether the step does not name its item.
func (s step) isOpen() bool { return s.item != "" && !strings.Contains(s.item, "=") }

// parsePath splits a path into steps. It returns none if the path does not name a field below spec.
func parsePath(path string) []step {
	if !fieldPath.MatchString(path) {
		return nil
	}
	var steps []step
	for _, match := range fieldStep.FindAllStringSubmatch(path, -1) {
		steps = append(steps, step{name: match[1], item: match[2]})
	}
	return steps
}

// withAllItems returns the path with [*] in place of each item's name.
func withAllItems(path string) string { return brackets.ReplaceAllString(path, "["+everyItem+"]") }

// expandItems replaces each [*] of a path with the names of the items in the object. The path done so far leads to the node.
func expandItems(node any, done string, rest []step) ([]string, error) {
	if len(rest) == 0 {
		return []string{done}, nil
	}
	if _, ok := node.(map[string]any); !ok && node != nil {
		return nil, fmt.Errorf("%s is not an object", done)
	}
	next, here := plan.Child(node, rest[0].name), strings.TrimPrefix(done+"."+rest[0].name, ".")
	if rest[0].item != everyItem {
		return expandItems(next, here, rest[1:])
	}
	items, _ := next.([]any)
	if len(items) == 0 {
		return nil, fmt.Errorf("%s has no items", here)
	}
	var all []string
	for i, item := range items {
		name, err := itemKey(items, i)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", here, err)
		}
		paths, err := expandItems(item, here+"["+name+"]", rest[1:])
		if err != nil {
			return nil, err
		}
		all = append(all, paths...)
	}
	return all, nil
}

// chooseItems replaces the placeholders of a path by the items that have their names. It reports false if the object has no such item, or
// several, or if a value on the way is no object. It looks at no other items.
func chooseItems(object map[string]any, path string, names map[string]string) (string, bool) {
	node, done := any(object), ""
	for _, s := range parsePath(path) {
		if _, isObject := node.(map[string]any); !isObject && node != nil {
			return "", false
		}
		node, done = plan.Child(node, s.name), strings.TrimPrefix(done+"."+s.name, ".")
		if s.item == "" {
			continue
		}
		items, _ := node.([]any)
		i, item, found := itemNamed(items, names[s.item])
		if !found {
			return "", false
		}
		node, done = items[i], done+"["+item+"]"
	}
	return done, done != ""
}

// itemNamed returns the index of the item with the name, and the key by which it is found again.
func itemNamed(items []any, name string) (int, string, bool) {
	if !itemNames.MatchString(name) {
		return 0, "", false
	}
	for _, key := range itemKeys {
		item := key + "=" + name
		if i, found := findItem(items, item); found {
			return i, item, true
		}
	}
	return 0, "", false
}

// itemKeys are the keys that may have the name of an item.
var itemKeys = []string{"metadata.name", "name"}

// itemKey returns the key by which the item is found again after other items were put before it.
func itemKey(items []any, i int) (string, error) {
	for _, key := range itemKeys {
		name, ok := nameAt(items[i], key)
		if !ok {
			continue
		}
		if !itemNames.MatchString(name) {
			return "", fmt.Errorf("item %d has the %s %q, which cannot be part of a path", i, key, name)
		}
		item := key + "=" + name
		if _, found := findItem(items, item); !found {
			return "", fmt.Errorf("more than one item has the %s %s", key, name)
		}
		return item, nil
	}
	return "", fmt.Errorf("item %d has no name, so it could not be found again", i)
}

// nameAt returns the text at the key of an item, which is the item's name.
func nameAt(item any, key string) (string, bool) {
	for _, part := range strings.Split(key, ".") {
		item = plan.Child(item, part)
	}
	name, ok := item.(string)
	return name, ok
}

// findItem returns the index of the item with the name (key=name). It reports false if there is none, or more than one.
func findItem(items []any, item string) (int, bool) {
	key, name, _ := strings.Cut(item, "=")
	found, count := 0, 0
	for i := range items {
		if itemName, ok := nameAt(items[i], key); ok && itemName == name {
			found, count = i, count+1
		}
	}
	return found, count == 1
}

// resolvePath returns the field's names and item indexes in the object as it is now. It reports false if an item of the path is missing
// or its name is not unique, so that no other item is written to.
func resolvePath(object map[string]any, path string) ([]string, bool) {
	steps := parsePath(path)
	var names []string
	node := any(object)
	for _, s := range steps {
		names = append(names, s.name)
		node = plan.Child(node, s.name)
		if s.item == "" {
			continue
		}
		items, _ := node.([]any)
		i, found := findItem(items, s.item)
		if !found {
			return nil, false
		}
		names = append(names, strconv.Itoa(i))
		node = items[i]
	}
	return names, len(steps) > 0
}

// valueAt returns the value at the names, or nil.
func valueAt(object map[string]any, names []string) any {
	node := any(object)
	for _, name := range names {
		node = plan.Child(node, name)
	}
	return node
}
