package zkstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
)

// The node of a name has the record, after a head of two bytes. Its children are the notes; a
// note's content is its name. A node without data was created as the parent of notes.

const (
	form      = 2 // the version of the stored form: the first byte of a record
	idle      = 1 // in the second byte, where it is set
	head      = 2
	maxRecord = 550_000 // leaves room for notes and letters in the megabyte that ZooKeeper takes in a request
	maxInbox  = 150_000 // bytes of the nodes that are deleted by one swap
)

// Traits implements [record.Backend].
func (b *backend) Traits() record.Traits {
	return record.Traits{Void: record.VoidByCall, Notifies: true, Clock: true, MaxRecord: maxRecord, Retention: b.retention}
}

var inPath = strings.NewReplacer(".", "%2E", "+", "%20")

// escape keeps letters, digits, "_", "-" and "~".
func escape(name string) string {
	return inPath.Replace(url.QueryEscape(name)) //mutant:zk-names-are-apart
}

func unescape(node string) (name string, ok bool) {
	name, err := url.QueryUnescape(node)
	return name, err == nil && name != "" && escape(name) == node
}

func (b *backend) nameNode(name string) string { return b.path + "/n/" + escape(name) }

// knownNode returns the node that is created and deleted with the record, by the same transactions.
// If only this node exists, the record was deleted from outside and a hold in it may still be held,
// so the record is not recreated.
func (b *backend) knownNode(name string) string { return b.path + "/k/" + escape(name) }

// begun returns the operations that create the nodes of a name.
func (b *backend) begun(name string) []any {
	return []any{b.create(b.nameNode(name), "", zk.FlagPersistent), b.create(b.knownNode(name), "", zk.FlagPersistent)} //mutant:zk-record-is-known
}

func (b *backend) deletedByHand(name string) error {
	return fmt.Errorf("%w: node %s on %s was deleted by hand, and who held the lock may hold it still: once nobody uses it, delete %s too", store.ErrCorrupt, b.nameNode(name), b.address, b.knownNode(name))
}

// versionOf returns the version of a record: the transaction that wrote it, the version that
// ZooKeeper compares, and the epoch in which it was read.
func versionOf(s *zk.Stat, e epoch) string {
	return written(s) + strconv.Itoa(int(s.Version)) + "." + e.String()
}

func written(s *zk.Stat) string { return strconv.FormatInt(s.Mzxid, 36) + "." }

func parseVersion(text string) (version int32, epoch string) {
	parts := strings.Split(text+"..", ".")
	n, _ := strconv.ParseInt(parts[1], 10, 32)
	return int32(n), parts[2]
}

// Load implements [record.Backend].
func (b *backend) Load(ctx context.Context, name string) (record.Record, error) {
	d, err := b.connected(ctx)
	if err == nil {
		if err = b.clocked(ctx, d); err == nil {
			r, _, err := b.read(ctx, d, name, true)
			return r, b.failed(err)
		}
	}
	return record.Record{}, b.failed(err)
}

// read reads a record and its inbox. A node has the number of its children, so if there are none,
// both are as of the same moment. Otherwise read reads the children, and then the record again if
// it has changed (law 11).
func (b *backend) read(ctx context.Context, d *data, name string, fresh bool) (r record.Record, g got, err error) {
	path, e := b.nameNode(name), d.epochNow()
	if g, err = get(ctx, d.link, path, fresh); err != nil {
		return r, g, err
	}
	r.Now, _ = b.now()
	if g.stat == nil {
		return r, g, nil
	}
	if g.stat.NumChildren > 0 { //mutant:zk-inbox-is-read
		in, err := b.children(ctx, d, path)
		if err != nil {
			return r, g, err
		}
		if r.Inbox, r.More, err = notesOf(path, in.nodes); err != nil {
			return r, g, err
		}
		if in.stat == nil || in.stat.Mzxid != g.stat.Mzxid {
			if g, err = get(ctx, d.link, path, false); err != nil || g.stat == nil {
				return record.Record{Now: r.Now}, g, err
			}
		}
	}
	r.Version = versionOf(g.stat, e)
	if r.Data = g.data; len(g.data) == 0 {
		return r, g, nil
	}
	switch {
	case g.data[0] > form && g.data[0] < 16:
		err = store.NewerFormError("node "+path+" on "+b.address, int(g.data[0]), form)
	case g.data[0] != form || len(g.data) <= head:
		err = fmt.Errorf("%w: node %s on %s was not written by holdfast, or is damaged: it was not changed", store.ErrCorrupt, path, b.address)
	}
	if err != nil { //mutant:zk-foreign-record-refused
		return record.Record{}, g, err
	}
	r.Data = g.data[head:]
	return r, g, nil
}

func (g *got) idle() bool { return len(g.data) >= head && g.data[1] == idle }

type children struct {
	nodes []string
	stat  *zk.Stat // nil: the node does not exist
}

func (b *backend) children(ctx context.Context, d *data, path string) (children, error) {
	return ask(ctx, d.link, func(c *zk.Conn) (in children, err error) {
		if in.nodes, in.stat, err = c.Children(path); errors.Is(err, zk.ErrNoNode) {
			return children{}, nil
		}
		return in, err
	})
}

// noteNode returns the node of a note: the newest transaction that its process had seen when its
// swap was refused, its index in the join, its key and its data. A later join has seen a later
// transaction.
func noteNode(newest uint64, place int, n *record.Note) string {
	return fmt.Sprintf("%016x-%02x-%s-%s", newest, place, n.Key, letters.EncodeToString(n.Data)) //mutant:zk-note-order
}

// notesOf returns the notes of a name in order; if they are too many for one swap, only the oldest.
func notesOf(path string, nodes []string) (notes []record.Note, more bool, err error) {
	slices.Sort(nodes)
	size := 0
	for _, node := range nodes {
		parts := strings.SplitN(node, "-", 4)
		if len(parts) != 4 || len(parts[0]) != 16 {
			return nil, false, fmt.Errorf("%w: node %s/%s is not one of holdfast, or of an older version: it was not changed", store.ErrCorrupt, path, node)
		}
		data, err := letters.DecodeString(parts[3])
		if err != nil {
			return nil, false, fmt.Errorf("%w: node %s/%s is damaged: it was not changed", store.ErrCorrupt, path, node)
		}
		if size += len(path) + len(node); size > maxInbox && len(notes) >= record.MaxNotes {
			return notes, true, nil
		}
		notes = append(notes, record.Note{Key: parts[2], Data: data, Version: node})
	}
	return notes, false, nil
}

// Swap implements [record.Backend].
func (b *backend) Swap(ctx context.Context, s *record.Swap) (out record.Outcome, err error) {
	d, err := b.connected(ctx)
	if err != nil {
		return out, b.failed(err)
	}
	if s.Lost && s.Join != nil { //mutant:zk-lost-swap-is-sent
		return b.refused(ctx, d, s)
	}
	version, in := parseVersion(s.Old.Version) //mutant:zk-swap-on-its-version
	path, data := b.nameNode(s.Name), append([]byte{form, 0}, s.Data...)
	if s.Idle {
		data[1] = idle
	}
	marker := b.marker(b.due(b.retention), s.Name)
	letters, marked := s.Notifications, true
	for range attempts {
		e := d.epochNow()
		if s.Old.Version != "" && in != e.String() { // records were deleted; was one of this name replaced?
			g, err := get(ctx, d.link, path, true)
			if err != nil {
				return out, b.failed(err)
			}
			if in = e.String(); g.stat == nil || !strings.HasPrefix(s.Old.Version, written(g.stat)) { //mutant:zk-version-of-another-epoch
				return b.refused(ctx, d, s)
			}
		}
		ops := []any{exists(d.node)}                                                        //mutant:zk-swap-after-a-wipe
		ops = append(ops, &zk.CheckVersionRequest{Path: b.path + "/i", Version: e.version}) //mutant:zk-swap-in-its-epoch
		made := len(ops)
		if s.Old.Version == "" {
			if ops = append(ops, b.begun(s.Name)...); marked {
				ops = append(ops, b.create(marker, "", zk.FlagPersistent))
			}
		}
		for i := range s.Old.Inbox {
			ops = append(ops, &zk.DeleteRequest{Path: path + "/" + s.Old.Inbox[i].Version, Version: -1}) //mutant:zk-note-goes
		}
		if ops = append(ops, &zk.SetDataRequest{Path: path, Data: data, Version: version}); version == -2 { // -1 would be any version
			ops = append(ops, &zk.SetDataRequest{Path: path, Data: data, Version: -1}) //mutant:zk-version-that-is-none
		}
		set := len(ops) - 1
		for i := range letters {
			ops = append(ops, b.letter(&letters[i])...)
		}
		sent := store.Now()
		all, failed, err := multi(ctx, d.link, ops...)
		missing := errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNodeExists)
		switch {
		case err == nil:
			b.hear(all[set].Stat, sent)
			if letters == nil {
				b.notify(d, s.Notifications)
			}
			out.Done, out.Current, out.Inbox = true, true, all[set].Stat.NumChildren == 0
			out.Now.Version, out.Now.Now = versionOf(all[set].Stat, e), all[set].Stat.Mtime*1000
			return out, nil
		case failed < 0 || !missing && !errors.Is(err, zk.ErrBadVersion):
			return out, b.failed(err)
		case failed == 0, s.Old.Version == "" && failed-made < 2 && errors.Is(err, zk.ErrNoNode): // all was deleted
			b.leave(d) //mutant:zk-all-was-deleted
			return out, nil
		case failed == 1:
			err = b.epochAgain(ctx, d)
		case failed > set: // the process to notify has ended
			letters = nil
			continue
		case s.Old.Version == "" && failed == made+1:
			return out, b.deletedByHand(s.Name)
		case s.Old.Version == "" && failed == made+2 && marked:
			marked, err = b.makeDue(ctx, d, marker, err)
		default:
			return b.refused(ctx, d, s)
		}
		if err != nil {
			return out, b.failed(err)
		}
	}
	return out, nil
}

// refused joins, or returns the current record.
func (b *backend) refused(ctx context.Context, d *data, s *record.Swap) (out record.Outcome, err error) {
	if s.Join != nil {
		out.Joined, err = b.join(ctx, d, s)
	} else if out.Now, _, err = b.read(ctx, d, s.Name, false); err == nil {
		out.Current, out.Inbox = true, true
	}
	return out, b.failed(err)
}

// join leaves notes on the connection of their session, so that they end with it. It fails if the
// session was called.
func (b *backend) join(ctx context.Context, d *data, s *record.Swap) (joined bool, err error) {
	o := b.ofOwn(s.Join.Session)
	if o == nil {
		return false, nil
	}
	path, newest := b.nameNode(s.Name), d.newest()
	parent := []any{}
	for range attempts {
		ops := append([]any{&zk.CheckVersionRequest{Path: b.callsNode(s.Join.Session), Version: int32(s.Join.Calls)}}, parent...) //mutant:zk-join-uncalled
		for i := range s.Join.Notes {
			ops = append(ops, b.create(path+"/"+noteNode(newest, i, &s.Join.Notes[i]), "", zk.FlagEphemeral))
		}
		_, failed, err := multi(ctx, o.link, ops...)
		switch {
		case err == nil:
			return true, nil
		case failed == 0 && (errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode)):
			return false, nil
		case errors.Is(err, zk.ErrSessionExpired): // its notes were deleted with it
			return false, nil
		case failed < 0 || !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNodeExists):
			return false, err
		case errors.Is(err, zk.ErrNodeExists) && failed > len(parent): // the join was applied before
			return true, nil
		case errors.Is(err, zk.ErrNodeExists) && failed == 2:
			return false, b.deletedByHand(s.Name)
		case errors.Is(err, zk.ErrNodeExists): // the name exists again, or its marker still exists
			parent = parent[:failed-1]
		case failed == 3 && len(parent) == 3: // the date does not exist yet
			if _, err := b.makeDue(ctx, d, parent[2].(*zk.CreateRequest).Path, err); err != nil {
				return false, err
			}
		case len(parent) > 0: // all was deleted
			return false, nil
		default: // the name was deleted meanwhile
			parent = append(b.begun(s.Name), b.create(b.marker(b.due(b.retention), s.Name), "", zk.FlagPersistent)) //mutant:zk-note-without-record
		}
	}
	return false, nil
}

// notify writes letters one by one, because some have no listener.
func (b *backend) notify(d *data, all []record.Notification) {
	for i := range all {
		b.tasks.Go(func() {
			ctx, cancel := context.WithTimeout(b.ctx, startTimeout)
			defer cancel()
			_, _, _ = multi(ctx, d.link, b.letter(&all[i])...) //mutant:zk-told-one-by-one
		})
	}
}
