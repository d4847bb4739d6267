package zkstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
)

// ZooKeeper does not delete nodes with data by itself. So each record has a marker below a date, at
// which a process checks whether the record can be deleted. A sweep deletes idle records, and moves
// the markers of records in use to a later date.

const (
	// retention is how long an idle record stays at least. It is much longer than a request can be
	// under way, and than the clocks of two members of an ensemble differ.
	retention = 10 * time.Minute
	// inUse is how long a record found in use is not checked again.
	inUse = 24 * time.Hour
	// batch is how many records are deleted by one transaction.
	batch = 100
)

// due returns the date after that time, in milliseconds, rounded up so that there are few dates.
func (b *backend) due(in time.Duration) int64 {
	now, _ := b.now()
	return b.dateOf(now/1000, in)
}

func (b *backend) dateOf(since int64, in time.Duration) int64 {
	grain := max(b.retention.Milliseconds()/8, 1)
	return (since+in.Milliseconds())/grain*grain + grain
}

func (b *backend) marker(date int64, name string) string {
	return fmt.Sprintf("%s/i/%013d/%s", b.path, date, escape(name))
}

// makeDue creates the date of a marker that could not be created. It returns false if the marker
// exists already.
func (b *backend) makeDue(ctx context.Context, d *data, marker string, why error) (bool, error) {
	if errors.Is(why, zk.ErrNodeExists) {
		return false, nil
	}
	_, err := ask(ctx, d.link, func(c *zk.Conn) (struct{}, error) {
		return struct{}{}, b.makePath(c, path.Dir(marker), zk.FlagContainer)
	})
	return true, err
}

// List implements [record.Backend]. It finds records that were not written for long by their dates.
func (b *backend) List(ctx context.Context, unwritten time.Duration) iter.Seq2[record.Named, error] {
	return func(yield func(record.Named, error) bool) {
		d, err := b.connected(ctx)
		if err == nil {
			if err = b.clocked(ctx, d); err == nil && unwritten > 0 {
				err = b.sweep(ctx, d, unwritten, yield)
			} else if err == nil {
				err = b.all(ctx, d, yield)
			}
		}
		if err != nil && err != errEnough {
			yield(record.Named{}, b.failed(err))
		}
	}
}

// errEnough means that the caller wants no more.
var errEnough = errors.New("enough")

// A seen is a record that was read.
type seen struct {
	named  record.Named
	got    got
	err    error
	marker string
}

// visit reads the records of nodes, many at a time, and calls f for each.
func (b *backend) visit(ctx context.Context, d *data, nodes []string, below string, f func(*seen) error) error {
	for some := range slices.Chunk(nodes, abreast) {
		all := make([]seen, len(some))
		each(len(some), func(i int) {
			s := &all[i]
			s.marker = below + some[i]
			name, ok := unescape(some[i])
			if s.named.Name = name; !ok {
				s.named.Name = some[i]
				s.err = fmt.Errorf("%w: no name has the node %s on %s: it is not of holdfast", store.ErrCorrupt, s.marker, b.address)
				return
			}
			s.named.Record, s.got, s.err = b.read(ctx, d, name, false)
		})
		for i := range all {
			if err := f(&all[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *backend) all(ctx context.Context, d *data, yield func(record.Named, error) bool) error {
	// Later reads are at least as new as this one.
	if _, err := get(ctx, d.link, b.path+"/n", true); err != nil {
		return err
	}
	in, err := b.children(ctx, d, b.path+"/n")
	if err != nil {
		return err
	}
	return b.visit(ctx, d, in.nodes, b.path+"/n/", func(s *seen) error {
		if s.err == nil && (len(s.named.Data) == 0 || s.got.idle()) {
			return nil
		}
		if !yield(s.named, b.failed(s.err)) {
			return errEnough
		}
		return nil
	})
}

// sweep yields records that were not written for that long, and deletes those that have been idle.
func (b *backend) sweep(ctx context.Context, d *data, unwritten time.Duration, yield func(record.Named, error) bool) error {
	dates, err := b.children(ctx, d, b.path+"/i")
	if err != nil {
		return err
	}
	slices.Sort(dates.nodes)
	var idles []*seen
	e := d.epochNow()
	for _, date := range dates.nodes {
		at, _ := strconv.ParseInt(date, 10, 64)
		now, _ := b.now()
		if now /= 1000; at > now && unwritten >= b.inUse {
			break
		}
		below := b.path + "/i/" + date + "/"
		in, err := b.children(ctx, d, strings.TrimSuffix(below, "/"))
		if err != nil {
			return err
		}
		err = b.visit(ctx, d, in.nodes, below, func(s *seen) error {
			age := time.Duration(0)
			if s.got.stat != nil {
				age = time.Duration(now-s.got.stat.Mtime) * time.Millisecond
			}
			free := s.got.stat == nil || s.got.stat.NumChildren == 0 && (s.got.idle() || len(s.got.data) == 0)
			switch {
			case s.err != nil, !free && age >= unwritten:
				if !yield(s.named, b.failed(s.err)) {
					return errEnough
				}
			case at > now:
			case free && (s.got.stat == nil || age >= b.retention): //mutant:zk-idle-is-kept
				if idles = append(idles, s); len(idles) >= batch {
					err := b.delete(ctx, d, idles, &e)
					idles = nil
					return err
				}
			default:
				in := b.inUse
				if free {
					in = b.retention
				}
				return b.move(ctx, d, s, b.dateOf(cmp.Or(s.got.stat.Mtime, now), in))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := b.delete(ctx, d, idles, &e); err != nil {
		return err
	}
	return b.undelivered(ctx, d)
}

// undelivered deletes the letters of a process that no longer exists, in one randomly chosen
// mailbox.
func (b *backend) undelivered(ctx context.Context, d *data) error {
	all, err := b.children(ctx, d, b.path+"/m")
	if err != nil || len(all.nodes) == 0 {
		return err
	}
	box := b.path + "/m/" + all.nodes[rand.N(len(all.nodes))]
	in, err := b.children(ctx, d, box)
	if err != nil || slices.Contains(in.nodes, here[1:]) { //mutant:zk-letters-of-the-living
		return err
	}
	for _, letter := range in.nodes {
		_, _, err := multi(ctx, d.link, &zk.DeleteRequest{Path: box + "/" + letter, Version: -1})
		if err = ignoring(err); err != nil {
			return err
		}
	}
	return nil
}

// delete deletes records and their markers, if they were not written since. That begins a new
// epoch.
func (b *backend) delete(ctx context.Context, d *data, idles []*seen, e *epoch) error {
	for len(idles) > 0 {
		ops := []any{exists(d.node), &zk.SetDataRequest{Path: b.path + "/i", Version: e.version}} //mutant:zk-deleted-in-an-epoch
		if e.version == -2 {                                                                      // -1 would match any version in a swap
			ops = append(ops, &zk.SetDataRequest{Path: b.path + "/i", Version: -1}) //mutant:zk-epoch-that-is-none
		}
		fixed := len(ops)
		var of []int
		for i, s := range idles {
			if of = append(of, i); s.got.stat != nil {
				of = append(of, i, i)
				ops = append(ops, &zk.DeleteRequest{Path: b.nameNode(s.named.Name), Version: s.got.stat.Version}, &zk.DeleteRequest{Path: b.knownNode(s.named.Name), Version: -1})
			}
			ops = append(ops, &zk.DeleteRequest{Path: s.marker, Version: -1})
		}
		_, failed, err := multi(ctx, d.link, ops...)
		switch {
		case failed == 0: // all was deleted
			b.leave(d)
			return nil
		case failed == 1: // others have deleted records, so what was read may be outdated
			return b.epochAgain(ctx, d)
		case err == nil:
			if e.version++; e.version == -1 {
				e.version = 0
			}
			return nil
		case failed < 0:
			return err
		}
		idles = slices.Delete(idles, of[failed-fixed], of[failed-fixed]+1) // it is in use
	}
	return nil
}

// move moves the marker of a record to a later date.
func (b *backend) move(ctx context.Context, d *data, s *seen, date int64) error {
	to := b.marker(date, s.named.Name)
	for range 2 {
		_, failed, err := multi(ctx, d.link, &zk.DeleteRequest{Path: s.marker, Version: -1}, b.create(to, "", zk.FlagPersistent))
		if failed < 1 {
			return ignoring(err)
		}
		there, err := b.makeDue(ctx, d, to, err)
		if err != nil {
			return err
		}
		if !there {
			_, err := ask(ctx, d.link, func(c *zk.Conn) (struct{}, error) { return struct{}{}, c.Delete(s.marker, -1) })
			return ignoring(err)
		}
	}
	return nil
}

// ignoring returns err, unless another process has already done the deletion.
func ignoring(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}
