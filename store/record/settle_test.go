package record_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/store/record/recordtest"
	"github.com/holdfast-go/holdfast/store/session"
)

// answersLate is a backend with late answers: its renewals are done, and their answers arrive once they are released.
type answersLate struct {
	*recordtest.Client
	sent, letGo chan struct{}
}

func (b answersLate) Renew(ctx context.Context, id session.ID) (int64, error) {
	calls, err := b.Client.Renew(ctx, id)
	select {
	case b.sent <- struct{}{}:
		<-b.letGo
	default:
	}
	return calls, err
}

// A renewal that is under way when the sessions end may have been done before. Its answer says nothing about the end.
func TestSettleLearnsOfSessionsThatEndedDuringARenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := recordtest.NewMemory(recordtest.Options{})
		c := m.Client()
		b := answersLate{c, make(chan struct{}), make(chan struct{})}
		p, q := startOn(t, c, b, false), start(t, m, false)
		q.takes(q.claim())
		p.waits(p.claim())
		<-b.sent
		m.Lapse(p.Sessions()...)
		settled := make(chan error)
		go func() { settled <- p.Settle(t.Context()) }()
		synctest.Wait()
		close(b.letGo)
		if err := <-settled; err != nil {
			t.Fatal(err)
		}
		if n := start(t, m, false).ask(q.claim(try)).Waiting; n != 0 {
			t.Fatalf("%d waiters in the record, want none", n)
		}
	})
}
