package pgstore

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
	"github.com/holdfast-go/holdfast/store/session"
)

// form is the version of the stored form. The first had no sessions.
const form = 2

// A found is the result of a statement: what is stored of a name, and the outcome of the operation.
type found struct {
	there   bool   // there is a row
	verdict string // "": done; "L": lost; "I": not upgradeable
	reason  []byte // why an operator broke the hold, as it is stored
	woken   int64  // how many waiters were notified of their grant
	now     int64
	form    int64
	sane    bool // the arrays are of one length
	q       queue.Queue
	in      map[store.ID]session.ID // sessions that keep entries
	was     session.ID              // session that kept the entry before the operation
	ended   over                    // sessions of these that have ended
	skipped int                     // waiters that are not in q: behind the first waiter and ahead of the claim
	name    []byte
	bad     error // what is wrong with an entry
}

// A row is one entry of a found, with the values that all entries share.
type row struct {
	now, form, last                                  int64
	sane                                             bool
	id, broken, owner, session, asks                 []byte
	lim, weight, want, turn, n                       int64
	shown                                            bool
	token, upgradeToken, since, expires, keep, delay int64
}

// dests returns the scan targets of a row.
func (r *row) dests() []any {
	return []any{&r.now, &r.form, &r.sane, &r.last,
		&r.id, &r.lim, &r.weight, &r.want, &r.turn, &r.n, &r.shown, &r.token, &r.upgradeToken, &r.since, &r.expires, &r.keep, &r.delay, &r.broken, &r.owner, &r.session, &r.asks}
}

// add adds a row.
func (f *found) add(r *row) {
	f.there = true
	f.now, f.form, f.sane = r.now, r.form, r.sane
	f.q.Last = r.last
	if r.id == nil {
		return // there is no entry
	}
	var id store.ID
	if copy(id[:], r.id) != len(r.id) || len(r.id) != len(id) || r.n < 1 || r.n > store.MaxBlock {
		f.bad = fmt.Errorf("the id %x, a block of %d", r.id, r.n)
	}
	e := queue.Entry{
		ID: id, Limit: int32(r.lim), Weight: int32(r.weight), Want: int32(r.want), Turn: int32(r.turn), N: uint16(r.n),
		Granted: r.token != 0, Shown: r.shown, Token: r.token, UpgradeToken: r.upgradeToken, Since: r.since, Expires: r.expires,
		MinHold: r.keep, LockDelay: r.delay, Owner: string(r.owner),
	}
	if reason := string(r.broken); reason != "" {
		e.Broken = &reason
	}
	if asks := string(r.asks); asks != "" && (r.token == 0 || r.want > r.weight) { // in any other hold it is left from before the grant
		e.GiveUp = &asks
	}
	if len(r.session) == len(session.ID{}) {
		if f.in == nil {
			f.in = map[store.ID]session.ID{}
		}
		f.in[id] = session.ID(r.session)
	} else if len(r.session) != 0 {
		f.bad = fmt.Errorf("the session %x", r.session)
	}
	f.q.Entries = append(f.q.Entries, e)
}

// entry returns the entry of an id, or nil.
func (f *found) entry(id store.ID) *queue.Entry {
	for i := range f.q.Entries {
		if e := &f.q.Entries[i]; e.ID == id {
			return e
		}
	}
	return nil
}

// isBehind reports whether an entry waits behind another waiter.
func (f *found) isBehind(id store.ID) bool {
	for i := range f.q.Entries {
		if e := &f.q.Entries[i]; !e.Granted {
			return e.ID != id && f.entry(id) != nil
		}
	}
	return false
}

// poll answers a claim from the entries found.
func (f *found) poll(c *store.Claim) (store.Answer, error) {
	a, err := f.q.Poll(f.time(), c.Name, c)
	if err == nil && !a.Granted {
		a.Waiting += f.skipped
	}
	return a, err
}

func (f *found) time() queue.Time { return queue.Time{Clock: f.now, Wall: f.now} }

// check returns an error if the stored state is foreign, newer or damaged.
func (s *Store) check(f *found, name string) error {
	switch where := fmt.Sprintf("the row of %q in %s of %s", name, s.where(), s.address); {
	case !f.there:
		return nil
	case f.form != form:
		return store.NewerFormError(where, int(f.form), form)
	case !f.sane:
		return fmt.Errorf("%w: %s: its arrays are not of one length, or hold nonsense; it was not changed: delete it if nothing else uses it", store.ErrCorrupt, where)
	case f.bad != nil:
		return fmt.Errorf("%w: %s: %w; it was not changed: delete it if nothing else uses it", store.ErrCorrupt, where, f.bad)
	}
	return nil
}

// lost returns an error if the hold is lost: there is no row, or the verdict says so.
func (f *found) lost() error {
	switch {
	case !f.there:
		return store.ErrLost
	case f.verdict != "L":
		return nil
	}
	return queue.LostFor(string(f.reason))
}

// act runs one of the full statements. over has the sessions whose end is final, and expired claims
// of this process. A missing row or table is no error.
func (s *Store) act(ctx context.Context, what, name string, over over, statement string, args ...any) (*found, error) {
	var f *found
	ended, ago := over.text()
	args = append(args, ended, ago)
	err := s.run(ctx, statement, args, func() { f = &found{} }, func(scan func(...any) error) error {
		var r row
		var durable int64
		var was []byte
		if err := scan(append([]any{&f.verdict, &f.reason, &was, &f.woken, &durable}, r.dests()...)...); err != nil {
			return err
		}
		copy(f.was[:], was)
		f.add(&r)
		return nil
	})
	return s.finish(f, err, what, name)
}

func (s *Store) finish(f *found, err error, what, name string) (*found, error) {
	if isNoTable(err) {
		return &found{}, nil
	}
	if err != nil {
		return nil, s.failed(fmt.Sprintf("%s %q", what, name), err)
	}
	s.claims.hear(f.now)
	return f, s.check(f, name)
}

// look reads what is stored of a name, and how long the sessions of its holders still last.
func (s *Store) look(ctx context.Context, name string) (*found, error) {
	return s.read(ctx, "look at", name, s.do.ahead, []byte(name), []byte{})
}

// lookAhead reads what a claim must know of the entries ahead of it, and finds out whether the
// holders and the first waiter live.
func (s *Store) lookAhead(ctx context.Context, name string, id store.ID) (*found, error) {
	f, err := s.read(ctx, "look at", name, s.do.ahead, []byte(name), id[:])
	if err == nil {
		err = s.judge(ctx, f, ahead(id)) //mutant:pg-dead-waiter-is-in-the-way
	}
	return f, err
}

// read runs a statement that returns entries of a name, and the number of other waiters ahead.
func (s *Store) read(ctx context.Context, what, name, statement string, args ...any) (*found, error) {
	var f *found
	err := s.run(ctx, statement, args, func() { f = &found{} }, func(scan func(...any) error) error {
		var r row
		var left *int64
		var durable *string
		if err := scan(append(r.dests(), &left, &f.skipped, &durable)...); err != nil {
			return err
		}
		f.add(&r)
		if left != nil && len(r.session) == len(session.ID{}) {
			s.sessions.Saw(session.ID(r.session), time.Duration(*left)*time.Microsecond)
		}
		return nil
	})
	return s.finish(f, err, what, name)
}

// An array builds an array of the server as text, which every driver can send.
type array struct{ strings.Builder }

func (a *array) next() {
	if a.Len() == 0 {
		a.WriteByte('{')
	} else {
		a.WriteByte(',')
	}
}

func (a *array) number(n int64) {
	a.next()
	a.WriteString(strconv.FormatInt(n, 10))
}

func (a *array) bool(is bool) {
	a.next()
	a.WriteString(strconv.FormatBool(is))
}

func (a *array) bytes(b string) {
	a.next()
	a.WriteString(`"\\x` + hex.EncodeToString([]byte(b)) + `"`)
}

// session adds the id of a session, or an empty value for none.
func (a *array) session(id session.ID) {
	if id == (session.ID{}) {
		a.bytes("")
		return
	}
	a.bytes(string(id[:]))
}

func (a *array) text() string {
	if a.Len() == 0 {
		return "{}"
	}
	return a.String() + "}"
}

// micros rounds up, so that no hold is shorter than was asked for.
func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }
