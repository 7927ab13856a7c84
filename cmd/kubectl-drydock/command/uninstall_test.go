package command

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"drydock.dev/cmd/kubectl-drydock/install"
	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

// plurals are the kinds of an installation that the API server of these tests has.
var plurals = map[string]string{"NetworkPolicy": "networkpolicies", "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
	"ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings"}

func pluralOf(kind string) string {
	if plural, irregular := plurals[kind]; irregular {
		return plural
	}
	return strings.ToLower(kind) + "s"
}

// installedCluster is an API server with an installation and the objects of users.
type installedCluster struct {
	build.Lists
	mu      sync.Mutex
	parts   map[string]bool // the paths of the objects of the installation
	groups  map[string]map[string]metav1.APIResource
	deleted []string          // kind/name, in order
	wrote   []string          // names of patched objects
	denied  string            // the kind that may not be deleted
	onGone  map[string]func() // what happens when an object of the kind is deleted
	scalers []any
	helm    [2]string       // the name and the namespace of the release that the Deployment names
	slow    string          // the kind whose objects end only after a look
	ending  map[string]bool // the paths of deleted objects of that kind
}

func newInstalledCluster(t *testing.T) *installedCluster {
	t.Helper()
	objects, err := install.Render(install.Options{Mode: install.Standalone, Image: "none:none", StandaloneImage: "none:none"})
	if err != nil {
		t.Fatal(err)
	}
	c := &installedCluster{Lists: build.EmptyLists(), parts: map[string]bool{}, groups: map[string]map[string]metav1.APIResource{},
		onGone: map[string]func(){}, ending: map[string]bool{}}
	for _, object := range objects {
		version := object.GetAPIVersion()
		if c.groups[version] == nil {
			c.groups[version] = map[string]metav1.APIResource{}
		}
		c.groups[version][object.GetKind()] = metav1.APIResource{Name: pluralOf(object.GetKind()), Kind: object.GetKind(),
			Namespaced: object.GetNamespace() != "", Verbs: metav1.Verbs{"get", "delete"}}
		c.parts[c.pathOf(object)] = true
	}
	return c
}

func (c *installedCluster) pathOf(object *unstructured.Unstructured) string {
	at := "/apis/" + object.GetAPIVersion()
	if object.GetAPIVersion() == "v1" {
		at = "/api/v1"
	}
	if object.GetNamespace() != "" {
		at += "/namespaces/" + object.GetNamespace()
	}
	return at + "/" + pluralOf(object.GetKind()) + "/" + object.GetName()
}

// ServeHTTP answers like an API server.
func (c *installedCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	plural := path.Base(path.Dir(r.URL.Path))
	switch {
	case r.Method == http.MethodPatch:
		c.wrote = append(c.wrote, plural+"/"+path.Base(r.URL.Path))
		answer(w, http.StatusOK, tree{"metadata": tree{"resourceVersion": "1"}})
	case strings.HasSuffix(r.URL.Path, "/drydock.dev/v1alpha1/scalers"):
		list := listOf(c.scalers...)
		list["apiVersion"], list["kind"] = "drydock.dev/v1alpha1", "ScalerList"
		answer(w, http.StatusOK, list)
	case !c.discovers(w, r.URL.Path) && !c.part(w, r, plural):
		c.Lists.ServeHTTP(w, r)
	}
}

// discovers answers requests for the kinds of the server.
func (c *installedCluster) discovers(w http.ResponseWriter, at string) bool {
	groups := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for version, kinds := range c.groups {
		if at == "/apis/"+version || at == "/api/"+version {
			list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: version}
			for _, kind := range kinds {
				list.APIResources = append(list.APIResources, kind)
			}
			answer(w, http.StatusOK, list)
			return true
		}
		if group, v, found := strings.Cut(version, "/"); found {
			one := metav1.GroupVersionForDiscovery{GroupVersion: version, Version: v}
			groups.Groups = append(groups.Groups, metav1.APIGroup{Name: group, PreferredVersion: one,
				Versions: []metav1.GroupVersionForDiscovery{one}})
		}
	}
	switch at {
	case "/api":
		answer(w, http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}, Versions: []string{"v1"}})
	case "/apis":
		answer(w, http.StatusOK, groups)
	default:
		return false
	}
	return true
}

// part answers requests for objects of the installation.
func (c *installedCluster) part(w http.ResponseWriter, r *http.Request, plural string) bool {
	isDelete := r.Method == http.MethodDelete
	switch {
	case isDelete && plural == c.denied:
		answer(w, http.StatusForbidden, tree{"kind": "Status", "apiVersion": "v1", "reason": "Forbidden", "code": 403})
	case isDelete && (c.parts[r.URL.Path] || plural == "controllerrevisions"):
		delete(c.parts, r.URL.Path)
		c.ending[r.URL.Path] = plural == c.slow
		c.deleted = append(c.deleted, plural+"/"+path.Base(r.URL.Path))
		if happens := c.onGone[plural]; happens != nil {
			happens()
		}
		answer(w, http.StatusOK, tree{"kind": "Status", "apiVersion": "v1", "status": "Success"})
	case c.parts[r.URL.Path] || c.ending[r.URL.Path]:
		c.ending[r.URL.Path] = false
		metadata := tree{"name": path.Base(r.URL.Path)}
		if plural == "deployments" && c.helm[0] != "" {
			metadata["labels"] = tree{"app.kubernetes.io/managed-by": "Helm"}
			metadata["annotations"] = tree{"meta.helm.sh/release-name": c.helm[0], "meta.helm.sh/release-namespace": c.helm[1]}
		}
		answer(w, http.StatusOK, objectOf(tree{"metadata": metadata}))
	case isDelete || plural == "deployments" || plural == "services":
		answer(w, http.StatusNotFound, tree{"kind": "Status", "apiVersion": "v1", "reason": "NotFound", "code": 404})
	default:
		for _, p := range c.groups {
			for _, kind := range p {
				if kind.Name == plural && plural != "namespaces" && plural != "configmaps" {
					answer(w, http.StatusNotFound, tree{"kind": "Status", "apiVersion": "v1", "reason": "NotFound", "code": 404})
					return true
				}
			}
		}
		return false
	}
	return true
}

func (c *installedCluster) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	t.Setenv("HOME", t.TempDir()) // the cache of the discovery
	server := httptest.NewTLSServer(c)
	defer server.Close()
	useServer(t, server.URL)
	var out bytes.Buffer
	root := newAt(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out}, func() time.Time { return build.Now })
	root.SetArgs(append(args, "-n", "shop"))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func (c *installedCluster) has(part string) bool {
	for p := range c.parts {
		if strings.HasSuffix(p, part) {
			return true
		}
	}
	return false
}

func TestUninstallRemovesEverything(t *testing.T) {
	c := newInstalledCluster(t)
	out, err := c.run(t, "uninstall", "--yes")
	if err != nil || len(c.parts) > 0 {
		t.Errorf("%v, left %v\n%s", err, c.parts, out)
	}
}

// TestUninstallReleasesWhatBeganMeanwhile: until the functions have ended, they put sets to sleep and hold pods. Nothing else could wake
// and release those afterwards.
func TestUninstallReleasesWhatBeganMeanwhile(t *testing.T) {
	asleep := build.Set("web", build.Replicas(0), build.WithSleep(build.Sleep(api.Asleep)))
	moving := build.Set("web", build.Status(build.Operation(api.Moving)))
	c := newInstalledCluster(t)
	c.onGone["deployments"] = func() { c.Lists["statefulsets"] = []metav1.Object{asleep} }
	if out, err := c.run(t, "uninstall", "--yes"); err != nil || len(c.wrote) != 1 || c.wrote[0] != "statefulsets/web" || len(c.parts) > 0 {
		t.Errorf("a set fell asleep: %v, wrote %v, left %v\n%s", err, c.wrote, c.parts, out)
	}
	c = newInstalledCluster(t)
	c.onGone["deployments"] = func() { c.Lists["statefulsets"] = []metav1.Object{moving} }
	out, err := c.run(t, "uninstall", "--yes")
	if err == nil || !strings.Contains(err.Error(), "kubectl drydock install") || !c.has("/namespaces/drydock") || len(c.wrote) > 0 {
		t.Errorf("a resize began: %v, wrote %v\n%s", err, c.wrote, out)
	}
}

// TestReleaseResumesAnOwnerCreatedAgain: the paused owner was created again from its own manifest, or restored from a backup, with the
// pause in it. The release deletes the record, so nothing would resume the owner later. Another owner with the name is left alone.
func TestReleaseResumesAnOwnerCreatedAgain(t *testing.T) {
	pause := api.Pause{Version: api.PauseVersion, Settings: []api.PausedSetting{{In: "field", Key: "spec.suspend", Value: true}},
		Holders: []api.Holder{{Operation: build.SleepID, Set: "web"}}}
	other := pause
	other.Holders = []api.Holder{{Operation: "another", Set: "web"}}
	for situation, row := range map[string]struct {
		uid     types.UID
		pause   api.Pause
		resumed bool
	}{
		"the same owner":                             {"uid-main", pause, true},
		"the owner was created again":                {"uid-new", pause, true},
		"another owner, paused by another operation": {"uid-new", other, false},
	} {
		owner := &unstructured.Unstructured{Object: tree{"spec": tree{"suspend": true}}}
		owner.SetAPIVersion("k8s.mariadb.com/v1alpha1")
		owner.SetKind("MariaDB")
		owner.SetNamespace("shop")
		owner.SetName("main")
		owner.SetUID(row.uid)
		owner.SetResourceVersion("7")
		owner.SetAnnotations(map[string]string{api.OwnerPausedAnnotation: row.pause.Encode()})
		set := build.Set("web", build.Replicas(3), build.WithSleep(build.Sleep(api.Succeeded)))
		record := resources.MakeOwnerRecord(set, build.Sleep(api.Asleep), api.PausedOwner{Version: api.PauseVersion,
			APIVersion: "k8s.mariadb.com/v1alpha1", Kind: "MariaDB", Resource: "mariadbs", Name: "main", UID: "uid-main"})
		record.UID, record.ResourceVersion = "uid-record", "9"
		c := &changing{Lists: build.EmptyLists()}
		c.Lists["statefulsets"] = []metav1.Object{set}
		c.Lists["controllerrevisions"] = []metav1.Object{record}
		c.Lists["mariadbs"] = []metav1.Object{owner}
		out, err := c.run(t, "release --yes")
		if resumed := strings.Contains(strings.Join(c.wrote, "\n"), "owner-paused"); resumed != row.resumed {
			t.Errorf("%s: resumed %t, want %t: %v\n%s", situation, resumed, row.resumed, err, out)
		}
	}
}

// TestUninstallContinuesAfterAFailure: the second run removes the objects that the first one could not remove.
func TestUninstallContinuesAfterAFailure(t *testing.T) {
	c := newInstalledCluster(t)
	c.denied = "clusterroles"
	if out, err := c.run(t, "uninstall", "--yes"); err == nil || !c.has("/namespaces/drydock") || c.has("deployments/drydock-standalone") {
		t.Errorf("%v, left %v\n%s", err, c.parts, out)
	}
	c.denied = ""
	if out, err := c.run(t, "uninstall", "--yes"); err != nil || len(c.parts) > 0 {
		t.Errorf("%v, left %v\n%s", err, c.parts, out)
	}
}

// TestUninstallSaysThatScalersStay, because their kind does: its removal would delete them.
func TestUninstallSaysThatScalersStay(t *testing.T) {
	c := newInstalledCluster(t)
	c.scalers = []any{tree{"metadata": tree{"name": "pilot", "namespace": "shop"}, "spec": tree{"target": "web"}}}
	out, err := c.run(t, "uninstall", "--yes")
	if err != nil || len(c.parts) != 1 || !strings.Contains(out, "kubectl delete crd scalers.drydock.dev") {
		t.Errorf("%v, left %v\n%s", err, c.parts, out)
	}
}

// TestUninstallWaitsForAScaling: its hooks may be moving data away from members that it will remove.
func TestUninstallWaitsForAScaling(t *testing.T) {
	record := &api.Scale{Header: build.Operation(api.Moving).Header, Previous: 3, Target: 1}
	record.Kind, record.Phase = api.KindScale, api.PreScaling
	c := newInstalledCluster(t)
	c.Lists["statefulsets"] = []metav1.Object{build.Set("web", build.Annotation(api.ScaleAnnotation, record.Encode()))}
	if out, err := c.run(t, "uninstall", "--yes"); err == nil || len(c.wrote)+len(c.deleted) > 0 {
		t.Errorf("%v, wrote %v, deleted %v\n%s", err, c.wrote, c.deleted, out)
	}
	if out, err := c.run(t, "release", "--yes", "--holds"); err != nil || len(c.wrote) != 1 {
		t.Errorf("no function runs any more: %v, wrote %v\n%s", err, c.wrote, out)
	}
}

// TestUninstallCountsWhatExists: an installation may be incomplete.
func TestUninstallCountsWhatExists(t *testing.T) {
	c := newInstalledCluster(t)
	for at := range c.parts {
		if !strings.HasSuffix(at, "/namespaces/drydock") && !strings.HasSuffix(at, "/deployments/drydock-standalone") {
			delete(c.parts, at)
		}
	}
	out, err := c.run(t, "uninstall")
	if err != nil || len(c.parts) != 2 || !strings.Contains(out, "\n2 objects of Drydock would be removed.") {
		t.Errorf("%v, left %v\n%s", err, c.parts, out)
	}
}

func TestUninstallSaysWhatItWaitsFor(t *testing.T) {
	c := newInstalledCluster(t)
	c.slow = "namespaces"
	out, err := c.run(t, "uninstall", "--yes")
	if err != nil || strings.Count(out, "Waiting") != 1 || !strings.Contains(out, "Waiting until namespace drydock is gone\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestUninstallLeavesTheObjectsOfHelm: without them, the record of the Helm release would stay, and prevent the next installation.
func TestUninstallLeavesTheObjectsOfHelm(t *testing.T) {
	const command = "helm uninstall keel -n default --kube-context=prod"
	c := newInstalledCluster(t)
	c.helm = [2]string{"keel", "default"}
	c.Lists["statefulsets"] = []metav1.Object{build.Set("web", build.Replicas(0), build.WithSleep(build.Sleep(api.Asleep)))}
	if out, err := c.run(t, "uninstall", "--context", "prod"); err != nil || !strings.Contains(out, command) || len(c.wrote) > 0 {
		t.Errorf("without --yes: %v, wrote %v\n%s", err, c.wrote, out)
	}
	out, err := c.run(t, "uninstall", "--yes", "--context", "prod")
	if err == nil || !strings.Contains(err.Error(), command) || len(c.deleted) > 0 || len(c.wrote) != 1 {
		t.Errorf("%v, wrote %v, deleted %v\n%s", err, c.wrote, c.deleted, out)
	}
	c.Lists["statefulsets"] = nil
	if out, err := c.run(t, "uninstall", "--yes", "--ignore-helm"); err != nil || len(c.parts) > 0 {
		t.Errorf("--ignore-helm: %v, left %v\n%s", err, c.parts, out)
	}
}

// TestUninstallTakesNoCommandFromAnObject: the name of a release becomes a word of a command.
func TestUninstallTakesNoCommandFromAnObject(t *testing.T) {
	for _, helm := range [][2]string{{"a; rm -rf /", "default"}, {"--all", "default"}, {"keel", "$(id)"}, {"keel", ""}} {
		c := newInstalledCluster(t)
		c.helm = helm
		if out, err := c.run(t, "uninstall", "--yes"); err != nil || strings.Contains(out, helm[0]) || len(c.parts) > 0 {
			t.Errorf("%q: %v, left %v\n%s", helm, err, c.parts, out)
		}
	}
}
