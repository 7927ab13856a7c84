package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/test/kit/build"
)

// later is a claim of a future Kubernetes version, with an unknown field.
type later struct {
	*corev1.PersistentVolumeClaim
	Future string `json:"future"`
}

// TestObserveReadsManifestsOfReplacedClaims: restore creates the successor of a claim from its manifest.
func TestObserveReadsManifestsOfReplacedClaims(t *testing.T) {
	data := build.Template("data", "64Mi", "fixed")
	frozen := []build.Option{build.Link(api.RoleSource, "data-web-0"), build.Deleting(), build.Finalizers(api.FreezeFinalizer)}
	unlabelled := []build.Option{build.Deleting(), build.Finalizers(api.FreezeFinalizer)}
	manifest := build.Claim("data-web-0", "64Mi")
	manifest.Spec.VolumeName = "pv-new"
	for name, row := range map[string]struct {
		options []build.Option
		volumes list
		want    bool
		member  api.MemberPhase // of the claim's resize, if there is one
	}{
		"its member is being swapped":     {nil, nil, true, api.MemberSwapping},
		"its member is being copied":      {nil, nil, false, api.MemberFinalPass},
		"its member has started":          {nil, nil, false, api.MemberStarting},
		"it is frozen":                    {frozen, nil, true, ""},
		"it is frozen and lost its label": {unlabelled, nil, true, ""},
		"it is not deleted":               {nil, nil, false, ""},
		"a user deletes it":               {[]build.Option{build.Deleting()}, nil, false, ""},
		"a volume is reserved for its name": {frozen, list{build.Volume("pv-new", build.Claim("data-web-0", "64Mi"),
			build.Retained(api.RoleTarget, "data-web-0"), build.Reserved(manifest))}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			claim := later{build.Claim("data-web-0", "64Mi", row.options...), "kept"}
			set := build.Set("web", data)
			if row.member != "" {
				build.Status(build.Operation(api.Moving, build.Members(row.member, "data-web-0")))(set)
			}
			c := serve(t, build.Lists{
				"statefulsets":           list{set},
				"persistentvolumeclaims": list{claim, build.Claim("data-web-1", "64Mi")},
				"persistentvolumes":      row.volumes,
			})
			o, err := c.Observe(t.Context(), events.Ref{Namespace: build.Namespace, Name: "web"})
			if err != nil {
				t.Fatal(err)
			}
			if len(o.Claims) != 2 || o.Manifest().GetKind() != "StatefulSet" || o.Manifest().GetName() != "web" {
				t.Fatalf("%d claims, set %v", len(o.Claims), o.Manifest())
			}
			read := o.ClaimManifest(o.Claims[0])
			if row.want != (read != nil) || row.want && read.Object["future"] != "kept" || len(o.ClaimManifests) > 1 {
				t.Errorf("manifests %v", o.ClaimManifests)
			}
		})
	}
}
