package config

import (
	"crypto/rand"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// User is the identity of a component at the API server.
type User struct {
	Name   string // as in RBAC's built-in roles
	Groups []string
	file   string // name of its kubeconfig in the cluster's folder
}

// The users of a cluster. The CSI sidecars and DNS also act as the administrator.
var (
	Administrator         = User{"admin", []string{"system:masters"}, ""}
	ControllerManagerUser = User{"system:kube-controller-manager", nil, "controller-manager"}
	SchedulerUser         = User{"system:kube-scheduler", nil, "scheduler"}
	ProxyUser             = User{"system:kube-proxy", nil, "proxy"}
	KubeletUser           = User{"system:node:" + NodeName, []string{"system:nodes"}, "kubelet"}

	users = []User{Administrator, ControllerManagerUser, SchedulerUser, ProxyUser, KubeletUser}
)

// UserKubeconfig returns the path of a user's kubeconfig.
func (c Cluster) UserKubeconfig(u User) string {
	if u.file == "" {
		return c.Kubeconfig()
	}
	return c.Path("kubeconfigs", u.file)
}

// writeTokens writes the API server's --token-auth-file: lines of token,user,uid,"group,group".
func (c Cluster) writeTokens() error {
	var text strings.Builder
	lines := csv.NewWriter(&text)
	for _, user := range users {
		if err := lines.Write([]string{rand.Text(), user.Name, user.Name, strings.Join(user.Groups, ",")}); err != nil {
			return fmt.Errorf("writing the token of %s: %w", user.Name, err)
		}
	}
	lines.Flush()
	if err := os.WriteFile(c.pki("tokens.csv"), []byte(text.String()), 0o600); err != nil {
		return fmt.Errorf("writing the tokens: %w", err)
	}
	return nil
}

// Tokens returns the users' tokens by user name.
func (c Cluster) Tokens() (map[string]string, error) {
	file, err := os.Open(c.pki("tokens.csv"))
	if err != nil {
		return nil, fmt.Errorf("reading the tokens: %w", err)
	}
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("reading the tokens: %w", err)
	}
	tokens := map[string]string{}
	for _, line := range lines {
		tokens[line[1]] = line[0]
	}
	return tokens, nil
}

// WriteKubeconfigs writes a kubeconfig for each user.
func (c Cluster) WriteKubeconfigs() error {
	authority, err := os.ReadFile(c.pki("ca.crt"))
	if err != nil {
		return fmt.Errorf("reading the cluster's authority: %w", err)
	}
	tokens, err := c.Tokens()
	if err != nil {
		return err
	}
	for _, user := range users {
		path := c.UserKubeconfig(user)
		text, err := render("kubeconfig.yaml", kubeconfigValues{
			Name: "drydock-" + string(c.Size), Server: c.APIServer(), Authority: authority, User: user.Name, Token: tokens[user.Name],
		})
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("making the folder of %s: %w", path, err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return fmt.Errorf("writing the kubeconfig of %s: %w", user.Name, err)
		}
	}
	return nil
}

// kubeconfigValues holds the values for the template kubeconfig.yaml.
type kubeconfigValues struct {
	Name, Server, User, Token string
	Authority                 []byte // PEM
}
