//go:build cluster

package api

import (
	"slices"
	"strings"
	"testing"

	"drydock.dev/shared/api"
)

// TestStolenTokensWhereWebhooksChangeTemplates: the label drydock.dev/template-webhooks=allow lets every account that
// writes sets change a pod template. It cannot change the service account, or give the pods access to their node.
// docs/security.md says so.
func TestStolenTokensWhereWebhooksChangeTemplates(t *testing.T) {
	t.Parallel()
	l := layLoot(t)
	thieves := map[string]*thief{}
	for _, account := range accounts {
		thieves[account] = stealToken(t, l, account)
	}
	l.w.LabelNamespace("drydock.dev/template-webhooks", api.AllowValue)
	container := func(more string) string {
		return `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"other"` + more + `}]}}}}`
	}
	l.w.Eventually("the API server sees the label", func() string {
		if err := thieves["restore"].patchSet("web", container("")); err != nil {
			return err.Error()
		}
		return ""
	})
	for what, row := range map[string]struct{ body, who string }{
		"another image": {container(""),
			"backup cleanup-pod dead-letter detect-resize grow-volumes idle-timeout pause-owner restore scale wake-gateway"},
		"another service account": {`{"spec":{"template":{"spec":{"serviceAccountName":"other"}}}}`, ""},
		"a privileged container":  {container(`,"securityContext":{"privileged":true}`), ""},
		"a capability":            {container(`,"securityContext":{"capabilities":{"add":["SYS_ADMIN"]}}`), ""},
		"the node's network":      {`{"spec":{"template":{"spec":{"hostNetwork":true}}}}`, ""},
		"the node's processes":    {`{"spec":{"template":{"spec":{"hostPID":true}}}}`, ""},
		"the node's IPC":          {`{"spec":{"template":{"spec":{"hostIPC":true}}}}`, ""},
		"the node's files":        {`{"spec":{"template":{"spec":{"volumes":[{"name":"host","hostPath":{"path":"/"}}]}}}}`, ""},
	} {
		var able []string
		for _, account := range accounts {
			if s := thieves[account]; s.may(t, account+": "+what, s.patchSet("web", row.body)) {
				able = append(able, account)
			}
		}
		if !slices.Equal(able, strings.Fields(row.who)) {
			t.Errorf("%s: %v can, want %q", what, able, row.who)
		}
	}
}
