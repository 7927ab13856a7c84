package cleanup

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

const (
	inJSON = `{"metadata":{"labels":{"app":"cleaner"}},"spec":{"containers":[{"name":"drain","image":"registry.example/drain:1"}]}}`
	inYAML = "spec:\n  containers:\n  - name: drain\n    image: registry.example/drain:1\n"
)

func ours(text string) build.Option { return build.Annotation(api.CleanupTemplateAnnotation, text) }

func older(text string) build.Option {
	return build.Annotation(api.OlderCleanupTemplateAnnotation, text)
}

func annotated(key, value string) build.Option { return build.Annotation(key, value) }

// web is a set with a claim template.
func web(options ...build.Option) *appsv1.StatefulSet {
	return build.Set("web", append([]build.Option{build.Replicas(2), build.Template("data", "64Mi", "fixed")}, options...)...)
}

func keeps(whenScaled, whenDeleted appsv1.PersistentVolumeClaimRetentionPolicyType) build.Option {
	return build.Edit(func(s *appsv1.StatefulSet) {
		s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenScaled: whenScaled, WhenDeleted: whenDeleted}
	})
}

// judged is the problem with the set's template in words, or the image that it runs.
func judged(set *appsv1.StatefulSet) string {
	template, problem := Template(set)
	if problem != nil {
		if template != nil {
			return "a template and a problem"
		}
		return string(problem.Reason) + ": " + problem.Message
	}
	return template.Spec.Containers[0].Image
}

func TestTemplate(t *testing.T) {
	const (
		image  = "registry.example/drain:1"
		retain = statefulset.Retain
		gone   = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	)
	with := func(more string) build.Option {
		return ours(`{"spec":{"containers":[{"name":"drain","image":"` + image + `"}]` + more + `}}`)
	}
	labelled := func(labels string) build.Option {
		return ours(`{"metadata":{"labels":` + labels + `},"spec":{"containers":[{"name":"drain","image":"` + image + `"}]}}`)
	}
	onDelete := annotated(api.CleanupOnDeleteAnnotation, "true")
	expression := build.Edit(func(s *appsv1.StatefulSet) {
		s.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "role", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"tool"}}}}
	})
	cases := map[string][]build.Option{
		"JSON":                               {ours(inJSON)},
		"YAML":                               {ours(inYAML)},
		"the older key":                      {older(inJSON)},
		"both keys, ours wins":               {older("{"), ours(inYAML)},
		"both keys, ours is wrong":           {older(inJSON), ours(`{"spec":{}}`)},
		"ours is empty, the older one is it": {older(inJSON), ours("")},
		"no text":                            {ours("words")},
		"not even YAML, under the older key": {older("{")},
		"a field that does not exist":        {with(`,"contaners":[]`)},
		"a field twice":                      {ours("spec: {}\nspec: {}\n")},
		"a quantity that takes minutes":      {ours("spec: {containers: [{resources: {limits: {cpu: '1e-99999999'}}}]}")},
		"an anchor":                          {ours("metadata: {labels: {a: &a b, c: *a}}")},
		"null":                               {ours("null")},
		"restartPolicy OnFailure":            {with(`,"restartPolicy":"OnFailure"`)},
		"restartPolicy Never":                {with(`,"restartPolicy":"Never"`)},
		"restartPolicy Always":               {with(`,"restartPolicy":"Always"`)},
		"no containers":                      {ours(`{"spec":{"initContainers":[{"name":"a"}]}}`)},
		"labels of others":                   {labelled(`{"app":"web-cleanup"}`)},
		"I9: labels that match the selector": {labelled(`{"app":"web","more":"1"}`)},
		"no labels, but an expression that matches them": {ours(inYAML), expression},
		"labels that the expression excludes":            {labelled(`{"role":"tool"}`), expression},
		"a volume of another name":                       {with(`,"volumes":[{"name":"tmp","emptyDir":{}}]`)},
		"a volume named like a claim template":           {with(`,"volumes":[{"name":"tmp","emptyDir":{}},{"name":"data","emptyDir":{}}]`)},
		"the second claim template's name":               {build.Template("logs", "1Mi", "fixed"), with(`,"volumes":[{"name":"logs","emptyDir":{}}]`)},
		"a scale-down keeps the claims":                  {ours(inYAML), keeps(retain, "")},
		"a scale-down deletes the claims":                {older(inYAML), keeps(gone, retain)},
		"a deletion deletes the claims":                  {ours(inYAML), keeps(retain, gone)},
		"the same, with cleanup-on-delete":               {ours(inYAML), keeps("", gone), onDelete},
		"cleanup-on-delete":                              {ours(inYAML), keeps("", retain), onDelete},
		"cleanup-on-delete that is not true":             {ours(inYAML), keeps("", gone), annotated(api.CleanupOnDeleteAnnotation, "yes")},
		"on scale-up: wait":                              {ours(inYAML), annotated(api.CleanupOnScaleUpAnnotation, "wait")},
		"on scale-up: cancel":                            {ours(inYAML), annotated(api.CleanupOnScaleUpAnnotation, "cancel")},
		"on scale-up: something else":                    {ours(inYAML), annotated(api.CleanupOnScaleUpAnnotation, "Wait")},
		"on scale-up: a novel":                           {ours(inYAML), annotated(api.CleanupOnScaleUpAnnotation, strings.Repeat("é", 100))},
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) { file.Entry(t, name, judged(web(cases[name]...))) })
	}
}

// TestMessagesAreShort: what people write comes back in an annotation and in a Kubernetes Event.
func TestMessagesAreShort(t *testing.T) {
	for name, text := range map[string]string{
		"a long string":       strings.Repeat("x", 200<<10),
		"many unknown fields": "{" + `"` + strings.Repeat("f", 9000) + `":1` + "}",
		"an unknown value":    `{"spec":{"containers":"` + strings.Repeat("é", 50<<10) + `"}}`,
		"deep":                strings.Repeat("[", 9000),
		"an anchor that grows": "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
			"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n",
		"not UTF-8":      "{\"spec\":\"\xff\xfe\"}",
		"lines":          "spec:\n  a: 1\n  b: 2\n  a: 3\n  b: 4\n",
		"zero":           "\x00",
		"nothing at all": "---",
	} {
		t.Run(name, func(t *testing.T) {
			_, problem := Template(web(ours(text)))
			if problem == nil || len(problem.Message) > 800 || strings.Contains(problem.Message, "\n") || !utf8.ValidString(problem.Message) {
				t.Errorf("%+v", problem)
			}
		})
	}
}

func FuzzTemplate(f *testing.F) {
	for _, text := range []string{inJSON, inYAML, "", "{", "null", "[]", "spec:", `{"spec":{"containers":[null]}}`, `{"spec":{"volumes":[{"name":"data"}],"containers":[{}]}}`,
		"spec: &a\n  containers: [*a]", "\x00", "\xff", "!!binary AA=="} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		set := web(ours(text))
		template, problem := Template(set)
		switch {
		case (template == nil) == (problem == nil):
			t.Fatalf("template %v, problem %v", template, problem)
		case problem != nil && (problem.Reason == "" || len(problem.Message) > 1000 || !utf8.ValidString(problem.Message)):
			t.Errorf("%+v", problem)
		case template != nil && (len(template.Spec.Containers) == 0 || statefulset.Selects(set, template.Labels)):
			t.Errorf("%+v", template)
		}
		if len(Digest(set)) != 12 && text != "" {
			t.Errorf("digest %q", Digest(set))
		}
	})
}

func TestAsked(t *testing.T) {
	for name, row := range map[string]struct {
		set  *appsv1.StatefulSet
		want bool
	}{
		"a template":                        {web(ours(inYAML)), true},
		"the older key":                     {web(older(inYAML)), true},
		"none":                              {web(), false},
		"an empty one":                      {web(ours("")), false},
		"a template, but there is no claim": {build.Set("web", ours(inYAML)), false},
	} {
		if got := statefulset.CleanupAsked(row.set); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
		if asked := Digest(row.set) != ""; asked != row.want {
			t.Errorf("%s: digest %q", name, Digest(row.set))
		}
	}
}

// TestDigest: it changes with everything that decides how a set is cleaned up, and with nothing else.
func TestDigest(t *testing.T) {
	was := Digest(web(ours(inYAML)))
	for name, row := range map[string]struct {
		option build.Option
		same   bool
	}{
		"nothing changed":            {build.Annotation("team", "data"), true},
		"other replicas":             {build.Replicas(7), true},
		"another UID":                {build.UID("uid-2"), true},
		"retain in so many words":    {keeps(statefulset.Retain, statefulset.Retain), true},
		"another template":           {ours(inYAML + "\n"), false},
		"the older key beside it":    {older("x"), true},
		"a scale-down deletes":       {keeps("Delete", ""), false},
		"a deletion deletes":         {keeps("", "Delete"), false},
		"cancel on scale-up":         {annotated(api.CleanupOnScaleUpAnnotation, "cancel"), false},
		"cleaned up when deleted":    {annotated(api.CleanupOnDeleteAnnotation, "true"), false},
		"parts that run into others": {annotated(api.CleanupOnScaleUpAnnotation, "4:true"), false},
	} {
		if same := Digest(web(ours(inYAML), row.option)) == was; same != row.same {
			t.Errorf("%s: same %t", name, same)
		}
	}
	// Frozen: a new version must not take every set's template for a new one.
	if was != "610db8950ae8" {
		t.Errorf("the digest has changed: %s", was)
	}
	a, b := web(ours(inYAML), annotated(api.CleanupOnScaleUpAnnotation, "x")), web(ours(inYAML), annotated(api.CleanupOnDeleteAnnotation, "x"))
	if Digest(a) == Digest(b) {
		t.Error("a value counts the same wherever it is")
	}
}

func TestWhatIsAskedBesideTheTemplate(t *testing.T) {
	cancel := annotated(api.CleanupOnScaleUpAnnotation, "cancel")
	if Cancels(web()) || !Cancels(web(cancel)) || Cancels(web(annotated(api.CleanupOnScaleUpAnnotation, "wait"))) {
		t.Error("cancel is cancel, and nothing else is")
	}
	if Finalized(web()) || !Finalized(web(build.Finalizers("a", api.CleanupFinalizer, "b"))) || Finalized(web(build.Finalizers("a"))) {
		t.Error("the finalizer is ours wherever it stands")
	}
	onDelete := annotated(api.CleanupOnDeleteAnnotation, "true")
	for name, row := range map[string]struct {
		options []build.Option
		want    bool
	}{
		"asked":                          {[]build.Option{onDelete}, true},
		"asked, without a template, too": {[]build.Option{onDelete, ours("")}, true},
		"not asked":                      {nil, false},
		"asked in other words":           {[]build.Option{annotated(api.CleanupOnDeleteAnnotation, "True")}, false},
		"not opted in":                   {[]build.Option{onDelete, build.Label(api.ManagedLabel, "")}, false},
		"a deletion deletes the claims":  {[]build.Option{onDelete, keeps("", "Delete")}, false},
		"a scale-down deletes them":      {[]build.Option{onDelete, keeps("Delete", "")}, true},
	} {
		if got := Finalizes(web(row.options...)); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestClip(t *testing.T) {
	for text, want := range map[string]string{"": "", "abcd": "abcd", "abcde": "abcd…", "abcé": "abc…", "éé": "éé", "ééé": "éé…"} {
		if got := clip(text, 4); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
