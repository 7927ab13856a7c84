package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// missing returns the expected names that are not among the present ones.
func missing(expected, present []string) []string {
	return slices.DeleteFunc(slices.Clone(expected), func(name string) bool { return slices.Contains(present, name) })
}

// shown is how many names a message lists.
const shown = 6

// list returns the names as a text. It lists some and counts the others.
func list(names []string) string {
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

// count returns the number with the noun, in the plural if it is not 1.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
