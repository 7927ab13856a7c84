package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// readRedundant returns the guards that may be undetected, with their reasons. The format of a line is "name # reason". Empty lines and
// lines that begin with # are ignored.
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
			return nil, fmt.Errorf("%s:%d: the guard has no reason. Append \" # \" and the reason", path, number)
		}
		reasons[strings.TrimSpace(name)] = reason
	}
	return reasons, lines.Err()
}
