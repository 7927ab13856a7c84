package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

func TestEveryRenderedFileIsValid(t *testing.T) {
	c := Cluster{Size: Node, State: "/repo/.cluster"}
	for _, name := range nodeFiles {
		text, err := render(name, c.values())
		if err != nil {
			t.Fatal(err)
		}
		var parsed any
		switch {
		case strings.HasSuffix(name, ".yaml"):
			err = yaml.UnmarshalStrict(text, &parsed)
		case strings.HasSuffix(name, ".conflist"):
			err = json.Unmarshal(text, &parsed)
		}
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

func TestManifestsContainAllClassesAndOneDefault(t *testing.T) {
	for _, size := range Sizes {
		text, err := Cluster{Size: size, State: "/repo/.cluster"}.Manifests()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		defaults := 0
		for _, document := range strings.Split(string(text), "---\n") {
			var object struct {
				Kind     string
				Metadata struct {
					Name        string
					Annotations map[string]string
				}
			}
			if err := yaml.Unmarshal([]byte(document), &object); err != nil {
				t.Fatalf("%v\n%s", err, document)
			}
			if object.Kind != "StorageClass" {
				continue
			}
			names = append(names, object.Metadata.Name)
			if object.Metadata.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
				defaults++
			}
		}
		want := []string{"fixed", "fixed-2", "fixed-immediate", "direct", "once", "expandable", "csi", "csi-slow", "csi-limit", "csi-immediate",
			"csi-offline"}
		if !slices.Equal(names, want) || defaults != 1 {
			t.Errorf("size %s: classes %v with %d defaults, want %v with one", size, names, defaults, want)
		}
	}
}

func TestEveryClassHasADriverOnANode(t *testing.T) {
	text, err := Cluster{Size: Node, State: "/repo/.cluster"}.Manifests()
	if err != nil {
		t.Fatal(err)
	}
	for _, class := range StorageClasses {
		if !slices.ContainsFunc(Drivers, func(d Driver) bool { return d.Name == class.Driver }) {
			t.Errorf("class %s needs driver %s, which does not run", class.Name, class.Driver)
		}
	}
	for _, d := range Drivers {
		if !strings.Contains(string(text), "kind: CSIDriver\nmetadata:\n  name: "+d.Name+"\n") {
			t.Errorf("driver %s has no CSIDriver object", d.Name)
		}
	}
}

func TestComponentsHaveDifferentNames(t *testing.T) {
	names := map[string]bool{}
	for _, component := range (Cluster{Size: Node, State: "/repo/.cluster"}).all() {
		if names[component.Name] {
			t.Errorf("two components are called %s", component.Name)
		}
		names[component.Name] = true
	}
	if !names["etcd"] {
		t.Errorf("etcd is not in %v", names)
	}
}

func TestSizesHaveDifferentPortsAndFiles(t *testing.T) {
	if node, plane := portsOf(Node), portsOf(ControlPlane); node.api == plane.api || node.etcd == plane.etcd {
		t.Error("the sizes listen on the same port")
	}
	node, plane := Cluster{Node, "/s"}, Cluster{ControlPlane, "/s"}
	if node.Dir() == plane.Dir() || node.Kubeconfig() == plane.Kubeconfig() || node.Log("etcd") == plane.Log("etcd") {
		t.Error("the sizes share a file")
	}
	if node.Kubeconfig() != "/s/kubeconfig" || plane.Kubeconfig() != "/s/control-plane/kubeconfig" {
		t.Errorf("the kubeconfigs are %s and %s", node.Kubeconfig(), plane.Kubeconfig())
	}
}

func TestComponentsListenOnLoopbackOrNodeAddressOnly(t *testing.T) {
	arguments := 0
	for _, size := range Sizes {
		c := Cluster{size, "/s"}
		for _, component := range c.all() {
			for _, argument := range component.Args {
				arguments++
				if strings.Contains(argument, "0.0.0.0") {
					t.Errorf("%s of size %s accepts connections of other machines: %s", component.Name, size, argument)
				}
			}
		}
	}
	if arguments == 0 {
		t.Error("no component has an argument")
	}
}

func TestTooLongSocketPathIsAnError(t *testing.T) {
	if err := (Cluster{Node, "/repo/.cluster"}).CheckPaths(); err != nil {
		t.Error(err)
	}
	if err := (Cluster{Node, "/" + strings.Repeat("deep/", 20)}).CheckPaths(); err == nil {
		t.Error("want an error: the kubelet could not open its sockets")
	}
}

func TestCredentialsAreCreatedOnceAndUsedInKubeconfigs(t *testing.T) {
	c := Cluster{Node, t.TempDir()}
	if err := c.WriteCredentials(); err != nil {
		t.Fatal(err)
	}
	first, err := c.Tokens()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.WriteCredentials(); err != nil {
		t.Fatal(err)
	}
	second, err := c.Tokens()
	if err != nil {
		t.Fatal(err)
	}
	if len(first) != len(users) || first[Administrator.Name] != second[Administrator.Name] {
		t.Errorf("tokens %v, then %v", first, second)
	}
	if err := c.WriteKubeconfigs(); err != nil {
		t.Fatal(err)
	}
	for _, user := range users {
		text, err := os.ReadFile(c.UserKubeconfig(user))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), first[user.Name]) || !strings.Contains(string(text), c.APIServer()) {
			t.Errorf("the kubeconfig of %s lacks its token or its server:\n%s", user.Name, text)
		}
	}
}

func TestNameserversOnLoopbackAreIgnored(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"one external":            {"search a\nnameserver 192.0.2.1\n", "nameserver 192.0.2.1\n"},
		"a local stub is removed": {"nameserver 127.0.0.53\nnameserver 192.0.2.1", "nameserver 192.0.2.1\n"},
		"only a local stub":       {"nameserver 127.0.0.53\n", "nameserver 192.0.2.53\n"},
		"no file":                 {"", "nameserver 192.0.2.53\n"},
		"garbage":                 {"nameserver\nnameserver x\n", "nameserver 192.0.2.53\n"},
	}
	for name, test := range tests {
		if got := externalNameservers(test.text); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

func TestFingerprintDependsOnConfiguration(t *testing.T) {
	one, err := Cluster{Node, "/s"}.Fingerprint()
	if err != nil {
		t.Fatal(err)
	}
	again, _ := Cluster{Node, "/s"}.Fingerprint()
	other, _ := Cluster{ControlPlane, "/s"}.Fingerprint()
	if one != again || one == other {
		t.Errorf("fingerprints %s, again %s, other %s", one, again, other)
	}
}

func TestUnknownSizeIsAnError(t *testing.T) {
	if _, err := ParseSize("big"); err == nil || !strings.Contains(err.Error(), `"node" or "control-plane"`) {
		t.Errorf("got %v", err)
	}
}

// kube-proxy exits on a write to its configuration, even with the same content.
func TestUnchangedConfigurationIsNotWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kube-proxy.yaml")
	long := time.Now().Add(-time.Hour).Truncate(time.Second)
	for i, text := range []string{"a", "a", "b"} {
		if err := writeChanged(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if written := !info.ModTime().Equal(long); written != (i != 1) {
			t.Errorf("write %d: written %v", i, written)
		}
		if err := os.Chtimes(path, long, long); err != nil {
			t.Fatal(err)
		}
	}
}
