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

// A duration is a flag's value: a Go duration ("1m30s"), a bare decimal in
// seconds ("0.5"), or days ("1d").
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
	errDuration = errors.New("want a duration like 30s, 1m30s, 0.5 (seconds) or 2d (days)")
	decimal     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([0-9]+(\.[0-9]*)?|\.[0-9]+)(d?)$`) })
)

func parseDuration(s string) (time.Duration, error) {
	m := decimal().FindStringSubmatch(s)
	if m == nil {
		d, err := time.ParseDuration(s)
		switch {
		case err != nil:
			return 0, errDuration
		case d < 0:
			return 0, errors.New("a duration must not be negative")
		}
		return d, nil
	}
	unit := time.Second
	if m[3] == "d" {
		unit = 24 * time.Hour
	}
	n, err := strconv.ParseFloat(strings.TrimSuffix(s, "d"), 64)
	if ns := n * float64(unit); err == nil && ns < math.MaxInt64 {
		return time.Duration(math.Round(ns)), nil
	}
	return 0, errors.New("that is too long: the longest duration is 292 years")
}
