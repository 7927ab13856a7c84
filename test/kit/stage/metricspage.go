package stage

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// MetricsPage reads the metrics of a process like a Prometheus.
func MetricsPage(address string) (string, error) {
	response, err := http.Get("http://" + address + "/metrics") // the test's own process
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("reading the metrics of %s: %s", address, response.Status)
	}
	return string(page), err
}

// SumOf adds up the metric's series with the label.
func SumOf(page, metric, label string) (float64, error) {
	sum := 0.0
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, metric+"{") || !strings.Contains(line, label) {
			continue
		}
		fields := strings.Fields(line)
		value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			return 0, fmt.Errorf("reading metric %s: line %q: %w", metric, line, err)
		}
		sum += value
	}
	return sum, nil
}
