package idle

import (
	"fmt"
	"strconv"
)

// maxReplicas limits replica counts in annotations.
const maxReplicas = 1000

func parseReplicas(text string) (int32, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 || n > maxReplicas {
		return 0, fmt.Errorf("write a whole number from 1 to %d", maxReplicas)
	}
	return int32(n), nil
}
