package scale

import (
	"drydock.dev/shared/api"
)

// problem is the reason why a Scaler cannot scale its set.
type problem struct {
	reason    api.Reason
	message   string
	temporary bool // the Scaler continues when something else has ended
}

// maxQuote bounds quoted texts of other programs, in bytes. maxConditionMessage is below the API server's limit for a condition's message.
const (
	maxQuote            = 1024
	maxConditionMessage = 4096
)
