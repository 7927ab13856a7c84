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

// CallContainer is the container that calls a URL for a hook.
const CallContainer = "call"

// defaultCallTimeout is that of a hook that the API server has not completed.
const defaultCallTimeout = 10 * time.Second

// CallTemplate builds the pod template of a hook by HTTP: Drydock's own image sends the request from the Scaler's namespace, so that it
// reaches what pods of that namespace may reach. It has no token and no right. Where says where the hook stands.
func CallTemplate(settings api.Settings, where string, hook v1alpha1.HookHTTP) (*corev1.PodTemplateSpec, error) {
	if _, err := hookurl.Parse(hook.URL); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	if err := settings.CheckImage(); err != nil {
		return nil, fmt.Errorf("%s runs Drydock's image: %w", where, err)
	}
	timeout, err := time.ParseDuration(string(hook.Timeout))
	if err != nil || timeout <= 0 {
		timeout = defaultCallTimeout
	}
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		AutomountServiceAccountToken: ptr.To(false),
		EnableServiceLinks:           ptr.To(false),
		ServiceAccountName:           "default", // and not that of the set, whose rights it does not need
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{
			Name:            CallContainer,
			Image:           settings.Image,
			ImagePullPolicy: corev1.PullIfNotPresent,
			// A $ is doubled, or the kubelet would put variables into the URL.
			Args:            []string{"call", "--url=" + strings.ReplaceAll(hook.URL, "$", "$$"), "--timeout=" + timeout.String(), "--report=/dev/termination-log"},
			SecurityContext: moverSecurity(false),
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
			},
		}},
	}}, nil
}
