package main

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A duration is a flag's value: a Go duration ("1m30s"), which weeks and days may
// precede ("1w", "1d12h"), or a bare decimal in seconds ("0.5").
type duration time.Duration

func (d *duration) String() string {
	if *d == 0 {
		return "" // so that help shows no default
	}
	return time.Duration(*d).String()
}

func (d *duration) Type() string { return "DUR" }

func (d *duration) Set(s string) error {
	v, err := parseDuration(s)
	*d = duration(v)
	return err
}

var (
	errDuration = errors.New("want a duration like 30s, 0.5 (seconds), 1d12h or 1w")
	errTooLong  = errors.New("that is too long: the longest duration is 292 years")
	decimal     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([0-9]+(\.[0-9]*)?|\.[0-9]+)$`) })
	// Weeks and days come before what time.ParseDuration reads.
	longUnits = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:([0-9]+(?:\.[0-9]*)?|\.[0-9]+)w)?(?:([0-9]+(?:\.[0-9]*)?|\.[0-9]+)d)?(.*)$`)
	})
)

func parseDuration(s string) (time.Duration, error) {
	if decimal().MatchString(s) {
		return times(s, time.Second)
	}
	m := longUnits().FindStringSubmatch(s)
	if m == nil || s == "" {
		return 0, errDuration
	}
	total := time.Duration(0)
	for i, unit := range []time.Duration{7 * 24 * time.Hour, 24 * time.Hour} {
		if m[i+1] == "" {
			continue
		}
		d, err := times(m[i+1], unit)
		if err != nil {
			return 0, err
		}
		if total += d; total < 0 {
			return 0, errTooLong
		}
	}
	if m[3] == "" {
		return total, nil
	}
	signed := strings.ContainsAny(m[3][:1], "+-")
	d, err := time.ParseDuration(m[3])
	switch {
	case err != nil || m[3] != s && (signed || m[3] == "0"): // 1d-2h, 1d0
		return 0, errDuration
	case d < 0:
		return 0, errors.New("a duration must not be negative")
	case total+d < 0:
		return 0, errTooLong
	}
	return total + d, nil
}

// times multiplies a decimal number by a unit.
func times(number string, unit time.Duration) (time.Duration, error) {
	n, err := strconv.ParseFloat(number, 64)
	if ns := n * float64(unit); err == nil && ns < math.MaxInt64 {
		return time.Duration(math.Round(ns)), nil
	}
	return 0, errTooLong
}
