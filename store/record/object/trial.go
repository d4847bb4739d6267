package object

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A trying is a trial under way.
type trying struct {
	done chan struct{}
	err  error // set before done is closed
}

// trialPatience is the timeout of a trial. It may exceed the caller's: on a slow link a trial takes longer than an
// ask.
const trialPatience = 30 * time.Second

// Prepare makes sure, once, that the server does conditional writes as locks need them. All callers wait for the
// trial that the first of them begins, which continues if that caller stops waiting. After a failed trial the next
// caller begins another.
func (b *Backend) Prepare(ctx context.Context) error {
	if b.tried.Load() {
		return nil
	}
	b.mu.Lock()
	t := b.trying
	if b.tried.Load() {
		b.mu.Unlock()
		return nil
	}
	if t == nil { //mutant:object-trial-each
		t = &trying{done: make(chan struct{})}
		b.trying = t
		caller := ctx
		b.tasks.Go(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(caller), trialPatience) // keeps the values of the first caller //mutant:object-trial-ends-with-its-caller
			defer cancel()
			defer context.AfterFunc(b.ctx, cancel)()
			err := b.keepDirectories(ctx)
			if err == nil {
				err = b.trial(ctx)
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			if err == nil {
				b.tried.Store(true)
			}
			t.err, b.trying = err, nil
			close(t.done)
		})
	}
	b.mu.Unlock()
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Heard implements [record.Preparer].
func (b *Backend) Heard() store.Instant { return store.Instant(b.heard.Load()) }

// keep is the last part of the key of an object that is never deleted.
const keep = "keep"

// keepDirectories writes an object into each directory, on a server that stores its objects as files. versitygw 1.8
// deletes a directory with its last object. It then answers some concurrent writes as done that are not: a session
// would be missing that its owner counts on. A write that is refused, because the object exists, proves that it
// does.
func (b *Backend) keepDirectories(ctx context.Context) error {
	kinds := []string{"s/", "c/", "j/", "n/", "t/"} // the last one shows that the others exist
	key := func(i int) string { return b.Prefix + kinds[i] + keep }
	last := len(kinds) - 1
	o, err := b.server.Get(ctx, key(last))
	if err != nil || o.Version != "" || b.Atomic(o.Server) { //mutant:object-directories-are-kept
		return err
	}
	write := func(i int) error {
		for range maxRaces {
			_, what, err := b.put(ctx, key(i), []byte("a directory stays while this is here\n"), "")
			if err != nil || what == Refused { //mutant:object-kept-for-sure
				return err
			}
		}
		return b.unfit(late, "If-None-Match")
	}
	if err := together(last, write); err != nil {
		return err
	}
	return write(last)
}

// writers is how many writes of a trial are sent at once.
const writers = 4

// late is the message about a server that does a write whose condition does not hold.
const late = "a write with %s, which must fail, is done: it does not heed that condition; use a server that does"

// older is the message about a server, or a cache in front of it, whose reads show an older write.
const older = "what was read is not what was written last: if a cache is between, connect to the server itself, and else use another server"

func (b *Backend) unfit(format string, args ...any) error {
	return fmt.Errorf("%w: %s cannot keep locks: %s", store.ErrUnsupported, b.Address, fmt.Sprintf(format, args...))
}

// trial writes an object of its own as locks do, and checks that each write that must fail does. Many servers that
// speak the S3 protocol ignore If-Match, and do the write.
func (b *Backend) trial(ctx context.Context) error {
	key := b.Prefix + "t/" + rand.Text()
	defer b.behind(func(ctx context.Context) { _ = b.server.Delete(ctx, key, "") })
	one := func(etag string) ([]Fate, Object, error) {
		var won Object
		fates, wins := make([]Fate, writers), atomic.Int32{}
		err := together(writers, func(i int) error {
			o, what, err := b.put(ctx, key, []byte(rand.Text()), etag)
			if fates[i] = what; what == Done && wins.Add(1) == 1 {
				won = o
			}
			return err
		})
		return fates, won, err
	}
	etag, overtaken, began := "", "", store.Instant(0)
	for _, what := range []string{"If-None-Match", "If-Match"} {
		began = store.Now()
		fates, won, err := one(etag)
		if err != nil {
			return err
		}
		n := 0
		for _, f := range fates {
			if f == Done {
				n++
			}
		}
		switch {
		case n > 1: //mutant:object-trial-of-writers
			return b.unfit("of %d writers that wrote an object at once, each with %s, %d were told that they had: it does not heed that condition; use a server that does", writers, what, n)
		case n == 0:
			return fmt.Errorf("of %d that wrote an object of %s at once none has", writers, b.Address)
		case won.Unfit != "": //mutant:object-trial-of-rules
			return b.unfit("%s", won.Unfit)
		}
		if _, f, err := b.server.Put(ctx, key, []byte("late"), etag); err != nil {
			return err
		} else if f == Done { //mutant:object-trial-of-late
			return b.unfit(late, what)
		}
		etag, overtaken = won.Version, etag
		b.deletes.Store(b.Atomic(won.Server))
		if overtaken == "" { // a cache remembers this read, and oneClock reads again
			if o, err := b.server.Get(ctx, key); err != nil {
				return err
			} else if o.Version != etag {
				return b.unfit(older)
			}
		}
	}
	if _, f, err := b.server.Put(ctx, key+"-none", []byte("late"), etag); err != nil {
		return err
	} else if f == Done { //mutant:object-trial-of-none
		b.behind(func(ctx context.Context) { _ = b.server.Delete(ctx, key+"-none", "") })
		return b.unfit("a write with If-Match makes an object that was not there: a session that has ended could be renewed; use a server that does not")
	}
	if b.deletes.Load() { // without the right to delete, nothing is ever deleted
		if err := b.server.Delete(ctx, key, overtaken); err != nil && !store.Definite(err) {
			return err
		}
	}
	return b.oneClock(ctx, key, etag, began)
}

// looks is how often oneClock compares the clocks.
const looks = 4

// oneClock reads an object that was written after began, and checks that its times are from one clock. A server that makes
// a new Date each second has an old one for a moment after it was stopped, so oneClock tries again.
func (b *Backend) oneClock(ctx context.Context, key, version string, began store.Instant) error {
	written := store.Now()
	for look := 1; ; look++ {
		before := store.Now()
		o, err := b.server.Get(ctx, key)
		b.timed.Store(o.timed())
		age := o.Now.Sub(o.Written)
		switch {
		case err != nil:
			return err
		case o.Version == "" && b.deletes.Load(): //mutant:object-trial-of-deletes
			return b.unfit("a delete with If-Match, which must fail, is done: the object of a name could be deleted while the name is held; use a server that heeds that condition")
		case o.Version != version: //mutant:object-trial-of-caches
			return b.unfit(older)
		case !o.timed() || age >= before.Sub(written)-clocks && age <= store.Now().Sub(began)+apart+time.Second+b.Late: //mutant:object-trial-of-clocks
			return nil
		case look == looks: //mutant:object-trial-looks-again
			return b.unfit("an object that was just written is from %v by its Last-Modified, and its answer from %v by its Date: they are of two clocks, which differ by more than %v", o.Written, o.Now, apart)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Timed reports whether the answers to the trial had the server's time, and the time when an object was written.
func (b *Backend) Timed() bool { return b.timed.Load() }

const (
	// apart is how far the clocks of a server's machines may be apart; margin has it.
	apart = time.Second
	// clocks is how far the Date of an answer may be behind the Last-Modified of an object written at that moment. It is
	// ahead by less: apart, and the truncation of the Last-Modified to the second.
	clocks = apart + Stale
)
