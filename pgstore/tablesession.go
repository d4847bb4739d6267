package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/session"
)

// sessionsSuffix is the suffix of the sessions' table after the name of the locks' table.
const sessionsSuffix = "_sessions"

// A sessionTable is a session.Backend with one row per session. The row has the time at which the
// session expires on the server's clock, or 0 or the negated time once its end is final. Every
// statement that decides on a session writes its row, so it decides on the row as it is once
// locked.
type sessionTable struct{ *Store }

var _ interface {
	session.Backend
	session.Replaceable
} = sessionTable{}

// SessionTraits implements [session.Backend].
func (sessionTable) SessionTraits() session.Traits {
	return session.Traits{Life: session.ByServerClock, MinTTL: minTTL, MaxTTL: maxTTL, Tick: time.Microsecond}
}

// write runs a statement on the row of one session, and reports whether it wrote any.
func (s sessionTable) write(ctx context.Context, statement string, args []any, also ...any) (wrote bool, err error) {
	err = s.run(ctx, statement, args, func() { wrote = false }, func(scan func(...any) error) error {
		wrote = true
		var durable *string
		return scan(append(also, &durable)...)
	})
	return wrote, err
}

// Begin implements [session.Backend].
func (s sessionTable) Begin(ctx context.Context, id session.ID, ttl time.Duration) (time.Duration, error) {
	begin := func() error {
		var now, started int64
		_, err := s.write(ctx, s.do.session.begin, []any{id[:], micros(ttl)}, &now, &started)
		if err == nil {
			s.claims.hear(now)
			s.server.Store(started) //mutant:pg-server-of-a-begin
		}
		return err
	}
	err := begin()
	if isNoTable(err) {
		if err = s.create(ctx); err != nil {
			return 0, err
		}
		err = begin()
	}
	if code(err) == "23505" {
		return 0, fmt.Errorf("%w: session %v was begun before", store.ErrInvalid, id)
	}
	if err != nil { // also if there is no table yet: for others, a session without a row has ended
		return 0, s.failed("begin a session in "+s.where()+sessionsSuffix, err)
	}
	return ttl, nil
}

// Renew implements [session.Backend].
func (s sessionTable) Renew(ctx context.Context, id session.ID) (calls int64, err error) {
	var now, started int64
	there, err := s.write(ctx, s.do.session.renew, []any{id[:]}, &calls, &now, &started)
	if err == nil && !there || isNoTable(err) {
		return 0, store.ErrLost
	}
	if err == nil {
		s.claims.hear(now)
		s.server.Store(started) //mutant:pg-server-of-a-renewal
	}
	return calls, s.sessionFailed("renew", err)
}

// Server implements [session.Replaceable]. It returns when the server that answered last was
// started, in microseconds. A replica has a start time of its own, and renews nothing before it is
// promoted. A restarted server counts as another one: it may have lost what its disk did not keep.
func (s sessionTable) Server() int64 { return s.server.Load() }

// Call implements [session.Backend].
func (s sessionTable) Call(ctx context.Context, id session.ID) error {
	_, err := s.write(ctx, s.do.session.call, []any{id[:]})
	return s.sessionFailed("call", err)
}

// End implements [session.Backend].
func (s sessionTable) End(ctx context.Context, id session.ID) error {
	var over int64
	_, err := s.write(ctx, s.do.session.end, []any{id[:], false}, &over)
	return s.sessionFailed("end", err)
}

// Left implements [session.Backend]. A statement that writes the row of an expired session makes
// its end final, because a renewal may be under way.
func (s sessionTable) Left(ctx context.Context, ids []session.ID) ([]time.Duration, error) {
	for {
		left, expired, err := s.readLeft(ctx, ids)
		if err != nil {
			return nil, err
		}
		again := false
		for _, id := range expired {
			var over int64
			ended, err := s.write(ctx, s.do.session.end, []any{id[:], true}, &over) //mutant:pg-session-end-is-final
			if err != nil {
				return nil, s.sessionFailed("end", err)
			}
			left[id] = -over
			again = again || !ended // it was renewed meanwhile, or deleted
		}
		if again {
			continue
		}
		out := make([]time.Duration, len(ids))
		for i, id := range ids {
			out[i] = time.Duration(left[id]) * time.Microsecond
		}
		return out, nil
	}
}

// readLeft reads how many µs sessions have left, and which of them have expired without a final
// end. A missing one has 0.
func (s *Store) readLeft(ctx context.Context, ids []session.ID) (left map[session.ID]int64, expired []session.ID, err error) {
	var in array
	for i := range ids {
		in.session(ids[i])
	}
	begin := func() { left, expired = map[session.ID]int64{}, nil }
	err = s.run(ctx, s.do.session.left, []any{in.text()}, begin, func(scan func(...any) error) error {
		var id []byte
		var us int64
		var final bool
		if err := scan(&id, &us, &final); err != nil || len(id) != len(session.ID{}) {
			return err
		}
		if left[session.ID(id)] = us; us <= 0 && !final {
			expired = append(expired, session.ID(id))
		}
		return nil
	})
	return left, expired, s.sessionFailed("look at", err)
}

// Await implements [session.Backend]: nothing reports the end.
func (sessionTable) Await(context.Context, session.ID) error { return store.ErrUnsupported }

func (s *Store) sessionFailed(what string, err error) error {
	if err == nil || isNoTable(err) {
		return nil
	}
	return s.failed(what+" a session in "+s.where()+sessionsSuffix, err)
}

// An over has the ids of sessions whose end is final, and of expired claims of this process that
// sessions keep, and how long ago they ended.
type over map[string]time.Duration

func (o *over) add(id []byte, ago time.Duration) {
	if *o == nil {
		*o = over{}
	}
	(*o)[string(id)] = ago
}

// text returns the arguments of a full statement.
func (o over) text() (ids, ago string) {
	var a, b array
	for id, d := range o {
		a.bytes(id)
		b.number(d.Microseconds())
	}
	return a.text(), b.text()
}

// A whose selects the entries about whose sessions the server is asked.
type whose func(e *queue.Entry) bool

func nobodys(*queue.Entry) bool    { return false }
func holders(e *queue.Entry) bool  { return e.Granted }
func everybodys(*queue.Entry) bool { return true }

// ahead selects all entries ahead of a claim, or all if it has no entry. A dead waiter blocks like
// a holder: behind readers, a dead writer blocks other readers.
func ahead(id store.ID) whose {
	behind := false
	return func(e *queue.Entry) bool {
		behind = behind || e.ID == id
		return !behind
	}
}

// judge lets each entry that a session keeps expire with the session. It asks the server about
// selected sessions that this process does not know. It notes ended sessions in f.ended: an earlier
// statement than the one that decides on them has made their end final.
func (s *Store) judge(ctx context.Context, f *found, of whose) error {
	var ask []session.ID
	asked := map[session.ID]bool{}
	for i := range f.q.Entries {
		e := &f.q.Entries[i]
		if in, kept := f.in[e.ID]; of(e) && kept && !asked[in] { //mutant:pg-holders-are-asked-about
			if _, known := s.sessions.Known(in); !known {
				ask, asked[in] = append(ask, in), true
			}
		}
	}
	if len(ask) > 0 {
		if err := s.sessions.Ask(ctx, ask); err != nil {
			return err
		}
	}
	f.ended = nil
	for i := range f.q.Entries {
		e := &f.q.Entries[i]
		in, kept := f.in[e.ID]
		if !kept {
			continue
		}
		left, known := s.sessions.Known(in)
		switch {
		case !known: // not checked: no waiter is kept for longer than this
			left = store.MaxPositionTTL
		case left <= 0:
			f.ended.add(in[:], -left) //mutant:pg-ended-just-now
		}
		e.Expires = min(e.Expires, f.now+micros(left))
	}
	return nil
}

// lookJudged reads what is stored of a name, and finds out whether the selected entries live.
func (s *Store) lookJudged(ctx context.Context, name string, of whose) (*found, error) {
	f, err := s.look(ctx, name)
	if err == nil {
		err = s.judge(ctx, f, of)
	}
	return f, err
}

// settle drops the expired entries of a name, and grants the waiters that then fit.
func (s *Store) settle(ctx context.Context, name string) error {
	f, err := s.lookJudged(ctx, name, everybodys)
	if err != nil {
		return err
	}
	if len(f.ended) == 0 {
		now := f.time()
		q := queue.Queue{Last: f.q.Last, Entries: f.q.Entries, OneLimit: true}
		if c, _ := q.Release(now, &store.Hold{Name: name}); !c.Wrote { // nothing has expired
			return nil
		}
	}
	return s.drop(ctx, name, f.ended, true) // this is rare
}

// drop drops ended entries, and all other expired ones in the row, and grants the waiters that then
// fit.
func (s *Store) drop(ctx context.Context, name string, over over, announces bool) error {
	_, err := s.act(ctx, "settle", name, over, s.do.release, []byte(name), make([]byte, len(store.ID{})), int64(0), int64(0), announces)
	return err
}
