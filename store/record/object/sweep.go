package object

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store/record"
)

// Unused objects are deleted: taken-in notes by the process that took them in, sessions by the process that
// ends them or finds them expired. A sweep deletes names, and notes and sessions that a crash left.

// deleted holds the notes that are deleted, for records that still list them as taken in.
type deleted struct {
	mu    sync.Mutex
	notes map[string]bool     // by version
	taken map[string][]string // by name: the notes that its record listed as taken in, when it was last read
	left  map[string][]string // by name: those of them that were in its inbox after that
}

// remembered is how many deleted notes, and names, are remembered.
const remembered = 10_000

// bounded forgets all of a map that is too large.
func bounded[V any](m map[string]V) {
	if len(m) > remembered {
		clear(m)
	}
}

// took notes what a record that was just read lists as taken in.
func (d *deleted) took(name string, taken []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	bounded(d.taken)
	if delete(d.taken, name); len(taken) > 0 {
		d.taken[name] = taken
	}
}

// of returns what the record of a name listed as taken in, when it was last read.
func (d *deleted) of(name string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.taken[name]
}

// listed notes the whole inbox of a name, as a listing that began after taken was read returned it.
func (d *deleted) listed(name string, taken []string, there map[string]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	bounded(d.left)
	delete(d.left, name)
	for _, v := range taken {
		if there[objectOf(v)] { //mutant:object-left-note-is-deleted
			d.left[name] = append(d.left[name], v)
			continue
		}
		bounded(d.notes)
		d.notes[v] = true //mutant:object-note-gone-is-deleted
	}
}

// add notes deleted notes.
func (d *deleted) add(notes []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	bounded(d.notes)
	for _, v := range notes {
		d.notes[v] = true
	}
}

// mine returns those of the taken in notes that the caller has to delete: the notes that it took in itself, and those
// that others took in and left.
func (d *deleted) mine(name string, taken, own []string) map[string][]string {
	d.mu.Lock()
	left := append(slices.Clone(own), d.left[name]...)
	delete(d.left, name)
	d.mu.Unlock()
	all := whole(taken)
	maps.DeleteFunc(all, func(id string, _ []string) bool {
		return !slices.ContainsFunc(left, func(v string) bool { return objectOf(v) == id }) //mutant:object-each-deletes-all
	})
	return all
}

func (b *Backend) isDeleted(note string) bool {
	b.deleted.mu.Lock()
	defer b.deleted.mu.Unlock()
	return b.deleted.notes[note]
}

// untilDeleted returns the notes that are not known to be deleted. What proves it is the answer to a deletion, or a
// listing that began after a record was read that lists the note: one that began before may have missed it.
func (b *Backend) untilDeleted(taken []string) []string {
	return slices.DeleteFunc(slices.Clone(taken), b.isDeleted) //mutant:object-taken-in-is-forgotten
}

// delete deletes objects of an inbox, given with their notes. It does not wait for that: if it fails, a later writer of
// the name deletes them.
func (b *Backend) delete(name string, all map[string][]string) {
	for id, versions := range all {
		b.behind(func(ctx context.Context) {
			if b.server.Delete(ctx, b.inboxKey(name)+id, "") == nil {
				b.deleted.add(versions)
			}
		})
	}
}

// List implements [record.Backend]. With unwritten it lists all objects, and deletes old unused ones.
func (b *Backend) List(ctx context.Context, unwritten time.Duration) iter.Seq2[record.Named, error] {
	return func(yield func(record.Named, error) bool) { b.list(ctx, unwritten, "", func(string) {}, yield) }
}

// list yields the names whose keys follow after. It calls at with each key that it has finished.
func (b *Backend) list(ctx context.Context, unwritten time.Duration, after string, at func(key string), yield func(record.Named, error) bool) {
	names := b.Prefix + "n/"
	under := names
	if unwritten > 0 {
		under = b.Prefix
	}
	for l, err := range b.lister.List(ctx, under, after, page) {
		if err != nil {
			yield(record.Named{}, err)
			return
		}
		if !b.one(ctx, unwritten, names, l, yield) {
			return
		}
		if ctx.Err() == nil {
			at(l.Key)
		}
	}
}

// one handles one listed object, and reports whether to go on.
func (b *Backend) one(ctx context.Context, unwritten time.Duration, names string, l Object, yield func(record.Named, error) bool) bool {
	if l.Key == names+keep {
		return true
	}
	if unwritten > 0 && !l.timed() { // its age is unknown //mutant:object-untimed-is-swept
		return true
	}
	if unwritten > 0 && l.Now.Sub(l.Written) < unwritten-time.Second { // its times are truncated to the second //mutant:object-young-listed
		return true
	}
	if !strings.HasPrefix(l.Key, names) {
		b.Discard(ctx, l)
		return true
	}
	o, err := b.server.Get(ctx, l.Key)
	if err == nil && o.Version == "" {
		return true
	}
	var r record.Record
	var h head
	if err == nil {
		r, h, err = b.recordOf("", o)
	}
	switch {
	case err != nil:
		h.Name = []byte(strings.TrimPrefix(l.Key, names))
	case h.Idle:
		if unwritten > 0 {
			b.forget(ctx, string(h.Name), o)
		}
		return true
	}
	return yield(record.Named{Name: string(h.Name), Record: r}, err)
}

// Old reports whether an object was not written for longer than the retention, with a second for the truncated
// times.
func (b *Backend) Old(o Object) bool {
	return o.timed() && o.Now.Sub(o.Written) > b.Retention+time.Second //mutant:object-untimed-is-old
}

// objectOf returns the object of a note, by its version.
func objectOf(version string) string {
	id, _, _ := strings.Cut(version, ".")
	return id
}

// whole returns the objects all of whose notes are taken in, with the versions of the notes.
func whole(taken []string) map[string][]string {
	all := map[string][]string{}
	for _, v := range taken {
		all[objectOf(v)] = append(all[objectOf(v)], v)
	}
	maps.DeleteFunc(all, func(_ string, versions []string) bool {
		return !strings.HasSuffix(versions[0], "."+strconv.Itoa(len(versions))) //mutant:object-half-taken-is-deleted
	})
	return all
}

// forget deletes the record of a name that was idle for long, unless there are notes. It does so only if the server
// compares and deletes in one step: otherwise a claim that comes right then would be deleted with it.
func (b *Backend) forget(ctx context.Context, name string, o Object) {
	if !b.deletes.Load() || !b.Old(o) { //mutant:object-idle-is-kept
		return
	}
	for range b.lister.List(ctx, b.inboxKey(name), "", 1) { // a note, or an error
		return
	}
	_ = b.server.Delete(ctx, b.recordKey(name), o.Version) // the next sweep tries again
}

// Discard deletes what a crash has left of a session or an inbox, if it is old.
func (b *Backend) Discard(ctx context.Context, l Object) {
	kind, rest, _ := strings.Cut(strings.TrimPrefix(l.Key, b.Prefix), "/")
	id, isID := sessionOf(rest)
	switch {
	case !b.Old(l), rest == keep: //mutant:object-keeper-is-kept
	case kind == "s" && isID:
		_, _ = b.left(ctx, id) // which deletes an expired one
	case kind == "c" && isID:
		if o, err := b.server.Get(ctx, b.sessionKey(id)); err == nil && o.Version == "" {
			_ = b.server.Delete(ctx, l.Key, "")
		}
	case kind == "j", kind == "t":
		_ = b.server.Delete(ctx, l.Key, "")
	}
}
