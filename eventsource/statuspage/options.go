package statuspage

import "drydock.dev/shared/token"

// Access are the settings that decide who sees the page. A zero value selects the default.
type Access struct {
	Token     token.Secret `envconfig:"DRYDOCK_STATUS_TOKEN" desc:"token that viewers of the status page send; take it from a Secret. Without a token, the page shows nothing"`
	TokenFile string       `envconfig:"DRYDOCK_STATUS_TOKEN_FILE" desc:"file with the token of DRYDOCK_STATUS_TOKEN; it is read again when it changes"`
	Viewers   int          `envconfig:"DRYDOCK_STATUS_VIEWERS" default:"100" desc:"browsers that a status page keeps up to date at once; the others have to reload"`
}

const defaultViewers = 100
