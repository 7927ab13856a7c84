package operation

import "time"

// Backoff returns the wait before the next try after so many failures in a row. The first failure is followed by the first wait, and each
// further failure doubles it, up to the limit. A first wait above the limit stays as it is.
func Backoff(first, limit time.Duration, failures int) time.Duration {
	wait := first
	for ; failures > 1 && wait < limit; failures-- {
		wait = min(2*wait, limit)
	}
	return wait
}
