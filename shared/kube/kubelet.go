package kube

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/plan"
)

const serviceAccounts plan.Resource = "serviceaccounts"

// statsTokenSeconds is the lifetime of a token for kubelets, the shortest that the API server allows.
const statsTokenSeconds = 600

// StatsToken returns a token of the account that may only read the statistics of kubelets. A kubelet sees this token, so it must not get
// the token of a function.
func (c *Client) StatsToken(ctx context.Context) (string, error) {
	client, err := c.rest(serviceAccounts)
	if err != nil {
		return "", err
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](statsTokenSeconds)}}
	err = client.Post().Namespace(api.HomeNamespace).Resource(string(serviceAccounts)).Name(api.StatsAccount).SubResource("token").
		VersionedParams(&metav1.CreateOptions{}, parameters).Body(request).Do(ctx).Into(request)
	if err != nil {
		return "", fmt.Errorf("creating a token of account %s/%s: %w", api.HomeNamespace, api.StatsAccount, fault.FromAPI(err))
	}
	return request.Status.Token, nil
}

// Authorities returns the client's certificate authorities for the API server in PEM, or nil if it trusts those of the machine.
func (c *Client) Authorities() []byte {
	if trust := c.config.TLSClientConfig; len(trust.CAData) > 0 || trust.CAFile == "" {
		return trust.CAData
	}
	text, err := os.ReadFile(c.config.CAFile)
	if err != nil {
		return nil // the client would have failed before
	}
	return text
}

// Exec runs a command in a container, and writes its output to out. It returns an error if the command or out fails.
func (c *Client) Exec(ctx context.Context, namespace, pod, container string, out io.Writer, command ...string) error {
	client, err := c.rest(plan.Pods)
	if err != nil {
		return err
	}
	request := client.Get().Namespace(namespace).Resource("pods").Name(pod).SubResource("exec").
		Param("container", container).Param("stdout", "true").Param("stderr", "true")
	for _, argument := range command {
		request.Param("command", argument)
	}
	executor, err := remotecommand.NewWebSocketExecutor(rest.CopyConfig(c.config), "GET", request.URL().String())
	if err != nil {
		return fmt.Errorf("running %s in pod %s/%s: %w", command[0], namespace, pod, err)
	}
	problems := &limited{left: 1 << 10}
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: out, Stderr: problems}); err != nil {
		return fmt.Errorf("running %s in pod %s/%s: %w %s", command[0], namespace, pod, fault.FromAPI(err), problems.Bytes())
	}
	return nil
}

// limited is a buffer that fails after a number of bytes.
type limited struct {
	bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, io.ErrShortWrite
	}
	return l.Buffer.Write(p)
}
