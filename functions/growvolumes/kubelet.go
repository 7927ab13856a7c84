package growvolumes

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/grow"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/podprobe"
	"drydock.dev/shared/statefulset"
)

const (
	// maxSummaryBytes bounds the summary of a kubelet. The summary of a node with 500 pods has about 5 MiB.
	maxSummaryBytes = 16 << 20
	// parallelKubelets is the number of kubelets that the process asks at the same time, for all events.
	parallelKubelets = 4
)

// usageFromKubelets asks the kubelet of each node that a member of the set runs on. If a kubelet does not answer, the usage of its volumes
// stays unknown. The token that a kubelet receives can only read statistics of kubelets.
func (f *Function) usageFromKubelets(ctx context.Context, in Input) (map[string]grow.Usage, error) {
	nodes, err := f.nodesOf(ctx, in)
	if err != nil || len(nodes) == 0 {
		return nil, err
	}
	client, err := f.kubeletClient()
	if err != nil {
		return nil, err
	}
	token, err := f.client.StatsToken(ctx)
	if err != nil {
		return nil, err
	}
	found := make([]map[string]grow.Usage, len(nodes))
	errs := podprobe.ForEach(len(nodes), func(i int) (err error) {
		select {
		case f.kubelets <- struct{}{}:
			defer func() { <-f.kubelets }()
		case <-ctx.Done():
			return fmt.Errorf("waiting to ask the kubelet of node %s: %w", nodes[i], ctx.Err())
		}
		if found[i], err = f.summary(ctx, client, token, nodes[i], in); err != nil {
			return fmt.Errorf("asking the kubelet of node %s: %w", nodes[i], err)
		}
		return nil
	})
	usage := map[string]grow.Usage{}
	for _, claims := range found {
		for claim, u := range claims {
			grow.Add(usage, claim, u)
		}
	}
	return usage, errors.Join(errs...)
}

// nodesOf returns the sorted names of the nodes that members of the set run on.
func (f *Function) nodesOf(ctx context.Context, in Input) ([]string, error) {
	var names []string
	err := kube.Pages(ctx, f.client, plan.Pods, in.Set.Namespace, statefulset.SelectorOf(in.Set), &corev1.PodList{},
		func(l *corev1.PodList) {
			for i := range l.Items {
				pod := &l.Items[i]
				if statefulset.IsPodOf(pod, in.Set) && pod.Spec.NodeName != "" && !slices.Contains(names, pod.Spec.NodeName) {
					names = append(names, pod.Spec.NodeName)
				}
			}
		})
	slices.Sort(names)
	return names, err
}

// summary returns the usage of the set's claims from the kubelet's /stats/summary.
func (f *Function) summary(ctx context.Context, client *http.Client, token, name string, in Input) (map[string]grow.Usage, error) {
	node := &corev1.Node{}
	found, err := f.client.Get(ctx, kube.Nodes, "", name, node)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, errors.New("the node does not exist")
	}
	address, err := kubeletAddress(node)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/stats/summary", http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() // nothing was written
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the kubelet answers %s", response.Status)
	}
	usage, body := map[string]grow.Usage{}, &io.LimitedReader{R: response.Body, N: maxSummaryBytes + 1}
	err = grow.ReadSummary(body, in.Set.Namespace, func(claim string) bool { return in.Claim(claim) != nil }, usage)
	if body.N <= 0 {
		return nil, fmt.Errorf("the summary has more than %d bytes", maxSummaryBytes)
	}
	return usage, err
}

// kubeletAddress returns the host and port of the kubelet from the node's status.
func kubeletAddress(node *corev1.Node) (string, error) {
	port := int(node.Status.DaemonEndpoints.KubeletEndpoint.Port)
	for _, a := range node.Status.Addresses {
		if address, ok := podprobe.HostPort(a.Address, port); ok && a.Type == corev1.NodeInternalIP && port > 0 {
			return address, nil
		}
	}
	return "", errors.New("the node's status has no internal address with a kubelet port")
}

// kubeletClient returns a client that trusts the certificate authorities of the cluster, or of the administrator's file.
func (f *Function) kubeletClient() (*http.Client, error) {
	authorities := f.client.Authorities()
	if path := f.settings.GrowKubeletCA; path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading DRYDOCK_GROW_KUBELET_CA_FILE: %w", err)
		}
		authorities = text
	}
	insecure := f.settings.GrowKubeletInsecure
	trust := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: insecure} // the administrator asks for it by name
	if len(authorities) > 0 {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, errors.New("the certificate authorities of the kubelets contain no certificate in PEM. Check " +
				"DRYDOCK_GROW_KUBELET_CA_FILE")
		}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: trust, DisableKeepAlives: true},
		CheckRedirect: podprobe.NoRedirect}, nil
}
