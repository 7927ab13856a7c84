package gateway

import "net/http"

// streamer writes a body over time.
type streamer func(http.ResponseWriter)
