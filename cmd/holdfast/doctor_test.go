package main

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

func TestDoctorPromisesNoTTLWhereThereIsNone(t *testing.T) {
	for want, d := range map[string]store.Description{
		"none: a hold lasts as long as its session": {},
		"1s to 1m0s, in steps of 1ms":               {MinTTL: time.Second, MaxTTL: time.Minute, Tick: time.Millisecond},
	} {
		if got := promises(d)[0]; got != [2]string{"TTL", want} {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
