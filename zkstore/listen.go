package zkstore

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/record"
)

// A listener has a mailbox: a node whose children are letters. The content of a letter is its name.
// The listener watches the children. It deletes delivered letters once they are many, or none has
// come for a while. Letters are not written to the mailbox of a process that has no listener.

const (
	// Bounds of the pause before a broken watch is restarted.
	leastPause = 50 * time.Millisecond
	mostPause  = 3 * time.Second
	// lull is how long the newest letters stay, unless they are many. A deletion is a request, so
	// each deletes several.
	lull        = 5 * time.Second
	manyLetters = 16
)

func (b *backend) mailbox(p store.Process) string { return b.path + "/m/" + p.String() }

// here is the node that shows that there is a listener.
const here = "/here"

var letters = base64.RawURLEncoding

// letter returns the operations that write a letter.
func (b *backend) letter(n *record.Notification) []any {
	l := binary.BigEndian.AppendUint64(nil, rand.Uint64()) // no two are the same
	l = record.AppendNotifications(l, []record.Notification{*n})
	box := b.mailbox(n.ID.Process())
	return []any{exists(box + here), b.create(box+"/l"+letters.EncodeToString(l), "", zk.FlagPersistent)}
}

func parseLetter(node string) (n record.Notification, ok bool) {
	text, is := strings.CutPrefix(node, "l")
	l, err := letters.DecodeString(text)
	if is && err == nil && len(l) > 8 {
		record.ParseNotifications(l[8:], func(one record.Notification) { n, ok = one, true })
	}
	return n, ok
}

// Listen implements [record.Backend].
func (b *backend) Listen(ctx context.Context, p store.Process, sink func(record.Notification)) error {
	listening, stop := context.WithCancel(b.ctx)
	begun := make(chan struct{})
	b.tasks.Go(func() {
		defer stop()
		first := true
		for pause := leastPause; listening.Err() == nil; pause = min(2*pause, mostPause) {
			_ = b.listen(listening, p, sink, func() {
				if pause = leastPause; first {
					first = false
					close(begun)
				} else { // notifications before the end of the old session are lost
					sink(record.Notification{}) //mutant:zk-nobody-looks-once-watch
				}
			})
			select {
			case <-listening.Done():
			case <-time.After(pause/2 + rand.N(pause)):
			}
		}
	})
	select {
	case <-begun:
		return nil
	case <-ctx.Done():
		stop() //mutant:zk-failed-listen-goes-on
		return ctx.Err()
	case <-b.ctx.Done():
		return b.ctx.Err()
	}
}

// listen delivers the letters of a process until the session or the context ends. After a reconnect
// of the same session it reads and watches again; the letters are still there.
func (b *backend) listen(ctx context.Context, p store.Process, sink func(record.Notification), begun func()) error {
	d, err := b.connected(ctx)
	if err != nil {
		return err
	}
	box := b.mailbox(p)
	if _, err = ask(ctx, d.link, func(c *zk.Conn) (struct{}, error) {
		err := b.made(c, func() error {
			if err := b.makePath(c, box, zk.FlagContainer); err != nil {
				return err
			}
			_, err := c.Create(box+here, nil, zk.FlagEphemeral, b.o.ACL)
			return err
		})
		if !errors.Is(err, zk.ErrNodeExists) {
			return struct{}{}, err
		}
		if _, stat, there := c.Exists(box + here); there == nil && stat.EphemeralOwner == c.SessionID() {
			err = nil // it is from an earlier call in this session
		}
		return struct{}{}, err
	}); err != nil {
		return err
	}
	what := watched{box, true}
	delivered := map[string]bool{}
	for notified, lulled := false, false; ; {
		var goes []any
		if len(delivered) >= manyLetters || lulled { //mutant:zk-letters-pile-up
			for node := range delivered {
				goes = append(goes, &zk.DeleteRequest{Path: box + "/" + node, Version: -1})
			}
		}
		lulled = false
		events := d.expect(what)
		nodes, err := ask(ctx, d.link, func(c *zk.Conn) (nodes []string, err error) {
			if len(goes) > 0 {
				_, _ = c.Multi(goes...) // what fails is repeated with the next
			}
			err = d.asking(what, func() (err error) {
				nodes, _, err = c.Children(box)
				return err
			})
			return nodes, err
		})
		if err != nil {
			d.unexpect(what, events)
			return err
		}
		there := map[string]bool{}
		for _, node := range nodes {
			n, ok := parseLetter(node)
			if !ok {
				continue
			}
			if there[node] = true; !delivered[node] {
				sink(n)
			}
		}
		delivered = there
		if !notified {
			notified = true
			begun()
		}
		quiet := make(<-chan time.Time)
		if len(delivered) > 0 {
			quiet = time.After(lull)
		}
		select {
		case e := <-events:
			if e.Type == zk.EventNotWatching {
				return zk.ErrSessionExpired
			}
		case <-quiet:
			lulled = true
			d.unexpect(what, events)
		case <-ctx.Done():
			d.unexpect(what, events)
			return ctx.Err()
		}
	}
}
