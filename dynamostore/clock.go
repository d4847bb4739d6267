package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record/object"
)

// An item does not show when it was written. So its writer stores the server's time, as answers
// show it: each has a Date, truncated to the second, which may have been made a second before. From
// then on the local clock measures how time passes. It may not count a pause of its virtual machine.
// So the time that was stored is compared with the Date of the write's own answer; if it is too
// early, the item is written again.

const (
	// early is how long before the Date of its answer the time in a session may be.
	early = 2 * time.Second
	// late is how much earlier than its write the time in a session may be, in addition to the second
	// that any server may truncate: that Date may be object.Stale behind the server's clock.
	late = early + object.Stale - time.Second
	// writes is how often a session is written, at most, until its time is not too early.
	writes = 3
)

// A clock is a lower bound of the server's clock: what that showed, at least, at an instant of the
// local clock, in microseconds since 1970. The zero clock is unknown.
type clock struct {
	least int64
	at    store.Instant
}

func (c clock) known() bool     { return c.at != 0 }
func (c clock) earliest() int64 { return c.least + store.Now().Sub(c.at).Microseconds() }

func (s *server) time() clock {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock
}

// heard notes the Date of an answer, and returns it; zero means that there is none.
func (s *server) heard(m middleware.Metadata, sent store.Instant) time.Time {
	r, _ := awsmiddleware.GetRawResponse(m).(*smithyhttp.Response)
	return s.dated(r, sent)
}

func (s *server) heardOf(err error, sent store.Instant) time.Time {
	var answer *smithyhttp.ResponseError
	if !errors.As(err, &answer) {
		return time.Time{}
	}
	return s.dated(answer.Response, sent)
}

func (s *server) dated(r *smithyhttp.Response, sent store.Instant) time.Time {
	if r == nil {
		return time.Time{}
	}
	date, err := http.ParseTime(r.Header.Get("Date"))
	now := store.Now()
	if err != nil {
		return date
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = s.clock.after(date, sent, now)
	return date
}

// after returns the clock after an answer with a Date, sent and received at these instants. An
// answer that was under way when another arrived may be the older one, by hours if the virtual
// machine was paused, so it never lowers the bound. A request sent after that shows more: the bound
// is lowered to what it allows, as the local clock may run faster than the server's.
func (c clock) after(date time.Time, sent, now store.Instant) clock {
	least := date.UnixMicro()
	if c.known() {
		kept := c.least + now.Sub(c.at).Microseconds()
		if sent >= c.at { //mutant:dynamo-old-answer-never-lowers
			kept = min(kept, date.Add(object.Stale+now.Sub(sent)).UnixMicro())
		}
		least = max(least, kept)
	}
	return clock{least, now}
}

// errUntimed reports that sessions cannot be judged.
var errUntimed = fmt.Errorf("%w: its answers have no Date, or take longer than two seconds: leases need the server's time", store.ErrUnavailable)

// inTime makes sure that the server's time is known.
func (s *server) inTime(ctx context.Context) error {
	if s.time().known() {
		return nil
	}
	if _, _, err := s.get(ctx, "none"); err != nil {
		return err
	}
	if !s.time().known() {
		return errUntimed
	}
	return nil
}
