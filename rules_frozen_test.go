package holdfast

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/memstore"
)

// Some names get no answer, like those on a frozen server of a cluster. All others
// stay held, however many there are and whenever they were granted.
func TestAnUnansweredRenewalDelaysNoOther(t *testing.T) { // rule 4
	for what, o := range map[string]*Options{
		"at a third": {TTL: 9 * time.Second},
		"at a half":  {TTL: 1 << 33, RenewEvery: 1 << 32},
		"short":      {TTL: time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLink(t)
				var frozen atomic.Bool
				far := &hangsFor{link: s, names: func(name string) bool { return frozen.Load() && strings.HasSuffix(name, "7") }}
				l := opened(t, far, o)
				var healthy []*Lease
				for i := range 3000 {
					if i%10 == 0 {
						time.Sleep(l.engine.Options().TTL / 120) // so that they are due at many times
					}
					lease := lock(t, l, fmt.Sprintf("n%04d", i))
					if i%10 != 7 {
						healthy = append(healthy, lease)
					}
				}
				frozen.Store(true)
				for i := range 60 {
					time.Sleep(l.engine.Options().TTL / 6)
					if n := far.mixed.Swap(0); (i == 4 || i == 5) && n > 0 {
						t.Fatalf("%d calls renew names that got answers together with names that got none", n)
					}
					lost := 0
					for _, lease := range healthy {
						if !lease.Valid() {
							lost++
						}
					}
					if lost > 0 {
						t.Fatalf("%d of %d leases were lost, although their renewals are answered", lost, len(healthy))
					}
				}
				frozen.Store(false)
			})
		})
	}
}

// The calls of a lease that is renewed often are short; the calls of others are not.
func TestNoLeasesSettingBoundsAnothersCall(t *testing.T) { // rule 4
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := opened(t, s, nil)
		slow := lock(t, l, "slow")
		for i := range 20 {
			lock(t, l.With(&Options{TTL: time.Second, RenewEvery: 10 * time.Millisecond}), fmt.Sprint(i))
		}
		s.on(func(c *call) fate {
			for _, h := range c.holds {
				if c.op == "renew" && h.Name == "slow" {
					return fate{there: 2 * time.Second} // longer than what the others wait
				}
			}
			return fate{}
		})
		time.Sleep(90 * time.Second) // three TTLs
		if !slow.Valid() {
			t.Fatal("the lease was lost, although its renewals are answered")
		}
		s.on(nil)
	})
}

func TestOptions_TheLeastRenewEvery(t *testing.T) {
	s := memstore.New()
	for _, o := range []*Options{
		{TTL: 10 * time.Second, RenewEvery: 99 * time.Millisecond}, {TTL: 50 * time.Millisecond, RenewEvery: 999 * time.Microsecond},
		{RenewEvery: 1},
	} {
		_, err := New(s, o)
		is(t, err, ErrInvalid)
		if !strings.Contains(err.Error(), "RenewEvery "+o.RenewEvery.String()) {
			t.Errorf("%v does not name the option and its value", err)
		}
	}
	l, err := New(s, &Options{TTL: 10 * time.Second, RenewEvery: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// No option stops the scheduler, and no lease's options stop it for others.
func TestOptions_AHugeDurationIsInvalidAndHarmless(t *testing.T) {
	huge := []time.Duration{math.MaxInt64, math.MaxInt64 - 1, 220 * 365 * 24 * time.Hour, MaxDuration + 1}
	for name, set := range map[string]func(*Options, time.Duration){
		"TTL":          func(o *Options, d time.Duration) { o.TTL = d },
		"RenewEvery":   func(o *Options, d time.Duration) { o.RenewEvery = d },
		"Wait":         func(o *Options, d time.Duration) { o.Wait = d },
		"MinHold":      func(o *Options, d time.Duration) { o.MinHold = d },
		"MaxHold":      func(o *Options, d time.Duration) { o.MaxHold = d },
		"LockDelay":    func(o *Options, d time.Duration) { o.LockDelay = d },
		"PollMin":      func(o *Options, d time.Duration) { o.PollMin = d },
		"PollMax":      func(o *Options, d time.Duration) { o.PollMax = d },
		"HandOver.For": func(o *Options, d time.Duration) { o.HandOver = &HandOver{2, d} },
	} {
		for _, d := range huge {
			o := &Options{}
			set(o, d)
			_, err := New(memstore.New(), o)
			is(t, err, ErrInvalid)
			if !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), d.String()) {
				t.Errorf("%s of %v: %v does not name the option and its value", name, d, err)
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		l := opened(t, s, nil)
		long := lock(t, l.With(&Options{MaxHold: MaxDuration}), "a")
		other := lock(t, l, "b")
		time.Sleep(time.Hour)
		if !long.Valid() || !other.Valid() {
			t.Fatal("the lease was lost")
		}
	})
}

// With all valid options leases are renewed, and are lost or released when they
// should be.
func FuzzOptions(f *testing.F) {
	f.Add(int64(0), int64(0), int64(0), int64(0), int64(0), int64(0), int64(0), int64(0), int64(0), int64(0), false)
	f.Add(int64(time.Second), int64(0), int64(0), int64(0), int64(math.MaxInt64), int64(0), int64(0), int64(0), int64(2), int64(time.Second), false)
	f.Add(int64(time.Hour), int64(time.Minute), int64(math.MaxInt64), int64(1), int64(1<<62), int64(1<<62), int64(1), int64(1<<62), int64(64), int64(1<<62), true)
	f.Add(int64(10*time.Millisecond), int64(time.Millisecond), int64(MaxDuration), int64(time.Second), int64(MaxDuration), int64(1), int64(MaxDuration), int64(MaxDuration), int64(64), int64(MaxDuration), false)
	f.Add(int64(365*24*time.Hour), int64(180*24*time.Hour), int64(0), int64(0), int64(0), int64(365*24*time.Hour), int64(0), int64(0), int64(0), int64(0), false)
	f.Add(int64(70*time.Minute), int64(0), int64(0), int64(0), int64(0), int64(0), int64(time.Millisecond), int64(time.Millisecond), int64(0), int64(0), false)
	f.Fuzz(func(t *testing.T, ttl, every, wait, minHold, maxHold, delay, pollMin, pollMax, times, handFor int64, byHand bool) {
		o := &Options{
			TTL: time.Duration(ttl), RenewEvery: time.Duration(every), Wait: time.Duration(wait), MinHold: time.Duration(minHold),
			MaxHold: time.Duration(maxHold), LockDelay: time.Duration(delay), PollMin: time.Duration(pollMin), PollMax: time.Duration(pollMax),
			Logger: discarded,
		}
		if byHand {
			o.NoRenew = On
		}
		if times != 0 || handFor != 0 {
			o.HandOver = &HandOver{int(times), time.Duration(handFor)}
		}
		synctest.Test(t, func(t *testing.T) {
			s := newLink(t)
			probe, err := New(s, o)
			if err != nil {
				is(t, err, ErrInvalid)
				return
			}
			defer probe.Close()
			beside := probe.With(&Options{}).Mutex("beside")
			plain, err := New(s, &Options{Logger: discarded})
			if err != nil {
				t.Fatal(err)
			}
			defer plain.Close()
			l, err := probe.Mutex("a").Lock(t.Context())
			if err != nil {
				t.Fatal("Lock:", err)
			}
			if !l.Valid() || l.Deadline().Before(time.Now()) {
				t.Fatal("the lease is not valid when it is granted")
			}
			taken := time.Now()
			other, err := beside.TryLock(t.Context())
			if err != nil {
				t.Fatal("TryLock:", err)
			}
			w := waits(t, plain.Mutex("a").Lock)
			mine := waits(t, probe.Mutex("a").Lock)
			// The link records each call: two claims that poll each millisecond for hours
			// would fill gigabytes.
			step := min(probe.engine.Options().TTL/7, 10*time.Minute, 500*probe.engine.Options().PollMax)
			for range 20 {
				time.Sleep(step)
				age := time.Since(taken)
				if bound := probe.engine.Options().MaxHold; bound > 0 && age > bound && l.Valid() {
					t.Fatalf("the lease is valid after %v, with a MaxHold of %v", age, bound)
				}
				ended := probe.engine.Options().MaxHold > 0 && age >= probe.engine.Options().MaxHold || byHand && age >= probe.engine.Options().TTL-probe.engine.Options().TTL/100-engine.Margin
				if !ended && (!l.Valid() || !other.Valid()) {
					t.Fatalf("the lease was lost after %v", age)
				}
				if !byHand && age > probe.engine.Options().RenewEvery*9/8+time.Millisecond && !ended && len(s.made("renew")) == 0 {
					t.Fatalf("nothing was renewed in %v", age)
				}
			}
			if err := l.Renew(t.Context(), probe.engine.Options().TTL); err != nil && l.Valid() {
				t.Fatal("Renew:", err)
			}
			_ = l.Release()
			_ = other.Release()
			if l.Valid() || other.Valid() {
				t.Fatal("the lease is valid after Release")
			}
			w.cancel()
			mine.cancel()
			<-w.done
			<-mine.done
			for _, got := range []*waiter{w, mine} {
				if got.lease != nil {
					_ = got.lease.Release()
				}
			}
		})
	})
}

var discarded = slog.New(slog.DiscardHandler)
