package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// readRedundant reads the guards that may be taken away, with the reason for each. A line is: name of the guard # reason. An empty line
// and one that begins with # are comments.
func readRedundant(path string) (map[string]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	reasons := map[string]string{}
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, reason, found := strings.Cut(line, " # ")
		if !found || strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf("%s:%d: a guard without a reason", path, number)
		}
		reasons[strings.TrimSpace(name)] = reason
	}
	return reasons, lines.Err()
}
