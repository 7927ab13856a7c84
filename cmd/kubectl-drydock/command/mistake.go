package command

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/shared/bounded"
)

// lacksClass matches a part of a request with an @ that no StorageClass follows.
var lacksClass = regexp.MustCompile(`^([^@]+)@($|[%:].*$)`)

// explainMistake returns an error with the text to write instead, if the request has a usual mistake. Otherwise it returns the given error.
func (t *tool) explainMistake(ctx context.Context, set, request string, err error) error {
	for part := range strings.SplitSeq(request, ",") {
		if found := lacksClass.FindStringSubmatch(part); found != nil {
			return fmt.Errorf("%q names no StorageClass after the @. Write %s%s, or name the class: %s@CLASS%s", part, found[1], found[2], found[1],
				found[2])
		}
		size, _, _ := strings.Cut(strings.TrimSuffix(part, "+"), "@")
		if _, notASize := bounded.Quantity(size); notASize != nil {
			continue
		}
		templates := t.templatesOf(ctx, set)
		switch len(templates) {
		case 0:
			return fmt.Errorf("%q names no volumeClaimTemplate. Write TEMPLATE=%s", part, part)
		case 1:
			return fmt.Errorf("%q names no volumeClaimTemplate. Write %s=%s", part, templates[0], part)
		}
		return fmt.Errorf("%q names no volumeClaimTemplate. Write one of %s before it, for example %s=%s", part, strings.Join(templates, ", "),
			templates[0], part)
	}
	return err
}

// templatesOf returns the names of the set's volumeClaimTemplates. It returns none if the set cannot be read: they only improve an error.
func (t *tool) templatesOf(ctx context.Context, argument string) []string {
	s, err := t.open(argument)
	if err != nil {
		return nil
	}
	set, err := s.live(ctx)
	if err != nil {
		return nil
	}
	var names []string
	for i := range set.Spec.VolumeClaimTemplates {
		if name := set.Spec.VolumeClaimTemplates[i].Name; len(validation.IsDNS1123Label(name)) == 0 { // a name becomes a word of a command
			names = append(names, name)
		}
	}
	return names
}
