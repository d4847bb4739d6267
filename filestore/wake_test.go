//go:build linux || darwin

package filestore

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"pgregory.net/rapid"
)

// However the bytes of a mailbox are split, whole notifications are read.
func TestNotificationsComeThroughAMailboxWhole(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	rapid.Check(t, func(t *rapid.T) {
		var sent, got []store.Notification
		var b []byte
		for range rapid.IntRange(0, 20).Draw(t, "hints") {
			h := store.Notification{
				Name:  rapid.StringN(1, -1, maxNotification-notificationHead-blockSize).Draw(t, "name"),
				ID:    store.NewProcess().NewID(),
				Token: rapid.Int64().Draw(t, "token"),
			}
			if h.Token != 0 {
				h.N = rapid.SampledFrom([]int{1, 1, 2, 64, store.MaxBlock}).Draw(t, "block")
			}
			sent = append(sent, h)
			b = appendNotification(b, h)
		}
		var kept []byte
		for len(b) > 0 {
			n := rapid.IntRange(1, len(b)).Draw(t, "piece")
			kept = bytes.Clone(s.parseNotifications(append(kept, b[:n]...), func(h store.Notification) { got = append(got, h) }))
			b = b[n:]
		}
		if !slices.Equal(got, sent) || len(kept) > 0 {
			t.Fatalf("got %v and %d bytes left, want %v", got, len(kept), sent)
		}
	})
}

func TestANotificationIsWrittenAtomically(t *testing.T) {
	for n := range store.MaxName + 1 {
		for _, block := range []int{0, 1, 2} {
			if got := len(appendNotification(nil, store.Notification{Name: strings.Repeat("x", n), N: block})); got > maxNotification {
				t.Fatalf("a name of %d bytes makes a notification of %d, too long", n, got)
			}
		}
	}
}

// Invalid bytes in a mailbox make all waiters poll and do no harm.
func FuzzParseNotifications(f *testing.F) {
	s := open(f, f.TempDir())
	f.Cleanup(func() { s.Close() })
	f.Add(appendNotification(nil, store.Notification{Name: "name", Token: 1}))
	f.Add(appendNotification(nil, store.Notification{Name: strings.Repeat("x", store.MaxName), Token: 1}))
	f.Add(appendNotification(nil, store.Notification{Name: "name", Token: 1, N: 64}))
	f.Add([]byte{byte(notificationHead), notificationFile >> 8, 0})
	f.Add(append([]byte{byte(notificationHead), notificationBlock >> 8}, make([]byte, notificationHead)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		left := s.parseNotifications(b, func(store.Notification) { n++ })
		if len(left) > len(b) || len(left) >= maxNotification || n == 0 && len(left) < len(b) {
			t.Fatalf("%d bytes of %d are left after %d notifications", len(left), len(b), n)
		}
	})
}

// A mailbox that was full has lost notifications: all waiters poll.
func TestAFullMailboxMakesAllWaitersPoll(t *testing.T) {
	dir := t.TempDir()
	s, other := open(t, dir), open(t, dir)
	defer s.Close()
	defer other.Close()
	p := store.NewProcess()
	var mu sync.Mutex
	seen := 0
	all := false
	mu.Lock() // the sink blocks until the mailbox is full
	err := s.Watch(t.Context(), p, func(h store.Notification) {
		mu.Lock()
		defer mu.Unlock()
		seen++
		all = all || h == store.Notification{}
	})
	if err != nil {
		t.Fatal(err)
	}
	h := store.Notification{Name: strings.Repeat("x", 400), ID: p.NewID(), Token: 1}
	if !other.post(p, h) {
		t.Fatal("the mailbox has no reader")
	}
	for range 2 * mailboxSize / len(appendNotification(nil, h)) {
		other.post(p, h)
	}
	mu.Unlock()
	soon(t, "every waiter polls", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return all && seen > 100
	})
}

// If Watch reaches a limit of the system, it fails and leaves nothing behind.
func TestALimitOfOpenFilesIsReportedAndHarmless(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	h := lockSoon(t, s, "name")
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Skipf("open files cannot be counted here: %v", err)
	}
	now := was
	now.Cur = uint64(len(open))
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &now); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was)
	var full []*os.File
	for {
		f, err := os.Open("/dev/null")
		if err != nil {
			break
		}
		full = append(full, f)
	}
	_, err = s.Ask(t.Context(), lockOf(store.NewProcess(), "other"))
	errWatch := s.Watch(context.Background(), store.NewProcess(), func(store.Notification) {})
	errHeld := s.Release(t.Context(), h) // its file is open
	for _, f := range full {
		f.Close()
	}
	for what, err := range map[string]error{"ask": err, "watch": errWatch} {
		if err == nil || store.Definite(err) || !strings.Contains(err.Error(), "too many open files") {
			t.Errorf("%s: got %v, want it indeterminate, with the limit in the error", what, err)
		}
	}
	if errHeld != nil {
		t.Errorf("release of a name whose file is open: %v", errHeld)
	}
}
