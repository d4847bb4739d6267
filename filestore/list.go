package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/queue"
)

// List implements [store.Inspector]. It shows entries of dead processes as expired, even
// if they have not been dropped yet.
func (s *Store) List(ctx context.Context, name string) iter.Seq2[store.State, error] {
	return func(yield func(store.State, error) bool) {
		tested := map[store.Process]bool{}
		dead := func(p store.Process) bool {
			d, ok := tested[p]
			if !ok {
				d = s.dead(p)
				tested[p] = d
			}
			return d
		}
		show := func(name string, q *queue.Queue, err error) bool {
			if err != nil {
				return yield(store.State{Name: name}, err)
			}
			now := s.now()
			lapse(now, q, dead)
			st := q.State(now, name)
			return len(st.Entries) == 0 || yield(st, nil)
		}
		if name != "" {
			q, err := s.peek(ctx, "list", name)
			show(name, q, err)
			return
		}
		dir := filepath.Join(s.dir, namesDir)
		files, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // it was removed with all its files
			yield(store.State{}, fmt.Errorf("%w: list the names in %s: %w", store.ErrUnavailable, s, err))
			return
		}
		for _, f := range files {
			if ctx.Err() != nil {
				yield(store.State{}, fmt.Errorf("%w: list the names in %s: %w", store.ErrUnavailable, s, ctx.Err()))
				return
			}
			path := filepath.Join(dir, f.Name())
			name, err := s.nameOf(path)
			if name == "" && err == nil {
				continue // never used, or removed
			}
			var q *queue.Queue
			if err == nil {
				q, err = s.peek(ctx, "list", name)
			}
			if !show(name, q, err) {
				return
			}
		}
	}
}

// nameOf reads the name that a state file belongs to.
func (s *Store) nameOf(path string) (string, error) {
	name, _, err := s.glanceAt(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err == nil && name != "" && fileName(name) != filepath.Base(path) {
		err = errOtherName
	}
	if err != nil {
		return "", s.storeError("list", "", path, err)
	}
	return name, nil
}

// peek reads the queue of a name without locking the file. The queue of an unused name
// is empty.
func (s *Store) peek(ctx context.Context, op, name string) (*queue.Queue, error) {
	path := s.path(name)
	found, q, err := s.glanceAt(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &queue.Queue{}, nil
	}
	if err == errBadRecord { // it changes too fast or is corrupt: a read under the lock decides
		q = new(queue.Queue)
		return q, s.do(ctx, op, name, false, func(_ queue.Time, now *queue.Queue) queue.Change {
			*q = *now
			q.Entries = slices.Clone(now.Entries)
			return queue.Change{}
		})
	}
	if err == nil && found != "" && found != name {
		err = errOtherName
	}
	if err != nil {
		return nil, s.storeError(op, name, path, err)
	}
	return q, nil
}

// glances is how often a read without the lock is tried. A read fails if both slots are
// caught while they are being written.
const glances = 8

// glanceAt opens the file at path and reads its name and queue without the lock.
func (s *Store) glanceAt(path string) (name string, q *queue.Queue, err error) {
	f, id, _, err := openState(path, false, s.fileMode)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	fl := &file{f: f, path: path, id: id}
	name, err = s.glance(fl)
	return name, &fl.q, err
}

// glance reads a file without the lock. It returns the name of the file, "" if it was
// never used.
func (s *Store) glance(fl *file) (name string, err error) {
	for range glances {
		if name, err = s.read(fl); err != errBadRecord {
			break
		}
	}
	return name, err
}

// lapse marks the entries of dead processes as expired. It grants nothing: a token drawn
// only for a list would belong to no claim.
func lapse(now queue.Time, q *queue.Queue, dead func(store.Process) bool) {
	for i := range q.Entries {
		if e := &q.Entries[i]; e.Expires > now.Clock && dead(e.ID.Process()) {
			e.Expires = now.Clock
		}
	}
}
