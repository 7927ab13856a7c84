package redact

import "testing"

// TestQuotesAreReplaced: commands and paths of a user are replaced in every text that quotes them. Other words stay.
func TestQuotesAreReplaced(t *testing.T) {
	quotes := QuotesOf(map[string]any{
		"command": []any{"redis-cli", "-a", "hunter2"},
		"httpGet": map[string]any{"path": "/healthz?token=abcdef", "port": int64(8080)},
	})
	for text, want := range map[string]string{
		`exec: "redis-cli -a hunter2": executable file not found`:       `exec: "(removed)": executable file not found`,
		`Get "http://10.244.0.5:8080/healthz?token=abcdef": dial tcp`:   `Get "http://10.244.0.5:8080(removed)": dial tcp`,
		`Get "http://10.244.0.5:8080/healthz?token=abcdefgh": dial tcp`: `Get "http://10.244.0.5:8080/healthz?token=abcdefgh": dial tcp`,
		"container my-redis-cli-2 exited with 1":                        "container my-redis-cli-2 exited with 1",
		"web-0":                                                         "web-0",
	} {
		if got := quotes.Text(text); got != want {
			t.Errorf("%s\nbecame %s\n  want %s", text, got, want)
		}
	}
}
