package owners

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/shared/api"
)

// mistake is what is wrong with a field of a row, as it is called in the text of a ConfigMap.
type mistake struct{ field, text string }

// mistakes collects them.
type mistakes []mistake

func (m *mistakes) add(field string, texts ...string) {
	for _, text := range texts {
		*m = append(*m, mistake{field, text})
	}
}

// mistakes are the reasons why the row could not be worked with, or would be a danger.
func (r Row) mistakes() mistakes {
	var found mistakes
	found.add("operator", operatorMistakes(r.Operator)...)
	found.add("group", groupMistakes(r.Group)...)
	if len(r.Kinds) == 0 {
		found.add("kinds", "there are none")
	}
	for i, k := range r.Kinds {
		found.add(fmt.Sprintf("kinds[%d].name", i), kindMistakes(k.Name)...)
		found.add(fmt.Sprintf("kinds[%d].plural", i), pluralMistakes(k.Plural)...)
	}
	switch settings := len(r.Pause) + len(r.Stop); {
	case settings == 0 && !r.Up:
		found.add("pause", "the row has neither pause nor stop nor up")
	case settings > 0 && r.Up:
		found.add("up", "what is written through the resource that controls it has no pause and no stop of its own")
	}
	switch {
	case r.Resume != "" && r.Resume != AtScaled && r.Resume != AtReady:
		found.add("resume", fmt.Sprintf("%.63q is unknown; write %s or %s", r.Resume, AtScaled, AtReady))
	case r.Resume != "" && len(r.Pause) == 0:
		found.add("resume", "only the end of a pause can be chosen, and the row has no pause")
	}
	return slices.Concat(found, settingMistakes(ByPause, r.Pause), settingMistakes(ByStop, r.Stop))
}

func settingMistakes(by Means, settings []Setting) mistakes {
	var found mistakes
	for i, s := range settings {
		path := fmt.Sprintf("%s[%d].", by, i)
		for _, m := range s.mistakes() {
			found.add(path+m.field, m.text)
		}
		if slices.ContainsFunc(settings[:i], func(o Setting) bool { return o.In == s.In && o.Key == s.Key }) {
			found.add(path+string(s.In), "it is there twice")
		}
	}
	return found
}

func operatorMistakes(name string) []string {
	switch name {
	case "":
		return []string{"is missing"}
	case "all":
		return []string{"all is the word for every operator; take another name"}
	}
	return validation.IsDNS1123Label(name)
}

// groupMistakes refuses the groups of Kubernetes itself: no row may make Drydock write Roles or webhooks. A definition's
// group has a dot (apiextensions), and k8s.io is Kubernetes' own.
func groupMistakes(group string) []string {
	switch {
	case group == "":
		return []string{"is missing; the core group has no operators"}
	case !strings.Contains(group, "."), within(group, "k8s.io"), within(group, "kubernetes.io"):
		return []string{fmt.Sprintf("%q is one of Kubernetes' own, which has no operators", group)}
	case within(group, strings.TrimSuffix(api.Prefix, "/")):
		return []string{"it is Drydock's own"}
	}
	return validation.IsDNS1123Subdomain(group)
}

func within(name, domain string) bool { return name == domain || strings.HasSuffix(name, "."+domain) }

// kindMistakes are those that the API server finds in a definition. Most kinds begin with a capital, but not all do.
func kindMistakes(kind string) []string {
	if kind == "" {
		return []string{"is missing"}
	}
	return validation.IsDNS1035Label(strings.ToLower(kind))
}

// pluralMistakes: a plural is a part of the definition's name, so no wildcard and no subresource.
func pluralMistakes(plural string) []string {
	if plural == "" {
		return []string{"is missing"}
	}
	return validation.IsDNS1035Label(plural)
}

// mistakes are the reasons why the API server would refuse or drop the setting, or why it must not be made.
func (s Setting) mistakes() mistakes {
	var found mistakes
	switch s.In {
	case Annotation, Label:
		found.add(string(s.In), keyMistakes(s.Key)...)
	case Field:
		if stepsOf(s.Key) == nil || general(s.Key) != s.Key {
			found.add("field", fmt.Sprintf("%q is not a path below spec, as spec.paused or spec.parts[*].paused", s.Key))
		}
		if s.Presence {
			found.add("presence", "a field counts by its value")
		}
	}
	found.add("value", s.valueMistakes()...)
	return found
}

func keyMistakes(key string) []string {
	if strings.HasPrefix(key, api.Prefix) {
		return []string{fmt.Sprintf("%q is Drydock's own", key)}
	}
	return validation.IsQualifiedName(key)
}

func (s Setting) valueMistakes() []string {
	switch value := s.Value.(type) {
	case nil:
		return []string{"is missing"}
	case string:
		if value == "" {
			return []string{"is empty"}
		}
		if s.In == Label {
			return validation.IsValidLabelValue(value)
		}
		return nil
	case bool, int64:
		if s.In == Field {
			return nil
		}
		return []string{fmt.Sprintf("an annotation and a label have a text; write %q", fmt.Sprint(value))}
	}
	return []string{"it has to be a text, true, false or a whole number"}
}
