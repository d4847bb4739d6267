package main

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

func TestDoctorPromisesNoTTLIfTheStoreHasNone(t *testing.T) {
	for want, d := range map[string]store.Description{
		"none: a hold lasts as long as its session": {},
		"1s to 1m0s, in steps of 1ms":               {MinTTL: time.Second, MaxTTL: time.Minute, Tick: time.Millisecond},
	} {
		if got := promises(d)[0]; got != [2]string{"TTL", want} {
			t.Errorf("got TTL %q, want %q", got, want)
		}
	}
}

// If a right for notifications is missing, doctor says how to grant it.
func TestDoctorSaysWhatLetsWaitersBeNotified(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the tests do not start servers on Windows")
	}
	server := testserver.Redis(t)
	admin := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer admin.Close()
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "deaf", "on", ">x", "~*", "&*", "+@all", "-subscribe").Err(); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("holdfast", "doctor", "--store", "redis://deaf:x@"+server.Addr).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"waking waiters", "they poll instead", "\nredis-cli ACL SETUSER deaf +subscribe +ping '&holdfast:*'\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("doctor does not print %q: %s", want, out)
		}
	}
}
