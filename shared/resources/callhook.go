package resources

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/hookurl"
)

// CallContainer is the name of the container that calls a URL for a hook.
const CallContainer = "call"

// fallbackCallTimeout is the timeout of a hook without a valid timeout, because the API server has not set the default.
const fallbackCallTimeout = 10 * time.Second

// CallTemplate returns the pod template of an HTTP hook. Drydock's image sends the request from the Scaler's namespace, so the network
// policies of that namespace apply. The pod has no token and no rights. Where names the hook in errors.
func CallTemplate(settings api.Settings, where string, hook v1alpha1.HookHTTP) (*corev1.PodTemplateSpec, error) {
	if _, err := hookurl.Parse(hook.URL); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	if err := settings.CheckImage(); err != nil {
		return nil, fmt.Errorf("%s needs Drydock's image: %w", where, err)
	}
	timeout, err := time.ParseDuration(string(hook.Timeout))
	if err != nil || timeout <= 0 {
		timeout = fallbackCallTimeout
	}
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		AutomountServiceAccountToken: ptr.To(false),
		EnableServiceLinks:           ptr.To(false),
		ServiceAccountName:           "default", // the rights of the set's service account are not needed
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{
			Name:            CallContainer,
			Image:           settings.Image,
			ImagePullPolicy: corev1.PullIfNotPresent,
			// Each $ is doubled. Otherwise the kubelet would expand variables in the URL.
			Args: []string{"call", "--url=" + strings.ReplaceAll(hook.URL, "$", "$$"), "--timeout=" + timeout.String(),
				"--report=/dev/termination-log"},
			SecurityContext: moverSecurity(false),
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
			},
		}},
	}}, nil
}
