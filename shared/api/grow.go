package api

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/shared/bounded"
)

// GrowOff is the value of the grow annotation that excludes a set from the rules of its namespace.
const GrowOff = "off"

// AnyTemplate matches every volumeClaimTemplate that the grow annotation does not name.
const AnyTemplate = "*"

// Amount is a share of a volume in percent, or a number of bytes.
type Amount struct {
	Percent int64
	// Bytes applies if Percent is 0.
	Bytes int64
}

// Of returns the amount in bytes for a volume of size bytes, rounded up.
func (a Amount) Of(size int64) int64 {
	if a.Percent == 0 {
		return a.Bytes
	}
	return size/100*a.Percent + (size%100*a.Percent+99)/100
}

// String returns the amount in the syntax of the annotation.
func (a Amount) String() string {
	if a.Percent > 0 {
		return fmt.Sprintf("%d%%", a.Percent)
	}
	return resource.NewQuantity(a.Bytes, resource.BinarySI).String()
}

// GrowRule says when the claims of a template grow, and by how much.
type GrowRule struct {
	// Below is the free space under which the template grows.
	Below Amount
	// Inodes is the share of free inodes under which the template grows, in percent.
	Inodes int64
	// By is added to the size of the fullest claim.
	By Amount
	// Max is the largest size of a claim.
	Max resource.Quantity
	// Every is the shortest time between two growths. Zero means no pause, or DefaultGrowPause after a failed expansion.
	Every time.Duration
}

// DefaultGrowPause is the pause after a failed expansion. EBS accepts one change of a volume in six hours.
const DefaultGrowPause = 6 * time.Hour

// Pause returns how long no growth is requested after a failed expansion.
func (r GrowRule) Pause() time.Duration {
	if r.Every > 0 {
		return r.Every
	}
	return DefaultGrowPause
}

// Limits for the grow annotation.
const (
	longestGrow   = 4 << 10
	mostGrowRules = 32
	shortestEvery = time.Minute
	longestEvery  = 366 * 24 * time.Hour
)

const growFormat = `write TEMPLATE=max:SIZE, then below:FREE, inodes:PERCENT, by:AMOUNT and every:DURATION as needed, separated by ` +
	`commas, and several templates separated by semicolons, as "data=below:15%,by:20%,max:500Gi"; or "off"`

// ParseGrow reads the value of the grow annotation. GrowOff yields no rules:
//
//	data=max:500Gi                       claims of template data grow up to 500Gi
//	data=below:15%,by:20%,max:500Gi      by 20% when less than 15% is free; bytes are possible, too, as below:2Gi
//	data=inodes:5%,max:500Gi             when less than 5% of the inodes are free
//	data=max:500Gi,every:6h              at most once in six hours
//	data=max:500Gi;*=max:50Gi            several templates; * matches all others
func ParseGrow(text string) (map[string]GrowRule, error) {
	if len(text) > longestGrow {
		return nil, fmt.Errorf("the rules for growth have %d bytes, at most %d are read; shorten them", len(text), longestGrow)
	}
	rules := map[string]GrowRule{}
	if strings.TrimSpace(text) == GrowOff {
		return rules, nil
	}
	for _, part := range strings.Split(text, ";") {
		template, rule, err := parseGrowRule(strings.TrimSpace(part))
		switch {
		case err != nil:
			return nil, fmt.Errorf("%q: %w; %s", text, err, growFormat)
		case len(rules) == mostGrowRules:
			return nil, fmt.Errorf("more than %d templates are named; name fewer", mostGrowRules)
		}
		if _, twice := rules[template]; twice {
			return nil, fmt.Errorf("%q: template %q is named twice; name each once", text, template)
		}
		rules[template] = rule
	}
	return rules, nil
}

func parseGrowRule(part string) (string, GrowRule, error) {
	template, rest, ok := strings.Cut(part, "=")
	if !ok {
		return "", GrowRule{}, fmt.Errorf("%q names no template", part)
	}
	if problems := validation.IsDNS1123Label(template); len(problems) > 0 && template != AnyTemplate {
		return "", GrowRule{}, fmt.Errorf("template %q: %s", template, problems[0])
	}
	rule := GrowRule{Below: Amount{Percent: 10}, Inodes: 10, By: Amount{Percent: 10}}
	seen := map[string]bool{}
	for _, item := range strings.Split(rest, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(item), ":")
		if seen[key] {
			return "", GrowRule{}, fmt.Errorf("%s is given twice", key)
		}
		seen[key] = true
		if err := rule.set(key, value); err != nil {
			return "", GrowRule{}, err
		}
	}
	if !seen["max"] {
		return "", GrowRule{}, errors.New("max is missing")
	}
	return template, rule, nil
}

func (r *GrowRule) set(key, value string) (err error) {
	switch key {
	case "below":
		r.Below, err = parseAmount(value, 99)
	case "by":
		r.By, err = parseAmount(value, 1000)
	case "inodes":
		r.Inodes, err = parsePercent(value, 99)
	case "max":
		if r.Max, err = bounded.Quantity(value); err == nil && r.Max.Sign() <= 0 {
			err = errors.New("it is not positive")
		}
	case "every":
		r.Every, err = time.ParseDuration(value)
		if err != nil || r.Every < shortestEvery || r.Every > longestEvery {
			err = fmt.Errorf("write a duration from %s to %s, as 6h", shortestEvery, longestEvery)
		}
	default:
		return fmt.Errorf("%q is not a known rule", key)
	}
	if err != nil {
		return fmt.Errorf("%s:%s: %w", key, value, err)
	}
	return nil
}

func parseAmount(text string, most int64) (Amount, error) {
	if strings.HasSuffix(text, "%") {
		percent, err := parsePercent(text, most)
		return Amount{Percent: percent}, err
	}
	quantity, err := bounded.Quantity(text)
	if err == nil && quantity.Value() <= 0 {
		err = errors.New("it is not positive")
	}
	return Amount{Bytes: quantity.Value()}, err
}

// parsePercent reads a whole percentage from 1 to most.
func parsePercent(text string, most int64) (int64, error) {
	digits, ok := strings.CutSuffix(text, "%")
	percent, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || percent < 1 || percent > most {
		return 0, fmt.Errorf("write a whole percentage from 1%% to %d%%", most)
	}
	return percent, nil
}
