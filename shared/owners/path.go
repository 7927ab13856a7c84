package owners

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"drydock.dev/shared/plan"
)

const (
	fieldName = `[A-Za-z_][A-Za-z0-9_-]*`
	// anItem is [*] for each item of a list, or its name: an index would be another item's when the list has changed.
	anItem = `\*|(?:metadata\.)?name=` + itemName
	// itemName is what may stand in a path: no brackets.
	itemName = `[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?`
)

var (
	fieldPath = regexp.MustCompile(`^spec(?:\.` + fieldName + `(?:\[(?:` + anItem + `)\])?)*\.` + fieldName + `$`)
	fieldStep = regexp.MustCompile(`(` + fieldName + `)(?:\[(` + anItem + `)\])?(?:\.|$)`)
	itemNames = regexp.MustCompile(`^` + itemName + `$`)
	brackets  = regexp.MustCompile(`\[[^]]*\]`)
)

// each is the item of a step that stands for all of a list's.
const each = "*"

// step is one name of a field's path, with the item if it is a list's: each, or name=NAME or metadata.name=NAME.
type step struct{ name, item string }

// stepsOf takes a path apart. It has none if it is not the path of a field below spec.
func stepsOf(path string) []step {
	if !fieldPath.MatchString(path) {
		return nil
	}
	var steps []step
	for _, match := range fieldStep.FindAllStringSubmatch(path, -1) {
		steps = append(steps, step{name: match[1], item: match[2]})
	}
	return steps
}

// general is the path with [*] for the items of lists.
func general(path string) string { return brackets.ReplaceAllString(path, "["+each+"]") }

// expand puts the names of the items in the place of each [*] in a path. What was done so far leads to the node.
func expand(node any, done string, rest []step) ([]string, error) {
	if len(rest) == 0 {
		return []string{done}, nil
	}
	if _, ok := node.(map[string]any); !ok && node != nil {
		return nil, fmt.Errorf("%s is no object", done)
	}
	next, here := plan.Child(node, rest[0].name), strings.TrimPrefix(done+"."+rest[0].name, ".")
	if rest[0].item != each {
		return expand(next, here, rest[1:])
	}
	items, _ := next.([]any)
	if len(items) == 0 {
		return nil, fmt.Errorf("%s has no items", here)
	}
	var all []string
	for i, item := range items {
		name, err := nameOf(items, i)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", here, err)
		}
		paths, err := expand(item, here+"["+name+"]", rest[1:])
		if err != nil {
			return nil, err
		}
		all = append(all, paths...)
	}
	return all, nil
}

// nameOf is what the item is found by again, when others have been put before it.
func nameOf(items []any, i int) (string, error) {
	for _, key := range []string{"metadata.name", "name"} {
		name, ok := called(items[i], key)
		if !ok {
			continue
		}
		if !itemNames.MatchString(name) {
			return "", fmt.Errorf("item %d has the %s %q, which cannot stand in a path", i, key, name)
		}
		item := key + "=" + name
		if _, found := indexOf(items, item); !found {
			return "", fmt.Errorf("more than one item has the %s %s", key, name)
		}
		return item, nil
	}
	return "", fmt.Errorf("item %d has no name, so it would not be found again", i)
}

// called is the item's name: a text at the key.
func called(item any, key string) (string, bool) {
	for _, part := range strings.Split(key, ".") {
		item = plan.Child(item, part)
	}
	name, ok := item.(string)
	return name, ok
}

// indexOf returns the index of the item that has the name (key=name). It reports false if there is none, or another one too.
func indexOf(items []any, item string) (int, bool) {
	key, name, _ := strings.Cut(item, "=")
	found, count := 0, 0
	for i := range items {
		if is, ok := called(items[i], key); ok && is == name {
			found, count = i, count+1
		}
	}
	return found, count == 1
}

// pointer leads to the field in the object as it is now: names, and indexes of items. It reports false if an item of the
// path is not there, or not the only one of its name: nothing is written into another one.
func pointer(object map[string]any, path string) ([]string, bool) {
	steps := stepsOf(path)
	var names []string
	node := any(object)
	for _, s := range steps {
		names = append(names, s.name)
		node = plan.Child(node, s.name)
		if s.item == "" {
			continue
		}
		items, _ := node.([]any)
		i, found := indexOf(items, s.item)
		if !found {
			return nil, false
		}
		names = append(names, strconv.Itoa(i))
		node = items[i]
	}
	return names, len(steps) > 0
}

// at is what the object has there; nil if nothing.
func at(object map[string]any, names []string) any {
	node := any(object)
	for _, name := range names {
		node = plan.Child(node, name)
	}
	return node
}
