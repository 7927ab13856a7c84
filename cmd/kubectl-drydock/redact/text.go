// Package redact removes credentials and users' values from objects and texts, so that they can be sent to others. It keeps what
// allowed.yaml and keys.go list, and removes everything else. It is pure.
package redact

import (
	"regexp"
	"slices"
	"strings"

	"drydock.dev/shared/api"
)

// Removed replaces a value that was removed.
const Removed = "(removed)"

// secretWord matches the end of a name whose value is a credential.
const secretWord = `(?:passwords?|passwd|passphrase|pwd|[_.-]pass|secrets?|tokens?|credentials?|authorization|auth|cookie|session|` +
	`sess(?:ion)?[_.-]?id|signature|sig|` +
	`(?:api|access|private|account|shared|encryption|master|client|secret|signing|license)[_.-]?(?:access)?[_.-]?keys?(?:[_.-]base)?)`

// The parts of a name with a value. A text in quotes may contain quotes behind a backslash, and all of it may be behind backslashes.
const (
	between = `(?:\s*(?::=|=>|[:=])\s*|%3[ad])`
	value   = `("(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|\\"[^"]*"?|[^\s,;&"'\\}]+)`
)

// mask replaces a part of a text that may be a credential.
type mask struct {
	pattern *regexp.Regexp
	by      string
}

// masks are applied in their order.
var masks = []mask{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*-----.*?(?:-----END [A-Z0-9 ]*-----|$)`), Removed},
	// The user and password of a URL, then its query.
	{regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s"'<>]*@`), "${1}" + Removed + "@"},
	{regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://[^\s?"'<>]*)\?[^\s"'<>]*`), "${1}?" + Removed},
	// An HTTP header with credentials, up to the end of the line or the closing quote.
	{regexp.MustCompile(`(?i)\b((?:proxy-)?authorization|(?:set-)?cookie|x-[a-z0-9-]*(?:token|key|secret|auth)[a-z0-9-]*)` +
		`(["'\\\]]*\s*[:=]\s*)[^"'\n]+`), "${1}${2}" + Removed},
	{regexp.MustCompile(`(?i)\b(bearer|basic)(\s+["'\\]*)[A-Za-z0-9._~+/=:-]{6,}`), "${1}${2}" + Removed},
	// A name and a value, such as password=x, "password":"x" or --token x.
	{regexp.MustCompile(`(?i)([a-z0-9_.-]*` + secretWord + `["'\\\]]*` + between + `)` + value), "${1}" + Removed},
	// A variable as Kubernetes writes it: its name, then its value.
	{regexp.MustCompile(`(?i)(\bname["'\\]*\s*[:=]\s*["'\\]*[a-z0-9_.-]*` + secretWord +
		`["'\\]*[\s,]+["'\\]*value["'\\]*\s*[:=]\s*)` + value), "${1}" + Removed},
	{regexp.MustCompile(`(?i)(\bpass["'\\]*\s*[:=]\s*)("[^"]+"?|'[^']+'?|\\"[^"]*"?)`), "${1}" + Removed}, // pass=2 is a number of a mover
	// A number after pass= is that of a mover.
	{regexp.MustCompile(`(?i)([a-z0-9_.-]*(?:pass|pw)=)([^\s,;&"'\\}]*[^\s,;&"'\\}0-9][^\s,;&"'\\}]*)`), "${1}" + Removed},
	// The user of curl, and that of a database of Go.
	{regexp.MustCompile(`((?:^|\s)(?:-u|--user)[= ]["']?[^\s:"']+:)[^\s"']+`), "${1}" + Removed},
	{regexp.MustCompile(`([A-Za-z0-9_.-]+:)[^\s"'@]+(@(?:tcp|unix)\()`), "${1}" + Removed + "${2}"},
	{regexp.MustCompile(`(hooks\.slack\.com/(?:services|workflows|triggers)/)[^\s"'<>]+`), "${1}" + Removed},
	{regexp.MustCompile(`(?i)((?:^|[\s"'=,\[])--?[a-z0-9-]*` + secretWord + `\s+)("[^"]*"?|'[^']*'?|[^\s,;&"']+)`), "${1}" + Removed},
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*){1,4}`), Removed}, // JSON Web Tokens
	{regexp.MustCompile(`\b(?:AKIA|ASIA)[0-9A-Z]{12,}`), Removed},                    // AWS
	{regexp.MustCompile(`\b(?:hvs|hvb|SG)\.[A-Za-z0-9_.-]{10,}`), Removed},           // Vault, SendGrid
	// GitHub, GitLab, Docker, npm, Slack and others
	{regexp.MustCompile(`\b(?:gh[pousr]|github_pat|glpat|dckr_pat|npm|xox[a-z]|sk|pk)[_-][A-Za-z0-9_-]{10,}`), Removed},
	{regexp.MustCompile(`\bAIza[0-9A-Za-z_-]{20,}`), Removed}, // Google
}

// randomWord matches words that are long enough to be a random credential.
var randomWord = regexp.MustCompile(`[A-Za-z0-9+_=-]{32,}`)

// Text returns the text without credentials: those of URLs and HTTP headers, values with names such as password, keys of known forms, and
// long random words. It cannot find a password that stands alone.
func Text(text string) string {
	for _, m := range masks {
		text = m.pattern.ReplaceAllString(text, m.by)
	}
	return randomWord.ReplaceAllStringFunc(text, func(word string) string {
		if isRandom(word) {
			return Removed
		}
		return word
	})
}

// IsSecret reports whether a value with the name may be a credential.
func IsSecret(name string) bool { return Text(name+"=1") != name+"=1" } // the field pass of a mover is a number

// isRandom reports whether the word has digits, lower and upper case letters. Names and UIDs of Kubernetes and digests have no upper case.
func isRandom(word string) bool {
	return strings.ContainsAny(word, "0123456789") && strings.ToLower(word) != word && strings.ToUpper(word) != word
}

// quotingReasons are the reasons whose messages contain the end of the output of a hook or a cleanup pod.
var quotingReasons = []api.Reason{api.HookFailed, api.CleanupTried, api.CleanupFailed}

func quotesOutput(reason string) bool { return slices.Contains(quotingReasons, api.Reason(reason)) }

// fieldValue matches the value of a user's field in an error of the API server. A value without quotes ends nowhere.
var fieldValue = regexp.MustCompile(`(?s)((?:Invalid|Unsupported|Duplicate) value: )("(?:[^"\\]|\\.)*"|\\"(?:[^"\\]|\\[^"])*\\"|.*)`)

// requestedValue matches the value of a label or an annotation in a request, such as data/labels/team=shop.
var requestedValue = regexp.MustCompile(`(/(?:labels|annotations)/[^=,\s"]+=)[^,;"\\\n]+`)

// wholeObject matches the object in an error of Kubernetes' decoder.
var wholeObject = regexp.MustCompile(`(?s)(Object '[A-Za-z]+' is missing in ').*`)

// Message returns the text as Text does, and also without what it may quote of the user: the value of a field that the API server rejects,
// a whole object that cannot be decoded, values of requested labels, and everything after a reason whose message contains the output of a
// container.
func Message(text string) string {
	for _, reason := range quotingReasons {
		if before, after, found := strings.Cut(text, string(reason)); found && after != "" {
			text = before + string(reason) + " " + Removed
		}
	}
	text = wholeObject.ReplaceAllString(text, "${1}"+Removed)
	text = requestedValue.ReplaceAllString(text, "${1}"+Removed)
	return Text(fieldValue.ReplaceAllString(text, "${1}"+Removed))
}
