//go:build cluster

package api

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit"
)

// privateOwner defines a kind that only functions with the settings of this world know, and returns the file with the rights to pause it in
// the namespace.
func privateOwner(w *kit.World) (row owners.Row, rights string) {
	t := w.T.(*testing.T)
	w.Settings.Owners = "[{operator: " + w.Namespace + ", group: " + w.Namespace +
		".example.com, kinds: [{name: Store, plural: stores}], pause: [{field: spec.paused, value: true}]}]"
	rows := filepath.Join(t.TempDir(), "rows.yaml")
	must(t, os.WriteFile(rows, []byte(w.Settings.Owners), 0o600))
	registry, err := owners.LoadRegistry(w.Settings.Owners)
	must(t, err)
	row, _ = registry.Find(w.Namespace+".example.com", "Store")
	w.DefineKind(row, "Store")
	t.Cleanup(func() { w.Kubectl("delete", "--ignore-not-found", "crd", "stores."+row.Group) })
	roles, err := command(t, w, "rbac", "--owners", w.Namespace, "--file", rows, "--in", w.Namespace)
	must(t, err)
	rights = filepath.Join(t.TempDir(), "roles.yaml")
	must(t, os.WriteFile(rights, []byte(roles), 0o600))
	t.Cleanup(func() { w.Kubectl("delete", "--ignore-not-found", "-f", rights) })
	return row, rights
}

// TestRightsOverOwnersInOneNamespace: the output of kubectl drydock rbac --in suffices to pause an owner there. Without
// the rights the owner stays paused and the set reports it. With them it is resumed.
func TestRightsOverOwnersInOneNamespace(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	row, manifest := privateOwner(w)
	w.Kubectl("apply", "-f", manifest)
	idleSet(w, "web", 2, nil)
	w.SetController("web", w.CreateCustom(row, "Store", "main", map[string]any{}, nil))
	before := content(w.Custom(row, "Store", "main"))
	w.Expect(http.StatusForbidden, api.PauseOwner, "its rights are removed while the set sleeps")
	drive := w.Drive(nil)
	w.UntilSleep(drive, "web", api.Asleep)
	w.Kubectl("delete", "rolebinding", "drydock-owners-"+w.Namespace)
	sendSetEvent(t, w, drive, events.Wake, "web")
	w.Eventually("the set reports that its owner stays paused", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if sleep := w.Sleep("web"); sleep.Phase != api.Succeeded || !strings.Contains(sleep.OwnerProblem, "kubectl drydock rbac --owners") {
			return string(sleep.Phase) + ": " + sleep.OwnerProblem
		}
		return ""
	})
	if told := strings.Join(w.Events("web"), ", "); !strings.Contains(told, "Warning "+string(api.OwnerStays)) {
		t.Errorf("events %s", told)
	}
	w.Kubectl("apply", "-f", manifest)
	expectResumed(t, w, drive, row, "Store", before)
	if sleep := w.Sleep("web"); sleep.OwnerProblem != "" {
		t.Errorf("it still reports: %s", sleep.OwnerProblem)
	}
}
