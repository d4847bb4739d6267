package holdfast

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A doubting store answers refusals as unsure, for so long.
type doubting struct {
	*link
	doubt func() time.Duration
}

func (s doubting) Ask(ctx context.Context, c store.Claim) (store.Answer, error) {
	a, err := s.link.Ask(ctx, c)
	if err == nil && !a.Granted && c.Try {
		a.Unsure = s.doubt()
	}
	return a, err
}

// unsureUntil is a doubt that ends at a time in the future.
func unsureUntil(d time.Duration) func() time.Duration {
	ends := time.Now().Add(d)
	return func() time.Duration { return max(time.Until(ends), 0) }
}

func TestATryIsAnsweredOnceTheStoreIsSure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		other(t, s.mem, "a", time.Hour)
		began := time.Now()
		_, err := locker(t, doubting{s, unsureUntil(30 * time.Second)}, nil).Mutex("a").TryLock(t.Context())
		if took := time.Since(began); !errors.Is(err, ErrHeld) || took < 30*time.Second || took > 31*time.Second {
			t.Fatalf("got %v after %v, want ErrHeld after 30s", err, took)
		}
		if n := len(s.made("try")); n < 10 || n > 40 {
			t.Errorf("got %d tries, want 10 to 40", n)
		}
	})
}

// The ask after the doubt ends the dead process's hold in the store.
func TestATryIsGrantedWhatADeadHolderHadOnceThatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		o, ends, doubt := other(t, s.mem, "a", time.Hour), time.Now().Add(30*time.Second), unsureUntil(30*time.Second)
		s.on(func(*call) fate {
			if !time.Now().Before(ends) && o != nil {
				o.release()
				o = nil
			}
			return fate{}
		})
		l, err := locker(t, doubting{s, doubt}, nil).Mutex("a").TryLock(t.Context())
		if took := time.Until(ends); err != nil || took < -time.Second {
			t.Fatalf("got %v, %v after the store became sure; want a grant within 1s", err, -took)
		}
		release(t, l)
	})
}

// A name that changes hands is in doubt each time, but its holders are alive.
func TestATryDoesNotWatchOneHolderAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		other(t, s.mem, "a", time.Hour)
		began := time.Now()
		_, err := locker(t, doubting{s, func() time.Duration { return 20 * time.Second }}, nil).Mutex("a").TryLock(t.Context())
		if took := time.Since(began); !errors.Is(err, ErrHeld) || took > 21*time.Second {
			t.Fatalf("got %v after %v, want ErrHeld after 20s", err, took)
		}
	})
}

func TestATryThatWatchesEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLink(t)
		other(t, s.mem, "a", time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		_, err := locker(t, doubting{s, func() time.Duration { return time.Minute }}, nil).Mutex("a").TryLock(ctx)
		if took := time.Since(began); !errors.Is(err, ErrHeld) || !errors.Is(err, context.DeadlineExceeded) || took > 4*time.Second {
			t.Fatalf("got %v after %v, want ErrHeld once its context has ended", err, took)
		}
	})
}
