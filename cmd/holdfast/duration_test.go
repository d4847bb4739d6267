package main

import (
	"testing"
	"time"
)

func TestADurationIsGoSecondsDaysOrWeeks(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "0.0": 0, "0d": 0,
		"10": 10 * time.Second, "0.5": 500 * time.Millisecond, ".5": 500 * time.Millisecond, "5.": 5 * time.Second,
		"0.001": time.Millisecond, "1.000000001": time.Second + 1,
		"200ms": 200 * time.Millisecond, "1m30s": 90 * time.Second, "2h": 2 * time.Hour, "1.5h": 90 * time.Minute,
		"1d": 24 * time.Hour, "0.5d": 12 * time.Hour, "365d": 365 * 24 * time.Hour,
		"1d12h": 36 * time.Hour, "1w": 7 * 24 * time.Hour, "2w3d": 17 * 24 * time.Hour, "1w1m30s": 7*24*time.Hour + 90*time.Second, "0.5w": 84 * time.Hour, "1d0s": 24 * time.Hour,
	} {
		if got, err := parseDuration(in); err != nil || got != want {
			t.Errorf("%q: got %v, %v, want %v", in, got, err, want)
		}
	}
}

func TestAnInvalidDurationIsRefused(t *testing.T) {
	for _, in := range []string{
		"", " ", "-1", "-1s", "-0.5", "+1", "1 s", "s", "d", ".", ".d", "1e3", "1e3d", "0x10", "1_000", "inf", "nan", "NaN", "Inf",
		"1dd", "1sd", "1d1", "1d0", "1d-2h", "1d+2h", "1w2w", "1d1w", "12h1d", "1d 2h", "w", "1D", "106751d23h48m", "15251w", "9223372037", "99999999999999999999", "106752d", "300000000h", "1,5",
	} {
		if got, err := parseDuration(in); err == nil {
			t.Errorf("%q: got %v, want an error", in, got)
		}
	}
}
