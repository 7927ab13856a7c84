package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drydock.dev/test/kit"
)

// TestPagesNameOnlyWhatExists checks the commands, paths, keys and manifests of all pages of the project.
func TestPagesNameOnlyWhatExists(t *testing.T) {
	root := kit.Root(t)
	project, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}
	pages := kit.Files(t, "*.md")
	for _, name := range pages {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range project.Problems(name, string(text)) {
			t.Error(problem)
		}
	}
	if len(pages) < 20 {
		t.Errorf("only %d pages were found", len(pages))
	}
}

// TestWrongCommandsAreFound: each text has one mistake, and Problems names it. A text without an expectation is right.
func TestWrongCommandsAreFound(t *testing.T) {
	project, err := Read(kit.Root(t))
	if err != nil {
		t.Fatal(err)
	}
	sh := func(script string) string { return "```sh\n" + script + "\n```\n" }
	yaml := func(text string) string { return "```yaml\n" + text + "\n```\n" }
	for name, row := range map[string]struct{ text, want string }{
		"a target":                   {sh("make cluster images"), ""},
		"no target":                  {sh("make demmo"), "no target demmo"},
		"no target in a sentence":    {"Run `make demmo`.", "no target demmo"},
		"a variable of make":         {sh("make cluster SIZE=control-plane"), ""},
		"no variable of make":        {sh("make cluster SIZES=node"), "no variable SIZES"},
		"no overlay":                 {sh("make configure CONFIG=config/overlays/none"), "no config/overlays/none"},
		"a subcommand":               {sh("kubectl drydock plan -n shop sts/web --resize data=5Gi -o yaml"), ""},
		"no subcommand":              {sh("kubectl drydock plam sts/web"), "no subcommand plam"},
		"no flag":                    {sh("kubectl drydock plan sts/web --size data=5Gi"), "unknown flag: --size"},
		"a flag of the wrong type":   {sh("kubectl drydock rollback sts/web --yes=maybe"), "invalid argument"},
		"an argument is missing":     {sh("kubectl drydock wake"), "accepts 1 arg"},
		"not in a sentence":          {"`kubectl drydock wake` shows it, and `kubectl drydock plan --resize` too.", ""},
		"no flag in a sentence":      {"`kubectl drydock plan --size`", "unknown flag: --size"},
		"a flag before the plugin":   {sh("kubectl -n shop drydock status sts/web"), "only behind its name"},
		"a plugin in a loop":         {sh("until kubectl drydock statis sts/web | grep -q x; do sleep 1; done"), "no subcommand statis"},
		"a plugin in a substitution": {sh(`echo "$(kubectl drydock statis sts/web)"`), "no subcommand statis"},
		"a plugin at a prompt":       {"```\n$ kubectl drydock statis sts/web\nkubectl drydock is output\n```\n", "no subcommand statis"},
		"a test":                     {sh("go test -tags cluster -run TestFence ./test/api"), ""},
		"no test":                    {sh("go test -run TestFencing ./test/arch"), "matches no test"},
		"a test of another tag":      {sh("go test -run TestFence ./test/api"), "matches no test"},
		"no benchmark":               {sh("go test -run '^$' -bench Nothing ./test/bench"), "-bench Nothing matches no test"},
		"no package":                 {sh("go test ./test/none"), "no package ./test/none"},
		"no flag of a test":          {sh("cd test/sim\ngo test -tags cluster -sid=7"), "no flag -sid"},
		"no folder":                  {sh("cd test/none"), "no test/none"},
		"no program to build":        {sh("go build ./cmd/none"), "no cmd/none"},
		"no test in a sentence":      {"`TestNothingOfThisName` proves it.", "no test TestNothingOfThisName"},
		"no variable of a program":   {sh("DRYDOCK_" + "NONE=1 make test"), "the variable"},
		"a file":                     {sh("kubectl apply -f examples/first/web.yaml"), ""},
		"no file":                    {sh("kubectl apply -f examples/first/wep.yaml"), "no examples/first/wep.yaml"},
		"no folder behind -k":        {sh("kubectl apply -k config/overlays/none"), "no config/overlays/none"},
		"a file of the reader":       {sh("kubectl apply -f claim.yaml") + yaml("# claim.yaml\napiVersion: v1\nkind: Service"), ""},
		"no file of the reader":      {sh("kubectl apply -f claim.yaml"), "no claim.yaml"},
		"a file that was made":       {sh("mkdir -p mine && echo > mine/a.yaml\nkubectl apply -k mine\nkubectl apply -f mine/a.yaml"), ""},
		"a file of a variable":       {sh("f=backup\nkubectl apply -f deploy/$f/triggers.yaml"), ""},
		"no file of a variable":      {sh("f=backups\nkubectl apply -f deploy/$f/triggers.yaml"), "no deploy/backups/triggers.yaml"},
		"no path in a sentence":      {"See `config/none`.", "no config/none"},
		"no script":                  {sh("deploy/none x | kubectl apply -f -"), "no deploy/none"},
		"no program":                 {sh("kubctl get pods"), "kubctl is not in the table"},
		"an annotation":              {sh("kubectl annotate sts web drydock.dev/resize=data=5Gi drydock.dev/abort-"), ""},
		"no annotation":              {sh("kubectl annotate sts web drydock.dev/resise=data=5Gi"), "no key drydock.dev/resise"},
		"an annotation as a label":   {sh("kubectl label sts web drydock.dev/resize=5Gi"), "is no label"},
		"a label as an annotation":   {sh("kubectl annotate sts web drydock.dev/managed=true"), "is no annotation"},
		"no label of a selector":     {sh("kubectl get pods -l drydock.dev/resize"), "is no label"},
		"no key of a jsonpath":       {sh(`kubectl get sts -o jsonpath='{.annotations.drydock\.dev/state}'`), "no key drydock.dev/state"},
		"no key in a sentence":       {"Write `drydock.dev/resise`.", "no key drydock.dev/resise"},
		"no request":                 {sh("kubectl annotate sts web drydock.dev/resize=data:5Gi"), "data:5Gi"},
		"no rule of growth":          {sh("kubectl annotate sts web drydock.dev/grow=data=over:5Gi"), "over:5Gi"},
		"a manifest": {yaml("apiVersion: drydock.dev/v1alpha1\nkind: Scaler\nmetadata: {name: a}\nspec: {target: a, hooks: {pre: {event: {}}}}"),
			""},
		"no field of a Scaler": {yaml("apiVersion: drydock.dev/v1alpha1\nkind: Scaler\nspec: {targit: a}"), `unknown field "targit"`},
		"no field of a mode":   {yaml("apiVersion: drydock.dev/v1alpha1\nkind: Scaler\nspec: {mode: {auto: {mim: 1}}}"), `unknown field "mim"`},
		"a template of a cleanup": {
			yaml("metadata: {annotations: {drydock.dev/cleanup-pod-template: '{spec: {containers: [{name: a}]}}'}}"), ""},
		"no container of a cleanup": {
			yaml("metadata: {annotations: {drydock.dev/cleanup-pod-template: '{spec: {}}'}}"), "spec.containers is empty"},
		"no success message of a cleanup": {yaml("metadata: {annotations: {drydock.dev/cleanup-pod-template: " +
			"'{metadata: {annotations: {drydock.dev/success-message: \" \"}}, spec: {containers: [{name: a}]}}'}}"), "is blank"},
		"no container of a member's hook": {
			yaml("metadata: {annotations: {drydock.dev/after-member: '{spec: {}}'}}"), "spec.containers is empty"},
		"no field of a hook's pod": {
			yaml("spec: {target: a, hooks: {pre: {job: {template: {spec: {container: []}}}}}}"), `unknown field "container"`},
		"no container of a hook": {yaml("apiVersion: drydock.dev/v1alpha1\nkind: Scaler\n" +
			"spec: {target: a, hooks: {post: {job: {template: {spec: {}}}}}}"), "spec.containers is empty"},
		"no field of a set":    {yaml("apiVersion: apps/v1\nkind: StatefulSet\nspec: {replica: 1}"), `unknown field "spec.replica"`},
		"no kind":              {yaml("apiVersion: apps/v1\nkind: StatefulSets"), "StatefulSets"},
		"no version":           {yaml("apiVersion: apps/v2\nkind: StatefulSet"), "apps/v2"},
		"no key of a manifest": {yaml("metadata: {annotations: {drydock.dev/resise: data=5Gi}}"), "no key drydock.dev/resise"},
		"no YAML":              {yaml("a: [b"), "yaml"},
		"a row of owners": {yaml("- operator: db\n  group: db.example\n  kinds: [{name: Db, plural: dbs}]\n" +
			"  pause: [{field: spec.paused, value: \"true\"}]\n  source: db.go"), ""},
		"no field of a row":    {yaml("- operator: db\n  groop: db.example"), "groop"},
		"a manifest as input":  {sh("kubectl apply -f - <<E\napiVersion: v1\nkind: Service\nspec: {port: 1}\nE"), `unknown field "spec.port"`},
		"no shell":             {sh("echo 'a"), "without closing quote"},
		"no known language":    {"```bash\nmake demmo\n```\n", `language "bash" is not checked`},
		"an exported variable": {sh("export DRYDOCK_" + "NONE=1"), "the variable"},
		"an exported path":     {sh("export f=backups\nkubectl apply -f deploy/$f/triggers.yaml"), "no deploy/backups/triggers.yaml"},
		"an image":             {yaml("data: {DRYDOCK_IMAGE: \"example.com/drydock@sha256:…\"}"), ""},
		"an image with a tag":  {yaml("data: {DRYDOCK_IMAGE: \"dev.local/drydock:dev\", DRYDOCK_ALLOW_TAGS: \"true\"}"), ""},
		"no tag is allowed":    {yaml("data: {DRYDOCK_IMAGE: \"dev.local/drydock:dev\"}"), "has no digest"},
		"no registry":          {sh("func deploy --env DRYDOCK_IMAGE=local/drydock@sha256:…"), "names no registry"},
		"no registry in JSON":  {sh(`echo '{"data":{"DRYDOCK_IMAGE":"local/drydock@sha256:…"}}'`), "names no registry"},
		"an image of install":  {sh("kubectl drydock install --allow-tags --image dev.local/drydock:dev"), ""},
		"no image of install":  {sh("kubectl drydock install --allow-tags --standalone-image local/drydock:dev"), "names no registry"},
		"no end of a block":    {"```sh\ntrue\n", "ends inside a block"},
	} {
		t.Run(name, func(t *testing.T) {
			problems := project.Problems("page.md", row.text)
			got := strings.Join(problems, "\n")
			if len(problems) > 1 || (row.want == "") != (got == "") || !strings.Contains(got, row.want) {
				t.Errorf("%s\n%q, want %q", row.text, problems, row.want)
			}
		})
	}
}
