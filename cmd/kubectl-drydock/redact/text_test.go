package redact

import (
	"strings"
	"testing"
)

// TestTextLosesCredentials: no credential stays, and the words around it do.
func TestTextLosesCredentials(t *testing.T) {
	for situation, row := range map[string]struct{ text, want string }{
		"the user of a URL": {"asking https://admin:hunter2@prometheus:9090/api failed",
			"asking https://(removed)@prometheus:9090/api failed"},
		"a password with an at sign": {"postgres://app:p@ss/word@db:5432/x", "postgres://(removed)@db:5432/x"},
		"the query of a URL":         {"GET http://x/y?sig=hunter2&z=1 401", "GET http://x/y?(removed) 401"},
		"a bearer token":             {"Authorization: Bearer hunter2hunter2", "Authorization: (removed)"},
		"a bearer token alone":       {"sent bearer hunter2.hunter2 to it", "sent bearer (removed) to it"},
		"a header in JSON":           {`{"Authorization":"Basic aHVudGVyMg==","a":1}`, `{"Authorization":(removed),"a":1}`},
		"a header in a Go map":       {"map[Authorization:[Bearer hunter2x] A:[b]]", "map[Authorization:(removed)"},
		"an escaped header":          {`\"authorization\":\"Bearer hunter2\" x`, `\"authorization\":(removed)"Bearer (removed)\" x`},
		"a cookie":                   {"Cookie: a=hunter2; b=hunter2", "Cookie: (removed)"},
		"a password":                 {"PGPASSWORD=hunter2 psql", "PGPASSWORD=(removed) psql"},
		"a password in quotes":       {`password: "hunter2 hunter2", user: x`, `password: (removed), user: x`},
		"a password in JSON":         {`{"db_password":"hunter2","x":"y"}`, `{"db_password":(removed),"x":"y"}`},
		"a password in escaped JSON": {`{\"password\":\"hunter2\",\"x\":1}`, `{\"password\":(removed),\"x\":1}`},
		"another password in JSON":   {`{"pass":"hunter2","x":1}`, `{"pass":(removed),"x":1}`},
		"a password with a prefix":   {"DB_PASS=hunter2", "DB_PASS=(removed)"},
		"the pass of a mover":        {`{"pass":2} pass=2 first pass: 3`, `{"pass":2} pass=2 first pass: 3`},
		"a flag":                     {"run --api-key hunter2 --verbose", "run --api-key (removed) --verbose"},
		"a key of AWS":               {"AKIAIOSFODNN7EXAMPLE was used", "(removed) was used"},
		"a token of GitHub":          {"ghp_abcdefghijklmnopqrstuvwxyz012345", "(removed)"},
		"a JSON Web Token":           {"got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln from", "got (removed) from"},
		"a private key": {"x -----BEGIN RSA PRIVATE KEY----- hunter2 -----END RSA PRIVATE KEY----- y",
			"x (removed) y"},
		"a private key that is cut": {"x -----BEGIN PRIVATE KEY----- hunter2", "x (removed)"},
		"a long random word":        {"used 9sK2mQx7Lp0aZt5RwYc8VbNe3HuJ1dFg once", "used (removed) once"},
		"a message of Drydock": {"claim data-web-2 is in use by pod debug, which does not belong to StatefulSet web. Delete the pod, then retry.",
			"claim data-web-2 is in use by pod debug, which does not belong to StatefulSet web. Delete the pod, then retry."},
		"a key with another name": {"SECRET_KEY_BASE=hunter2 signing-key: hunter2 licenseKey=hunter2",
			"SECRET_KEY_BASE=(removed) signing-key: (removed) licenseKey=(removed)"},
		"a short name of a password": {"DBPASS=hunter2 bindpw=hunter2 pass=hunter2 bypass=1",
			"DBPASS=(removed) bindpw=(removed) pass=(removed) bypass=1"},
		"a quote in a password": {`password="hun\"hunter2" x`, `password=(removed) x`},
		"a variable in JSON": {`{"name":"DB_PASSWORD","value":"hunter2"}, {"name":"A","value":"b"}`,
			`{"name":"DB_PASSWORD","value":(removed)}, {"name":"A","value":"b"}`},
		"a variable in YAML": {"- name: DB_PASSWORD value: hunter2", "- name: DB_PASSWORD value: (removed)"},
		"other signs between": {"password => hunter2, token := hunter2, secret%3Dhunter2",
			"password => (removed), token := (removed), secret%3D(removed)"},
		"the id of a session":    {"PHPSESSID=hunter2; session_id=hunter2", "PHPSESSID=(removed); session_id=(removed)"},
		"the user of curl":       {"curl -u admin:hunter2 http://x", "curl -u admin:(removed) http://x"},
		"the user of a database": {"app:hunter2@tcp(db:3306)/x", "app:(removed)@tcp(db:3306)/x"},
		"a webhook of Slack": {"POST https://hooks.slack.com/services/T0/B0/hunter2: 404",
			"POST https://hooks.slack.com/services/(removed) 404"},
		"tokens of other services": {"hvs.hunter2hunter2 npm_hunter2hunter2 dckr_pat_hunter2hunter2", "(removed) (removed) (removed)"},
		"a digest of an image": {"example.com/drydock@sha256:" + strings.Repeat("0a", 32),
			"example.com/drydock@sha256:" + strings.Repeat("0a", 32)},
		"a UID": {"pod 6f1c7d0e-3d0b-4a57-9f5e-0f2f9f7d6a11", "pod 6f1c7d0e-3d0b-4a57-9f5e-0f2f9f7d6a11"},
		"a name that ends like one": {"StatefulSet web-session is Moving, the digest differs",
			"StatefulSet web-session is Moving, the digest differs"},
		"a plan": {"do ResizeDetected: patch statefulsets web {+status, -retry} -> resize.detected",
			"do ResizeDetected: patch statefulsets web {+status, -retry} -> resize.detected"},
	} {
		got := Text(row.text)
		if got != row.want {
			t.Errorf("%s:\n got %s\nwant %s", situation, got, row.want)
		}
		if strings.Contains(got, "hunter2") {
			t.Errorf("%s: %s", situation, got)
		}
		if again := Text(got); strings.Contains(again, "hunter2") || !strings.Contains(again, Removed) && strings.Contains(got, Removed) {
			t.Errorf("%s: a second pass gives %s", situation, again)
		}
	}
}

func TestMessageLosesWhatItQuotes(t *testing.T) {
	for text, want := range map[string]string{
		`do Waiting: event HookFailed "hook before of pod web-1 failed: connecting as root/hunter2"`: `do Waiting: event HookFailed (removed)`,
		"CleanupTried: exit code 1: hunter2":                                  "CleanupTried (removed)",
		`env[0].value: Invalid value: "hunter2 \"x\" hunter2": must be short`: "env[0].value: Invalid value: (removed): must be short",
		`msg \"a: Invalid value: \"hunter2\": b\"`:                            `msg \"a: Invalid value: (removed): b\"`,
		"a: Invalid value: core.Env{Value: hunter2}: b":                       "a: Invalid value: (removed)",
		"data=20Gi,data/labels/team=hunter2,data/annotations/a.b/c=hunter2 hunter2,-logs": "data=20Gi,data/labels/team=(removed)," +
			"data/annotations/a.b/c=(removed),-logs",
		"listing pods: Object 'Kind' is missing in '{\"a\":\"hunter2\"}'": "listing pods: Object 'Kind' is missing in '(removed)",
		"waits for: HookFailed":                         "waits for: HookFailed",
		"NotConverged: the application writes too fast": "NotConverged: the application writes too fast",
	} {
		if got := Message(text); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}
