//go:build cluster

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/test/kit/stage"
)

// hookServer is a server that answers "not done" to the first two requests, and rejects all as soon as /tmp/refuses
// exists. It counts the requests.
const hookServer = `mkdir -p /tmp/www/cgi-bin
cat >/tmp/www/cgi-bin/drain <<'END'
#!/bin/sh
n=$(($(cat /tmp/requests) + 1))
head -c "$CONTENT_LENGTH" >/tmp/body
echo $n >/tmp/requests
if [ -e /tmp/refuses ]; then
  status='403 Forbidden'
elif [ $n -lt 3 ]; then
  status='202 Accepted'
else
  status='200 OK'
fi
printf 'Status: %s\r\nRetry-After: 10\r\nContent-Type: text/plain\r\n\r\nthe words of the server\n' "$status"
END
chmod 755 /tmp/www/cgi-bin/drain
echo 0 >/tmp/requests
exec httpd -f -p 8080 -h /tmp/www
`

const callingScaler = `apiVersion: drydock.dev/v1alpha1
kind: Scaler
metadata:
  name: web
spec:
  target: web
  hooks:
    pre:
      http:
        url: http://%s:8080/cgi-bin/drain?token=secret
`

// TestHookByHTTP: the scaling waits while the server is not done, and fails when the server rejects the request.
func TestHookByHTTP(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	set := stage.Workload("64Mi")
	set.Spec.Replicas = ptr.To[int32](1)
	s.CreateSet(set)
	s.Start(t, "drain", hookServer)
	drydock(t, s, "--tick", "2s")
	s.Kubectl(t, fmt.Sprintf(callingScaler, podIP(s, "drain")), "-n", s.Namespace, "apply", "-f", "-")
	s.AwaitScaler(t, "web", "idle 1")

	s.ScaleScaler(t, "web", 2)
	s.Eventually("the server is asked", func() string {
		replicas := *s.Set("web").Spec.Replicas // read before the requests are counted
		n := s.Exec(t, "drain", "cat /tmp/requests")
		if (n == "0" || n == "1" || n == "2") && replicas != 1 {
			t.Errorf("the set has %d replicas after %s requests", replicas, n)
		}
		if n == "0" {
			return fmt.Sprintf("it is not; the Scaler says %+v", s.Scaler("web").Status.Conditions)
		}
		return ""
	})
	s.AwaitScaler(t, "web", "idle 2")
	if n := s.Exec(t, "drain", "cat /tmp/requests"); n != "3" {
		t.Errorf("%s requests", n)
	}
	for _, fact := range []string{`"hook":"pre"`, `"direction":"up"`, `"added":[1]`, `"namespace":"` + s.Namespace + `"`,
		`"scaler":"web"`} {
		if body := s.Exec(t, "drain", "cat /tmp/body"); !strings.Contains(body, fact) {
			t.Errorf("%s is not in %s", fact, body)
		}
	}

	s.Exec(t, "drain", "touch /tmp/refuses")
	s.ScaleScaler(t, "web", 1)
	s.AwaitScaler(t, "web", "failed 2")
	healthy := meta.FindStatusCondition(s.Scaler("web").Status.Conditions, v1alpha1.ConditionHealthy)
	if healthy == nil {
		t.Fatal("there is no condition Healthy")
	}
	told := healthy.Message
	for _, words := range []string{"container call", " 3", "POST http://", "/cgi-bin/drain", "403", api.RetryAnnotation} {
		if !strings.Contains(told, words) {
			t.Errorf("%q is not in %q", words, told)
		}
	}
	if strings.Contains(told, "secret") || strings.Contains(told, "the words of the server") || *s.Set("web").Spec.Replicas != 2 {
		t.Errorf("%d replicas, %q", *s.Set("web").Spec.Replicas, told)
	}
	expectNoHooks(t, s)
}
