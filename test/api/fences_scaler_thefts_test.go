//go:build cluster

package api

import (
	"k8s.io/apimachinery/pkg/types"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"drydock.dev/shared/api/v1alpha1"
)

// scalerThefts are the thefts of Scalers.
var scalerThefts = []theft{
	{"change how many members a Scaler wants", func(s *thief) error { return s.patchScaler(`{"spec":{"replicas":4}}`) }, "scale"},
	{"pause a Scaler", func(s *thief) error { return s.patchScaler(`{"spec":{"paused":true}}`) }, ""},
	{"end the pause of a Scaler", func(s *thief) error {
		_, err := s.scalers().Patch(s.ctx, "paused", types.MergePatchType, []byte(`{"spec":{"paused":false}}`),
			metav1.PatchOptions{DryRun: dry})
		return err
	}, ""},
	{"change the mode, a hook, a deadline or an annotation of a Scaler", func(s *thief) error {
		var refused error
		for _, body := range []string{
			`{"spec":{"mode":{"fixed":4}}}`, `{"spec":{"hooks":{"pre":{"http":{"url":"http://example.com"}}}}}`,
			`{"spec":{"deadlines":{"pre":"1s"}}}`,
			`{"spec":{"conflictPolicy":"adopt"}}`, `{"metadata":{"annotations":{"drydock.dev/retry":""}}}`,
			`{"metadata":{"finalizers":["example.com/x"]}}`,
		} {
			if refused = s.patchScaler(body); refused == nil {
				return nil
			}
		}
		return refused
	}, ""},
	{"delete a Scaler", func(s *thief) error {
		return s.scalers().Delete(s.ctx, "owned", metav1.DeleteOptions{DryRun: dry})
	}, ""},
}

func (s *thief) scalers() dynamic.ResourceInterface {
	return dynamic.NewForConfigOrDie(s.config).Resource(v1alpha1.GroupVersion.WithResource("scalers")).Namespace(s.w.Namespace)
}

// patchScaler changes a Scaler with two members.
func (s *thief) patchScaler(body string) error {
	_, err := s.scalers().Patch(s.ctx, "owned", types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: dry})
	return err
}
